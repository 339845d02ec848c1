package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/place"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// commandLine returns a tasklock command line that can be typed as it stands. It
// repeats --owner and --store where the caller gave them; only a password is left
// for the caller to fill in.
func (a *App) commandLine(args ...string) string {
	words := []string{"tasklock"}
	words = append(words, args...)
	var global []string
	if a.StoreURL != "" {
		global = append(global, "--store", withoutPassword(a.StoreURL))
	}
	if a.Owner != "" {
		global = append(global, "--owner", a.Owner)
	}
	if a.Timeout != "" {
		global = append(global, "--timeout", a.Timeout)
	}
	if a.UnsafeFS {
		global = append(global, "--allow-unsafe-fs")
	}
	end := slices.Index(words, "--")
	if end < 0 {
		end = len(words)
	}
	words = slices.Insert(words, end, global...)
	for i, w := range words {
		words[i] = shellQuote(w)
	}
	return strings.Join(words, " ")
}

// shellQuote quotes a word for a POSIX shell, where that is needed.
func shellQuote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("@%_+=:,./-", r))
	}) {
		return s
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !visible(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	// What cannot be shown is spelled out, in the way bash, zsh and ksh read it.
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(s) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			const hex = "0123456789abcdef"
			b.WriteString(`\x`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// next is the command that helps after an error, or nothing.
func (a *App) next(err error) string {
	var hint *hinted
	if errors.As(err, &hint) {
		return hint.next
	}
	var elsewhere *placeError
	if errors.As(err, &elsewhere) {
		there := *a
		there.StoreURL = withoutPassword(elsewhere.url)
		if errors.Is(err, store.ErrNotEmpty) || errors.Is(err, driver.ErrMissing) {
			return there.commandLine("doctor")
		}
		return there.next(elsewhere.err)
	}
	var (
		held    *lock.HeldError
		lost    *lock.LostError
		cycle   *lock.CycleError
		owner   *lock.OwnerError
		usage   *usageError
		denied  *deniedError
		config  *ConfigError
		doubted *UntrustedError
		moved   *store.MovedError
		filled  *store.FillingError
		theirs  *deniedBusy
		no      *place.Error
		shared  *place.SharedError
		setting *noProjectError
		lacks   *driver.LacksError
	)
	switch {
	case errors.As(err, &theirs):
		return theirs.next
	case a.lookOffline(err) != "":
		return a.lookOffline(err)
	case a.taskNext(err) != "":
		return a.taskNext(err)
	case a.jobNext(err) != "":
		return a.jobNext(err)
	case errors.As(err, &held):
		return a.again()
	case errors.As(err, &cycle) && len(cycle.Chain) > 0:
		return a.commandLine("release", cycle.Chain[len(cycle.Chain)-1].Key)
	case errors.As(err, &lost):
		return a.afterLoss(lost)
	case errors.As(err, &owner):
		return a.afterRefusal(owner)
	case errors.As(err, &denied):
		return denied.next
	case errors.As(err, &usage):
		return strings.Join(strings.Fields("tasklock "+usage.help+" --help"), " ")
	case errors.As(err, &setting):
		return setting.next
	case errors.As(err, &shared):
		return useBranch(shared.Remote)
	case errors.As(err, &no) && len(no.Stores) > 0:
		return "tasklock doctor --store " + shellQuote(no.Stores[0])
	case errors.As(err, &no):
		return ownStore
	case errors.As(err, &doubted):
		return a.commandLine("config", "trust")
	case errors.As(err, &config):
		return a.afterConfig(config)
	case errors.As(err, &moved):
		return a.useStore(moved.To)
	case errors.As(err, &filled):
		return a.complete(filled)
	case errors.Is(err, driver.ErrDenied):
		if _, next := a.sandboxed(err); next != "" {
			return next
		}
		return a.commandLine("doctor")
	case errors.Is(err, lock.ErrNotFound):
		return a.commandLine("list")
	case errors.As(err, &lacks):
		return a.commandLine("doctor") // init would say the same
	case errors.Is(err, store.ErrBackupDamaged):
		return "tasklock restore --help"
	case errors.Is(err, driver.ErrMissing):
		return a.commandLine("init")
	case errors.Is(err, driver.ErrOlder):
		return a.commandLine("init", "--upgrade")
	case errors.Is(err, driver.ErrNewer):
		return "tasklock version" // the message says how to get another
	}
	switch v := judge(err); v.exit {
	case ExitUsage:
		return "tasklock " + a.command + " --help"
	case ExitUnknown, ExitDamaged, ExitUnsafe:
		return a.commandLine("doctor")
	case ExitSetup:
		return a.commandLine("config", "show")
	}
	return ""
}

// complete is the command that brings the rest of the records.
func (a *App) complete(e *store.FillingError) string {
	if e.Backup {
		return a.commandLine("restore", e.From)
	}
	to := a.StoreURL
	if to == "" && a.cfg != nil {
		to, _ = a.cfg.Store()
	}
	return "tasklock migrate --from " + shellQuote(e.From) + " --to " + shellQuote(withoutPassword(to))
}

// again is the command line that goes on waiting; set by commands that wait.
func (a *App) again() string {
	if a.retry == nil {
		return ""
	}
	return a.commandLine(a.retry...)
}

// afterConfig must be a command that works with the mistake still there.
func (a *App) afterConfig(e *ConfigError) string {
	if a.Env(e.File) != "" {
		return "unset " + e.File + "; " + a.commandLine("config", "show")
	}
	return a.commandLine("config", "path")
}

func (a *App) afterLoss(lost *lock.LostError) string {
	if a.command == "next" { // the task of an earlier request
		return a.commandLine("next", "--claim")
	}
	if strings.HasPrefix(lost.Key, "lease ") {
		return a.commandLine("list", "--mine")
	}
	if i := slices.Index(a.retry, "--max-hold"); i >= 0 && i+1 < len(a.retry) && lost.MaxHold > 0 {
		longer := slices.Clone(a.retry)
		longer[i+1] = exact(2 * lost.MaxHold)
		return a.commandLine(longer...)
	}
	return a.commandLine("acquire", lost.Key)
}

func (a *App) afterRefusal(e *lock.OwnerError) string {
	if strings.HasPrefix(e.Key, "lease ") {
		return a.commandLine("list")
	}
	return a.commandLine("show", e.Key)
}
