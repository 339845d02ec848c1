package gitstore

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/tasklock/tasklock/store/driver"
)

// The file of a record on the branch. "lock/deploy" is lock/deploy.yaml; a kind
// with very many records has 256 folders between.
//
// Letters, digits and a few signs are kept, every other byte is %xx. A name that
// is too long for a file system is cut and ends in "~" and a hash, which no other
// name has; then only the file has the key.
const (
	extension = ".yaml"
	longName  = 180 // bytes of an escaped name
	cutName   = 120
)

// folderName is the folder of a kind ("lock/"). It has no dot, so that it is
// never the name of a file at the top.
func folderName(kind string) string {
	return shorten(escape(strings.TrimSuffix(kind, "/"), false), kind)
}

// fileName is the file of a record inside its kind's folder.
func fileName(key string) string {
	return shorten(escape(key[len(driver.Kind(key)):], true), key) + extension
}

// keyOf returns the key of a file of a kind, or "" if only the file has it. ours
// is false for a name that we would not have given.
func keyOf(kind, file string) (key string, ours bool) {
	name, ok := strings.CutSuffix(file, extension)
	if !ok {
		return "", false
	}
	if strings.Contains(name, "~") {
		return "", true
	}
	name, err := url.PathUnescape(name)
	key = kind + name
	return key, err == nil && driver.CheckKey(key) == nil && fileName(key) == file
}

// kindOf returns the kind of a folder, or "" if only its files have it.
func kindOf(folder string) (kind string, ours bool) {
	if strings.Contains(folder, "~") {
		return "", true
	}
	name, err := url.PathUnescape(folder)
	return name + "/", err == nil && name != "" && folderName(name+"/") == folder
}

// shard is the folder between a large kind and a record.
func shard(key string) string { return digest(key)[:2] }

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_+=@,", c) >= 0
}

// escape keeps dots, except in front.
func escape(s string, dots bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if plain(c) || c == '.' && dots && i > 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteString(hex.EncodeToString([]byte{c}))
	}
	return b.String()
}

func shorten(escaped, key string) string {
	if len(escaped) <= longName {
		return escaped
	}
	cut := escaped[:cutName]
	if i := strings.LastIndexByte(cut, '%'); i >= cutName-2 { // not in the middle of an escape
		cut = cut[:i]
	}
	return cut + "~" + digest(key)[:32]
}
