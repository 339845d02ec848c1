package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// File names are made of lower-case letters, digits and a few signs that mean
// nothing to any file system, so that names stay apart where case is folded
// and accents are composed. In them
//
//   - is a slash
//     ^x   is the upper-case letter X
//     %xx  is any other byte
//     ~    comes before the hash that ends a name cut short
//
// A name decodes to one key, except when it was cut; then the key is only
// inside the file, and the file must be opened to learn it.
const (
	maxName = 140 // bytes; some file systems on top of others allow 143
	cutName = 80  // what stays readable of a longer one
)

const hexDigits = "0123456789abcdef"

// encodeName returns the file name of a kind or of a record's name.
func encodeName(s string) string {
	b := make([]byte, 0, len(s)+8)
	for i := range len(s) {
		b = appendEncoded(b, s[i], i == 0, i == len(s)-1)
	}
	if reserved(b) {
		b = append([]byte{'%', hexDigits[b[0]>>4], hexDigits[b[0]&15]}, b[1:]...)
	}
	if len(b) > maxName {
		sum := sha256.Sum256([]byte(s))
		return string(b[:cutName]) + "~" + hex.EncodeToString(sum[:20])
	}
	return string(b)
}

func appendEncoded(b []byte, c byte, first, last bool) []byte {
	switch {
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '@', c == '=':
		return append(b, c)
	case c == '-' && !first, c == '.' && !first && !last:
		return append(b, c)
	case c == '/':
		return append(b, '+')
	case c >= 'A' && c <= 'Z':
		return append(b, '^', c|0x20)
	}
	return append(b, '%', hexDigits[c>>4], hexDigits[c&15])
}

// reserved reports whether a name is a device on Windows, with any ending.
func reserved(name []byte) bool {
	stem, _, _ := strings.Cut(string(name), ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && stem[3] >= '0' && stem[3] <= '9'
}

// decodeName undoes encodeName. cut: the name was cut short, and may be ours.
// Neither ok nor cut: no file of ours has that name.
func decodeName(name string) (s string, cut, ok bool) {
	if strings.Contains(name, "~") {
		return "", isCut(name), false
	}
	b := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '+':
			b = append(b, '/')
		case c == '^' && i+1 < len(name):
			i++
			b = append(b, name[i]&^0x20)
		case c == '%' && i+2 < len(name):
			b = append(b, unhex(name[i+1])<<4|unhex(name[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	s = string(b)
	return s, false, s != "" && encodeName(s) == name
}

func isCut(name string) bool {
	return len(name) == cutName+1+40 && name[cutName] == '~' && strings.Trim(name[cutName+1:], hexDigits) == ""
}

func unhex(c byte) byte {
	if i := strings.IndexByte(hexDigits, c); i >= 0 {
		return byte(i)
	}
	return 0 // found out by encoding again
}
