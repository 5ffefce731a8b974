package vendor

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas"
)

// A Report lists the differences between a directory and what Write would make of it. All lists are sorted.
type Report struct {
	Files       int      // that Write would make
	Objects     int      // in them, sets of signatures included
	Bytes       int64    // of all objects
	Missing     []cas.ID // objects that no file has undamaged
	Damaged     []*Error // damaged files and lines
	Superfluous []cas.ID // unneeded objects
	Stale       []string // files that Write would write or remove
	// files of others, which this package leaves alone; directories end in "/"
	Foreign []string
}

// Check compares the directory dir with what Write would make of it for these objects. It reads and hashes
// everything. A missing directory is fs.ErrNotExist; damage in a file is reported, never returned as an error.
func Check(ctx context.Context, dir string, objects []Object) (*Report, error) {
	p, err := newPlan(objects)
	if err != nil {
		return nil, err
	}
	f, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	defer f.Root.Close()
	l, err := f.list()
	if err != nil {
		return nil, err
	}
	c := &checker{files: f, found: make(map[cas.ID]bool),
		report: &Report{Files: len(p.packs) + len(p.large), Objects: p.objects, Bytes: p.bytes, Foreign: l.others,
			Stale: l.unfinished}}
	if ok, err := f.hasAttributes(); err != nil {
		return nil, err
	} else if !ok {
		c.report.Stale = append(c.report.Stale, attributesName)
	}
	// Missing files are examined too, as empty ones.
	names := slices.Concat(l.packs, l.large)
	want := make(map[string][]entry, len(p.packs))
	for i := range p.packs {
		want[p.packs[i].name] = p.packs[i].entries
		names = append(names, p.packs[i].name)
	}
	for i := range p.large {
		names = append(names, largeName(p.large[i].ID))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	err = cas.Parallel(ctx, syncsAtOnce, len(names), func(ctx context.Context, i int) error {
		if id, ok := parseLarge(names[i]); ok {
			return c.large(id, names[i], p)
		}
		return c.pack(names[i], want[names[i]])
	})
	if err != nil {
		return nil, err
	}
	return c.finish(p), nil
}

type checker struct {
	files *files

	mu     sync.Mutex
	found  map[cas.ID]bool // undamaged objects
	report *Report
}

func (c *checker) pack(name string, want []entry) error {
	s, err := c.files.examine(name)
	if err != nil {
		return err
	}
	whole, missing, _ := s.lines(want)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range s.good {
		if k.id.Kind != signed {
			c.found[k.id] = true
		}
	}
	c.report.Damaged = append(c.report.Damaged, s.damaged...)
	if len(want) == 0 || len(missing) > 0 || string(whole) != string(s.file) {
		c.report.Stale = append(c.report.Stale, name)
	}
	return nil
}

func (c *checker) large(id cas.ID, name string, p *plan) error {
	n, err := c.files.hashFile(id, name)
	damaged := isOurs(err)
	if err != nil && !damaged && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	i, want := slices.BinarySearchFunc(p.large, entry{ID: id}, compareEntries)
	c.mu.Lock()
	defer c.mu.Unlock()
	if damaged {
		c.report.Damaged = append(c.report.Damaged, inFile(name, err))
	}
	if err == nil {
		c.found[id] = true
	}
	if !want || err != nil || n != p.large[i].size {
		c.report.Stale = append(c.report.Stale, name)
	}
	return nil
}

// inFile returns err as an *Error for a file.
func inFile(name string, err error) *Error {
	if ours, ok := errors.AsType[*Error](err); ok {
		return ours
	}
	return &Error{name, 0, 0, err}
}

// finish compares the objects found with the plan.
func (c *checker) finish(p *plan) *Report {
	r := c.report
	need := func(e *entry) {
		if e.Kind != signed && !c.found[e.ID] {
			r.Missing = append(r.Missing, e.ID)
		}
		delete(c.found, e.ID)
	}
	for i := range p.packs {
		for j := range p.packs[i].entries {
			need(&p.packs[i].entries[j])
		}
	}
	for i := range p.large {
		need(&p.large[i])
	}
	for id := range c.found {
		r.Superfluous = append(r.Superfluous, id)
	}
	for _, ids := range [][]cas.ID{r.Missing, r.Superfluous} {
		slices.SortFunc(ids, func(a, b cas.ID) int { return compareEntries(entry{ID: a}, entry{ID: b}) })
	}
	slices.Sort(r.Stale)
	// Lines of one file were found in order.
	slices.SortStableFunc(r.Damaged, func(a, b *Error) int { return strings.Compare(a.File, b.File) })
	return r
}
