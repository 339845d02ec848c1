// Package fault holds what tests need inside the code and users must never
// meet: pauses between two steps, and a clock that is wrong. Both exist only in
// binaries built with the tag "failpoint"; elsewhere the functions are empty and
// compile to nothing. Package plant adds bugs.
package fault
