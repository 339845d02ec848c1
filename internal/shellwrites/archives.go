package shellwrites

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// Programs that pack, compress or split files.

// untar names the files in an archive; false: it cannot be read.
func (s *shell) untar(file string) (names []string, ok bool) {
	path := repo.Absolute(s.dir, file)
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > 16<<20 {
		return nil, false
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	var in io.Reader = f
	head := make([]byte, 3)
	_, _ = io.ReadFull(f, head)
	_, _ = f.Seek(0, io.SeekStart)
	switch {
	case head[0] == 0x1f && head[1] == 0x8b:
		if in, err = gzip.NewReader(f); err != nil {
			return nil, false
		}
	case string(head) == "BZh":
		in = bzip2.NewReader(f)
	}
	for r := tar.NewReader(io.LimitReader(in, 64<<20)); ; {
		h, err := r.Next()
		switch {
		case err == io.EOF:
			return names, true
		case err != nil || len(names) > maxListed:
			return nil, false
		case !strings.HasSuffix(h.Name, "/"):
			names = append(names, h.Name)
		}
	}
}

func (s *shell) tar(_ string, args []string) {
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' { // tar xf
		args = append([]string{"-" + args[0]}, args[1:]...)
	}
	files := values(args, 'f', "--file")
	does := func(letter byte, long string) bool { return hasFlag(args, letter) || has(args, long) }
	if len(files) > 0 && files[0] != "-" && (does('c', "--create") || does('r', "--append") || does('u', "--update")) {
		s.write(files[0])
		return
	}
	if !does('x', "--extract") && !has(args, "--get") || hasFlag(args, 'O') || has(args, "--to-stdout") {
		return
	}
	if len(files) == 0 || !repo.Exists(repo.Absolute(s.dir, files[0])) {
		return // it comes from a pipe, or an earlier command makes it: nobody knows what is in it
	}
	names, ok := s.untar(files[0])
	strip := number(values(args, 0, "--strip-components"), 0)
	in := s.inFolder(last(values(args, 'C', "--directory"), ""))
	in.extract(names, ok, strip, operands(args, "-f", "-C", "--file", "--directory", "--strip-components"), files)
}

// extract notes members of an archive, all of them or those that are named.
func (s *shell) extract(names []string, ok bool, strip int, members, archives []string) {
	if !ok {
		s.tree(".")
		return
	}
	wanted := func(name string) bool {
		some := false
		for _, m := range members {
			if slices.Contains(archives, m) {
				continue
			}
			some = true
			if m = strings.TrimSuffix(m, "/"); name == m || strings.HasPrefix(name, m+"/") || matches(m, name) {
				return true
			}
		}
		return !some
	}
	for _, n := range names {
		if !wanted(n) {
			continue
		}
		parts := strings.Split(strings.TrimPrefix(n, "./"), "/")
		if len(parts) > strip {
			s.write(filepath.Join(parts[strip:]...))
		}
	}
}

func (s *shell) unzip(_ string, args []string) {
	ops := operands(args, "-d", "-x")
	if len(ops) == 0 || hasFlag(args, 'l', 't', 'p', 'v', 'Z', 'z') {
		return
	}
	in := s.inFolder(last(values(args, 'd', ""), ""))
	path := repo.Absolute(s.dir, ops[0])
	if !repo.Exists(path) {
		path += ".zip"
	}
	r, err := zip.OpenReader(path)
	if err != nil {
		return
	}
	defer func() { _ = r.Close() }()
	var names []string
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, "/") || hasFlag(args, 'n') && repo.Exists(repo.Absolute(in.dir, f.Name)) {
			continue
		}
		name := f.Name
		if hasFlag(args, 'j') {
			name = filepath.Base(name)
		}
		names = append(names, name)
	}
	in.extract(names, len(names) <= maxListed, 0, ops[1:], nil)
}

func (s *shell) zip(_ string, args []string) {
	if ops := operands(args, "-x", "-i"); len(ops) > 0 {
		if !strings.Contains(filepath.Base(ops[0]), ".") {
			ops[0] += ".zip"
		}
		s.write(ops[0])
		if hasFlag(args, 'm') {
			s.gone(ops[1:]...)
		}
	}
}

// compress replaces files by compressed ones, or the other way round.
func (s *shell) compress(name string, args []string) {
	if hasFlag(args, 'c', 'l', 't') || has(args, "--stdout", "--list", "--test") {
		return
	}
	ends := map[string]string{"gzip": ".gz", "gunzip": ".gz", "bzip2": ".bz2", "bunzip2": ".bz2", "xz": ".xz", "unxz": ".xz", "zstd": ".zst"}[name]
	back := strings.Contains(name, "un") || hasFlag(args, 'd')
	for _, p := range operands(args, "-o", "-S") {
		if name != "zstd" && !hasFlag(args, 'k') && !has(args, "--keep") {
			s.gone(p)
		}
		if back {
			s.write(strings.TrimSuffix(p, ends))
		} else {
			s.write(p + ends)
		}
	}
}

// split cuts a file into several, whose names have a common beginning.
func (s *shell) split(name string, args []string) {
	prefix := "x"
	ops := operands(args, "-l", "-b", "-C", "-n", "-a", "-t", "-f", "--lines", "--bytes", "--number")
	switch {
	case name == "csplit":
		prefix = last(values(args, 'f', "--prefix"), "xx")
	case len(ops) > 1:
		prefix = ops[1]
	}
	if name == "split" && len(ops) == 0 {
		return
	}
	s.write(prefix + anyName)
}
