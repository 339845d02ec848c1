// Package fault holds what tests need inside the code and users must never
// meet: pauses between two steps, and bugs planted on purpose to show that a
// test can fail. Both exist only in binaries built with the tag "failpoint";
// elsewhere the functions are empty and compile to nothing.
package fault
