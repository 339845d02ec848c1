package host

import (
	"bytes"
	"encoding/binary"
)

// commandWords reads the command line of a process in macOS's form: the number
// of words, the program's file, zeros, the words, and then the environment.
func commandWords(args []byte) (words []string) {
	if len(args) < 4 {
		return nil
	}
	count := binary.NativeEndian.Uint32(args)
	_, rest, _ := bytes.Cut(args[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for ; count > 0 && len(rest) > 0; count-- {
		var word []byte
		word, rest, _ = bytes.Cut(rest, []byte{0})
		words = append(words, string(word))
	}
	return words
}
