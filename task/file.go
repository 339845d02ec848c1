package task

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

// MaxFile bounds a file to import.
const MaxFile = 8 << 20

// file is the JSON form of a list.
type file struct {
	Sections []fileSection `json:"sections,omitempty"`
	Tasks    []fileTask    `json:"tasks"`
}

// fileSection is a section with settings.
type fileSection struct {
	Name      string   `json:"name"`
	Priority  int      `json:"priority,omitempty"`
	Shared    bool     `json:"shared,omitempty"`
	Workers   int      `json:"workers,omitempty"`
	Skipped   bool     `json:"skipped,omitempty"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

type fileTask struct {
	New
	Status Status `json:"status,omitempty"`
}

// ImportRequest adds the tasks of a file, all of them or none.
type ImportRequest struct {
	Data   []byte
	Format string // "json" or "markdown"
	By     string
	ID     string // a repetition with this id, within a day, has one effect; empty: there is none
	DryRun bool
}

// Import reads a list of tasks. Ticked tasks are added as completed. It ignores
// claims in the file, and does not change existing sections.
func Import(ctx context.Context, st *store.Store, r ImportRequest) (AddResult, error) {
	if len(r.Data) > MaxFile {
		return AddResult{}, &lease.InvalidError{What: "file", Rule: fmt.Sprintf("has %d bytes, at most %d", len(r.Data), MaxFile)}
	}
	read := readJSON
	if r.Format == "markdown" {
		read = readMarkdown
	}
	list, groups, err := read(r.Data)
	if err != nil {
		return AddResult{}, &lease.InvalidError{What: "file", Rule: err.Error()}
	}
	if len(list) == 0 || len(list) > maxBatch {
		return AddResult{}, &lease.InvalidError{What: "file", Rule: fmt.Sprintf("holds %d tasks; 1 to %d can be imported at once", len(list), maxBatch)}
	}
	return adopt(ctx, st, AdoptRequest{Tasks: list, By: r.By, ID: r.ID, DryRun: r.DryRun}, groups)
}

// addSections adds the sections of a file that do not exist.
func addSections(tx *store.Tx, list []fileSection) (made []string, err error) {
	var fresh []SectionRequest
	for _, s := range list {
		r := SectionRequest{Priority: &s.Priority, Skipped: &s.Skipped, On: s.DependsOn}
		if s.Shared || s.Workers != 0 {
			n := Section{Shared: s.Shared, Workers: s.Workers}.workers()
			r.Workers = &n
		}
		if r.Name, err = checkSection(s.Name); err != nil {
			return nil, err
		}
		if s.Priority == 0 {
			r.Priority = nil
		}
		isNew, err := ensureSection(tx, r.Name)
		if err != nil {
			return nil, err
		}
		if isNew {
			fresh, made = append(fresh, r), append(made, r.Name)
		}
	}
	for _, r := range fresh {
		e, err := getSection(tx, r.Name)
		if err != nil {
			return nil, err
		}
		if err := r.apply(tx, &e.Value); err != nil {
			return nil, fmt.Errorf("section %s: %w", r.Name, err)
		}
		if err := tx.Put(sectionKind+r.Name, e.Value); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func readJSON(data []byte) ([]Past, []fileSection, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f file
	if err := dec.Decode(&f); err != nil {
		return nil, nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("something follows the list")
	}
	var out []Past
	for i, t := range f.Tasks {
		status := t.Status
		switch status {
		case InProgress: // its claim belongs to another store
			status = Pending
		case "", Pending, Review, Completed, Failed, Blocked, Skipped:
		default:
			return nil, nil, fmt.Errorf("task %d: no status %q", i+1, t.Status)
		}
		out = append(out, Past{New: t.New, Status: status})
	}
	return out, f.Sections, nil
}

var (
	heading = lazily(`^#{1,6}\s+(.+?)(\s+#+)?\s*$`)
	item    = lazily(`^\s*[-*+]\s+\[( |x|X)\]\s+(.+?)\s*$`)
	label   = lazily(`\s+#([^\s#\\,]+)$`)
	escaped = lazily("\\\\([!-/:-@[-`{-~])")
)

