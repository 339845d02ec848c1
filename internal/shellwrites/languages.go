package shellwrites

// A language is what differs between the languages of code.
type language struct {
	comment  string
	quotes   string // that begin a text
	triple   bool
	newline  bool                // ends a statement
	writes   map[string]position // functions by their last name
	commands []string            // functions that run a command line
	method   []string            // of a path object: Path("x").write_text(…)
	path     []string            // what makes a path object
	open     []string            // functions with a mode
}

// position says which arguments are written: the first, the second, both.
type position int

const (
	first position = 1 << iota
	second
)

var (
	awkWords = language{comment: "#", quotes: `"`, newline: true}
	python   = language{
		comment: "#", quotes: `'"`, triple: true, newline: true,
		open: []string{"open"}, path: []string{"Path", "PosixPath"},
		method: []string{"write_text", "write_bytes", "unlink", "touch", "rename", "replace", "mkdir", "rmdir", "chmod", "symlink_to"},
		writes: map[string]position{
			"remove": first, "unlink": first, "rename": first | second, "replace": first | second, "rmdir": first, "makedirs": first, "mkdir": first, "truncate": first, "chmod": first,
			"rmtree": first, "copy": second, "copy2": second, "copyfile": second, "copytree": second, "move": first | second, "symlink": second,
		},
		commands: []string{"system", "run", "call", "check_call", "check_output", "Popen", "popen", "getoutput"},
	}
	javascript = language{
		comment: "//", quotes: "'\"`",
		open: []string{"openSync", "open"},
		writes: map[string]position{
			"writeFileSync": first, "writeFile": first, "appendFileSync": first, "appendFile": first, "createWriteStream": first, "unlinkSync": first, "unlink": first,
			"rmSync": first, "rm": first, "rmdirSync": first, "renameSync": first | second, "rename": first | second, "copyFileSync": second, "copyFile": second, "cpSync": second,
			"mkdirSync": first, "truncateSync": first, "chmodSync": first, "symlinkSync": second, "writeTextFileSync": first, "writeTextFile": first, "removeSync": first,
		},
		commands: []string{"execSync", "exec"},
	}
	perlCode = language{
		comment: "#", quotes: `'"`,
		writes:   map[string]position{"unlink": first, "rename": first | second, "rmdir": first, "mkdir": first, "truncate": first, "rmtree": first, "copy": second, "move": first | second},
		commands: []string{"system"}, open: []string{"open"},
	}
	rubyCode = language{
		comment: "#", quotes: `'"`, newline: true,
		writes: map[string]position{
			"write": first, "binwrite": first, "delete": first, "unlink": first, "rename": first | second, "rm": first, "rm_f": first, "rm_rf": first, "rm_r": first,
			"mv": first | second, "cp": second, "cp_r": second, "touch": first, "mkdir": first, "mkdir_p": first, "truncate": first,
		},
		commands: []string{"system"}, open: []string{"open", "new"},
	}
)
