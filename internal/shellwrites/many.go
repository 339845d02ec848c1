package shellwrites

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Many names become a few patterns.

// maxListed is how many names are followed one by one.
const maxListed = 300

// existing are the names of files that exist, as a command prints them. It remembers
// their patterns, because a command that writes to them creates no file.
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

// summed are at most [maxListed] patterns for many names, by their folders and their
// endings. It goes as deep into the folders as that limit allows. Few names stay as
// they are.
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

// beside is a pattern for the files in the folder of a name that have its ending.
func beside(name string) string {
	end := ending(name)
	if end == "" {
		return name
	}
	return name[:strings.LastIndex(name, "/")+1] + anyName + end
}

// many are the names, or patterns if they would use up the targets.
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

// ending is what a name ends with, from its last dot on. It has no brackets, because
// patterns cannot have them.
func ending(name string) string {
	if strings.HasSuffix(name, anyPath) {
		return ""
	}
	return strings.NewReplacer("[", "?", "]", "?", "{", "?", "}", "?").Replace(filepath.Ext(name))
}

// unseen are patterns for what a walk through a folder did not see because it stopped
// before a path: everything behind that path, in the order of the walk. With a name,
// which is a pattern, only files of that name count.
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

// below is a pattern for all files in a folder, or for those of a name.
func below(folder, name string) string {
	folder = strings.TrimSuffix(folder, "/") + "/" + anyPath
	if name != "" {
		folder += "/" + strings.NewReplacer("*", anyName, "[", "?", "]", "?").Replace(name)
	}
	return folder
}
