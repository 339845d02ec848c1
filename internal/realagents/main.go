// Command harnesses drives real coding agents against a scripted model and checks
// that tasklock keeps their sessions apart.
//
// It installs pinned versions from the npm registry into the user's cache folder,
// gives each an empty home and a repository that "tasklock agents install" and
// "tasklock guard install" have set up, and plays the scripts of script.go: the
// model's answers are data, and what the harness shows the model in return is what
// is checked. The model is a server on loopback; there is no account, and what
// tries to reach another host is refused and noted.
//
// A harness that cannot be installed or does not start is a failure, never left
// out. "make harnesses" runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// calls counts the tool calls of the model.
var calls atomic.Int64

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "harnesses:", err)
		os.Exit(1)
	}
}

type options struct {
	tasklock string // the command under test
	record   string // where the events that hooks were given are kept; empty: nowhere
	keep     bool   // keep the folders of the runs
	only     string // scripts with this in their name
	verbose  bool
	log      string // a file for every request of the harnesses
}

func run(ctx context.Context, args []string) error {
	o := options{}
	f := flag.NewFlagSet("harnesses", flag.ContinueOnError)
	f.StringVar(&o.tasklock, "tasklock", "bin/tasklock", "the tasklock to test")
	f.StringVar(&o.record, "record", "", "write the events that hooks were given into this folder")
	f.StringVar(&o.only, "script", "", "only play the scripts with this in their name")
	f.StringVar(&o.log, "log", "", "write every request that the model gets into this file")
	f.BoolVar(&o.keep, "keep", false, "keep the folders of the runs")
	f.BoolVar(&o.verbose, "v", false, "print every step and what came back")
	if err := f.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(f.Args())
	if err != nil {
		return err
	}
	if o.tasklock, err = filepath.Abs(o.tasklock); err != nil {
		return err
	}
	if _, err := os.Stat(o.tasklock); err != nil {
		return err
	}
	m, err := serveModel()
	if err != nil {
		return err
	}
	if o.log != "" {
		file, err := os.Create(o.log)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		m.log = file
	}
	var reports []report
	for _, h := range chosen {
		fmt.Printf("== %s %s%s\n", h.title, h.version, h.variant)
		reports = append(reports, tryHarness(ctx, m, h, o))
	}
	fmt.Print("\n", table(reports))
	return verdict(reports)
}

// choose is the harnesses of those names; all of them if there are none.
func choose(names []string) ([]harness, error) {
	if len(names) == 0 {
		return harnesses, nil
	}
	var out []harness
	for _, name := range names {
		n := len(out)
		for _, h := range harnesses {
			if h.name == name {
				out = append(out, h)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("no harness is called %q", name)
		}
	}
	return out, nil
}

// tryHarness installs a harness and plays every script with it.
func tryHarness(ctx context.Context, m *model, h harness, o options) report {
	r := newReport(h)
	dir, err := install(ctx, h)
	if err != nil {
		r.failAll(fmt.Sprintf("cannot be installed: %v", err))
		return r
	}
	for _, s := range scripts {
		if ctx.Err() == nil && strings.Contains(s.name, o.only) {
			play(ctx, m, h, dir, s, o, &r)
		}
	}
	return r
}
