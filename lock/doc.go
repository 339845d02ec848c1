// Package lock takes locks that expire when their holder dies, and gives each
// holder a fencing token.
package lock
