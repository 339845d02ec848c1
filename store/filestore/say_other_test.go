//go:build !linux

package filestore_test

import "fmt"

func say(line string) { fmt.Println(line) }