// readMarkdown reads the check boxes of a document: headings are sections, words
// like #api at the end are labels, other lines are ignored.
func readMarkdown(data []byte) ([]Past, []fileSection, error) {
	var out []Past
	section := ""
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := heading().FindStringSubmatch(line); m != nil {
			section = plain(m[1])
			continue
		}
		m := item().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n := Past{New: New{Section: section}}
		title := m[2]
		for l := label().FindStringSubmatch(title); l != nil; l = label().FindStringSubmatch(title) {
			n.Labels = append([]string{l[1]}, n.Labels...)
			title = strings.TrimSuffix(title, l[0])
		}
		n.Title = plain(title)
		if m[1] != " " {
			n.Status = Completed
		}
		out = append(out, n)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, err
	}
	if len(out) == 0 {
		return nil, nil, errors.New("no line like '- [ ] title' in it")
	}
	return out, nil, nil
}

// plain undoes Markdown's escapes.
func plain(text string) string {
	return strings.NewReplacer("&lt;", "<", "&amp;", "&").Replace(escaped().ReplaceAllString(text, "$1"))
}

// Export writes the working set as JSON, which Import reads, or as a Markdown
// checklist.
func Export(ctx context.Context, st *store.Store, w io.Writer, format string) error {
	all, err := List(ctx, st, ListRequest{})
	if err != nil {
		return err
	}
	if format == "markdown" {
		return writeMarkdown(w, all.Tasks)
	}
	groups, err := Sections(ctx, st, "")
	if err != nil {
		return err
	}
	f := file{Sections: fileSections(groups.Sections), Tasks: []fileTask{}}
	for _, t := range inDependencyOrder(all.Tasks) {
		f.Tasks = append(f.Tasks, fileTask{New{
			ID: t.ID, Title: t.Title, Aliases: t.Aliases, Description: t.Description, Section: t.Section, Priority: t.Priority,
			DependsOn: t.DependsOn, Labels: t.Labels,
		}, t.Status})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(f)
}

// fileSections are the sections with settings, and those they depend on.
func fileSections(all []SectionInfo) (out []fileSection) {
	needed := map[string]bool{}
	for _, s := range all {
		for _, d := range s.DependsOn {
			needed[d] = true
		}
	}
	for _, s := range all {
		if s.Priority != Medium || s.workers() != 1 || s.Skipped || len(s.DependsOn) > 0 || needed[s.Name] {
			out = append(out, fileSection{s.Name, s.Priority, s.Shared, s.Workers, s.Skipped, s.DependsOn})
		}
	}
	return out
}

// inDependencyOrder puts every task after its dependencies, so that Import finds
// them.
func inDependencyOrder(all []Info) []Info {
	byID := map[string]Info{}
	for _, t := range all {
		byID[t.ID] = t
	}
	done := map[string]bool{}
	var out []Info
	var visit func(Info)
	visit = func(t Info) {
		if done[t.ID] {
			return
		}
		done[t.ID] = true
		kept := t.DependsOn[:0:0]
		for _, d := range t.DependsOn {
			if dep, ok := byID[d]; ok { // an archived one is done
				kept = append(kept, d)
				visit(dep)
			}
		}
		t.DependsOn = kept
		out = append(out, t)
	}
	for _, t := range all {
		visit(t)
	}
	return out
}

var markdown = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "#", `\#`, "<", "&lt;", "&", "&amp;")

// writeMarkdown puts tasks without a section first: below a heading they would
// belong to it. It leaves out labels of more than a word.
func writeMarkdown(w io.Writer, all []Info) error {
	var b bytes.Buffer
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Info) int { return cmp.Compare(min(len(a.Section), 1), min(len(b.Section), 1)) })
	section := ""
	for _, t := range all {
		if t.Section != section {
			section = t.Section
			fmt.Fprintf(&b, "\n## %s\n\n", markdown.Replace(section))
		}
		box := " "
		if t.Status.Done() {
			box = "x"
		}
		fmt.Fprintf(&b, "- [%s] %s", box, markdown.Replace(t.Title))
		for _, l := range t.Labels {
			if label().MatchString(" #" + l) {
				fmt.Fprintf(&b, " #%s", l)
			}
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(bytes.TrimLeft(b.Bytes(), "\n"))
	return err
}
