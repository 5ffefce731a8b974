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
	Proofs  []cas.Digest // the manifests of the bundles that it has proofs of
}

// Check compares the directory dir with what Write would make of it for these objects. It reads and hashes
// everything. A missing directory is fs.ErrNotExist; damage in a file is reported, never returned as an error.
func Check(ctx context.Context, dir string, objects []Object) (*Report, error) {
	plan, err := newPlan(objects)
	if err != nil {
		return nil, err
	}
	files, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	defer files.Root.Close()
	listing, err := files.list()
	if err != nil {
		return nil, err
	}
	checker := &checker{files: files, found: make(map[cas.ID]bool),
		report: &Report{Files: len(plan.packs) + len(plan.large), Objects: plan.objects, Bytes: plan.bytes,
			Foreign: listing.others,
			Stale:   listing.unfinished}}
	if ok, err := files.hasAttributes(); err != nil {
		return nil, err
	} else if !ok {
		checker.report.Stale = append(checker.report.Stale, attributesName)
	}
	for _, name := range listing.proofs {
		id, _, _ := cutDigest([]byte(name))
		checker.report.Proofs = append(checker.report.Proofs, id)
	}
	// Missing files are examined too, as empty ones.
	names := slices.Concat(listing.packs, listing.large)
	want := make(map[string][]entry, len(plan.packs))
	for i := range plan.packs {
		want[plan.packs[i].name] = plan.packs[i].entries
		names = append(names, plan.packs[i].name)
	}
	for i := range plan.large {
		names = append(names, largeName(plan.large[i].ID))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	err = cas.Parallel(ctx, syncsAtOnce, len(names), func(ctx context.Context, i int) error {
		if id, ok := parseLarge(names[i]); ok {
			return checker.large(id, names[i], plan)
		}
		return checker.pack(names[i], want[names[i]])
	})
	if err != nil {
		return nil, err
	}
	return checker.finish(plan), nil
}

type checker struct {
	files *files

	mu     sync.Mutex
	found  map[cas.ID]bool // undamaged objects
	report *Report
}

func (c *checker) pack(name string, want []entry) error {
	state, err := c.files.examine(name)
	if err != nil {
		return err
	}
	whole, missing, _ := state.lines(want)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range state.good {
		if k.id.Kind != signed {
			c.found[k.id] = true
		}
	}
	c.report.Damaged = append(c.report.Damaged, state.damaged...)
	if len(want) == 0 || len(missing) > 0 || string(whole) != string(state.file) {
		c.report.Stale = append(c.report.Stale, name)
	}
	return nil
}

func (c *checker) large(id cas.ID, name string, plan *plan) error {
	n, err := c.files.hashFile(id, name)
	damaged := isOurs(err)
	if err != nil && !damaged && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	i, want := slices.BinarySearchFunc(plan.large, entry{ID: id}, compareEntries)
	c.mu.Lock()
	defer c.mu.Unlock()
	if damaged {
		c.report.Damaged = append(c.report.Damaged, inFile(name, err))
	}
	if err == nil {
		c.found[id] = true
	}
	if !want || err != nil || n != plan.large[i].size {
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
func (c *checker) finish(plan *plan) *Report {
	report := c.report
	need := func(e *entry) {
		if e.Kind != signed && !c.found[e.ID] {
			report.Missing = append(report.Missing, e.ID)
		}
		delete(c.found, e.ID)
	}
	for i := range plan.packs {
		for j := range plan.packs[i].entries {
			need(&plan.packs[i].entries[j])
		}
	}
	for i := range plan.large {
		need(&plan.large[i])
	}
	for id := range c.found {
		report.Superfluous = append(report.Superfluous, id)
	}
	for _, ids := range [][]cas.ID{report.Missing, report.Superfluous} {
		slices.SortFunc(ids, func(a, b cas.ID) int { return compareEntries(entry{ID: a}, entry{ID: b}) })
	}
	slices.Sort(report.Stale)
	// Lines of one file were found in order.
	slices.SortStableFunc(report.Damaged, func(a, b *Error) int { return strings.Compare(a.File, b.File) })
	return report
}
