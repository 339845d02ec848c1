package shellwrites

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names that are too many to be followed one by one.

// maxListed bounds how many names are followed one by one.
const maxListed = 300

// existing are the names of files that are there, as a command prints them. What
// writes to one of them writes to what is there.
func (s *shell) existing(names []string) []string {
	few := summed(names)
	for _, n := range few {
		if strings.Contains(n, anyPath) || strings.Contains(n, anyName) {
			if s.r.there == nil {
				s.r.there = map[string]bool{}
			}
			s.r.there[n] = true
		}
	}
	return few
}

// summed are at most [maxListed] patterns for many names: by folder and by how the
// names end, of as many folders as there is room for. Few names are as they are.
func summed(names []string) []string {
	if len(names) <= maxListed {
		return names
	}
	top := common(names)
	alike := map[string]int{} // of one folder and ending
	for _, name := range names {
		alike[beside(name)]++
	}
	for depth := 3; depth >= 0; depth-- {
		var out []string
		seen := map[string]bool{}
		for _, name := range names {
			parts := strings.Split(name[len(top):], "/")
			if len(parts) <= depth && alike[beside(name)] > 10 {
				name = beside(name)
			} else if len(parts) > depth {
				name = top + strings.Join(append(parts[:depth:depth], anyPath, anyName+ending(name)), "/")
			}
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
		if len(out) <= maxListed {
			return out
		}
	}
	return []string{top + anyPath}
}

// beside stands for the files in the folder of a name that end as it does.
func beside(name string) string {
	end := ending(name)
	if end == "" {
		return name
	}
	return name[:strings.LastIndex(name, "/")+1] + anyName + end
}

// many are the names, or patterns for more of them than there may be targets.
func many(names []string) []string {
	if len(names) <= maxTargets/2 {
		return names
	}
	return summed(names)
}

// common is the folder that all names lie in, with its slash.
func common(names []string) string {
	top := names[0][:strings.LastIndex(names[0], "/")+1]
	for _, n := range names {
		for !strings.HasPrefix(n, top) {
			top = top[:strings.LastIndex(top[:len(top)-1], "/")+1]
		}
	}
	if i := strings.Index(top, anyPath); i >= 0 {
		top = top[:i]
	}
	return top
}

// ending is what a name ends with, behind its last dot. A pattern cannot have
// brackets.
func ending(name string) string {
	if strings.HasSuffix(name, anyPath) {
		return ""
	}
	return strings.NewReplacer("[", "?", "]", "?", "{", "?", "}", "?").Replace(filepath.Ext(name))
}

// unseen stands for what a walk through a folder, which stopped before a path, did
// not come to: what follows there, in the order of the walk. The name, if there is one,
// is a pattern of file names that counts alone.
func unseen(root, dir, stop, name string) (out []string) {
	rel, err := filepath.Rel(dir, stop)
	if err != nil || rel == "." {
		return []string{below(root, name)}
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	named := fits(name, true)
	for i, part := range parts {
		in := filepath.Join(append([]string{dir}, parts[:i]...)...)
		printed := strings.Join(append([]string{strings.TrimSuffix(root, "/")}, parts[:i]...), "/")
		list, err := os.ReadDir(in)
		if err != nil {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, part, func(e os.DirEntry, p string) int { return strings.Compare(e.Name(), p) })
		for _, e := range list[at:] {
			switch {
			case e.Name() == ".git", e.Name() == part && i < len(parts)-1:
				continue
			case e.IsDir():
				out = append(out, below(printed+"/"+e.Name(), name))
			}
			if name == "" && !e.IsDir() || name != "" && named(e.Name()) {
				out = append(out, printed+"/"+e.Name())
			}
		}
	}
	return out
}

// below stands for all files in a folder, or those of a name.
func below(folder, name string) string {
	folder = strings.TrimSuffix(folder, "/") + "/" + anyPath
	if name != "" {
		folder += "/" + strings.NewReplacer("*", anyName, "[", "?", "]", "?").Replace(name)
	}
	return folder
}
