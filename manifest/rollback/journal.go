package rollback

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/manifest"
)

// OfFileList returns the step of a file list. byName means that the source chose this version for the bundle's
// name, and that the user did not request it.
func OfFileList(l *manifest.FileList, source string, byName bool, at time.Time) Step {
	return Step{source, "bundle:" + l.BundleID, l.Version, l.ID, byName, at}
}

// OfRevocations returns the step of a revocation list.
func OfRevocations(r *manifest.Revocations, source string, at time.Time) Step {
	return Step{source, "revocations:" + r.List, strconv.FormatInt(r.Counter, 10), r.ID, true, at}
}

// A Step is a signed document that a source has under a name, and that was or will be accepted.
type Step struct {
	Source   string     // a registry, a directory, the address of a list
	Name     string     // the signed name without the version: "bundle:acme/x", "revocations:acme"
	Position string     // the version, or the counter in decimal digits
	ID       cas.Digest // of the document
	ByName   bool       // the name was requested, not this position
	At       time.Time  // information for people
}

// An Error is returned for a step that contradicts what was seen before.
type Error struct {
	Step Step
	Seen Step // the earlier one
}

func (e *Error) Error() string {
	s, o := e.Step, e.Seen
	if s.ID == o.ID {
		return fmt.Sprintf("%q %s was already applied, at %s; it can be applied only once", s.Name, s.ID,
			o.At.Format(timeForm))
	}
	if s.Position == o.Position {
		return fmt.Sprintf("%q %s from %+q is %s, but was %s when it was seen at %s", s.Name, s.Position, s.Source,
			s.ID, o.ID, o.At.Format(timeForm))
	}
	return fmt.Sprintf("%q from %+q goes back to %s: it was at %s at %s", s.Name, s.Source, s.Position, o.Position,
		o.At.Format(timeForm))
}

// The reasons of an Error, each one word.
const (
	Older    = "older"    // the name would go back to an older version or counter
	Other    = "other"    // another document with the same version or counter
	Repeated = "repeated" // already applied, and allowed only once
)

// Reason returns one of the words above.
func (e *Error) Reason() string {
	switch {
	case e.Step.ID == e.Seen.ID:
		return Repeated
	case e.Step.Position == e.Seen.Position:
		return Other
	}
	return Older
}

// Fault returns the error as people and programs see it.
func (e *Error) Fault() *fault.Error {
	reason := e.Reason()
	failure := fault.New(fault.Rollback, "%s", e).From(e).On("reason", reason).On("name", e.Step.Name)
	switch kind, _, _ := strings.Cut(e.Step.Name, ":"); {
	case kind == "bundle":
		failure.On("version", e.Step.Position).On("seen", e.Seen.Position).On("manifest", e.Step.ID.String()).
			Because("an installed bundle doesn't go back by name, and the content of a version doesn't change")
		switch reason {
		case Older:
			failure.Try("rye bundle install " + e.Step.ID.String())
		case Other:
			failure.Try("rye docs sources")
		}
	case kind == "revocations" && reason == Older: // the words of package policy
		failure.On("reason", "list-older")
	case kind == "revocations" && reason == Other:
		failure.On("reason", "list-forked")
	}
	return failure
}

// damaged returns an error about the journal as people and programs see it.
func damaged(err error) error {
	e, ok := errors.AsType[*journal.DamagedError](err)
	if _, done := fault.Find(err); !ok || done {
		return err
	}
	return fault.New(fault.Integrity, "%s", e).From(e).On("reason", "journal").On("path", e.Path).
		Because("it remembers the versions seen, so that older ones are refused",
			"restore it from a backup; if you delete both files, rye starts over and trusts what it sees first").
		Try("rm -f " + fault.Quote(e.Path) + " " + fault.Quote(journal.LockPath(e.Path)))
}

// A Journal is the memory against rollback, in the file at Path. The first record creates the file and its
// directory. Any number of processes and goroutines may use it at once; each call reads the file again.
type Journal struct {
	Path string
	Wait time.Duration // how long to wait for other processes; 30 seconds when zero

	hook journal.Hook
}

// Check returns nil if the steps, in this order, contradict nothing that was seen, else an *Error for the first
// that does. It changes nothing.
func (j *Journal) Check(steps ...Step) error {
	m, err := j.load()
	if err != nil {
		return err
	}
	_, err = m.apply(steps)
	return err
}

// Record checks all the steps and remembers them. When it returns nil, they are on disk; after an error the caller
// must accept none of them. It waits at most Wait for other processes, then returns fault.Busy.
func (j *Journal) Record(ctx context.Context, steps ...Step) error {
	return j.change(ctx, func(m *memory) ([]byte, error) { return m.apply(steps) })
}

// Once remembers a step that may be applied a single time, such as a rotation. If its id was remembered under its
// source and name before, it returns an *Error. Such steps have no order, so Once sets Position to their number and
// ignores ByName. As with Record, the step is on disk when it returns nil.
func (j *Journal) Once(ctx context.Context, s Step) error {
	return j.change(ctx, func(m *memory) ([]byte, error) {
		s, err := m.once(s)
		if err != nil {
			return nil, err
		}
		return m.apply([]Step{s})
	})
}

// CheckOnce is Once without remembering.
func (j *Journal) CheckOnce(s Step) error {
	m, err := j.load()
	if err == nil {
		_, err = m.once(s)
	}
	return err
}

// Forget forgets everything about a name from a source, for a user who knows that the source has started again. An
// unknown name is no error.
func (j *Journal) Forget(ctx context.Context, source, name string) error {
	return j.change(ctx, func(m *memory) ([]byte, error) {
		if m.names[subject{source, name}] == nil {
			return nil, nil
		}
		r := record{op: opForget, Step: Step{Source: source, Name: name}}
		return m.add(nil, r)
	})
}

// Seen returns the remembered steps, sorted by source, name and arrival. Of a name's steps only the current one, by
// name, has ByName set.
func (j *Journal) Seen() ([]Step, error) {
	m, err := j.load()
	if err != nil {
		return nil, err
	}
	return m.steps(), nil
}

// CheckNew refuses to make a file list anew if any source is remembered with another one for its version: everyone who
// saw that would refuse this one. A nil Journal remembers nothing.
func (j *Journal) CheckNew(list *manifest.FileList) error {
	if j == nil {
		return nil
	}
	seen, err := j.Seen()
	if err != nil {
		return err
	}
	for _, s := range seen {
		if s.Name == "bundle:"+list.BundleID && s.Position == list.Version && s.ID != list.ID {
			return fault.New(fault.Rollback, "%s@%s was released before with other content", list.BundleID,
				list.Version).
				Because("released  "+s.ID.String()+", from "+fault.Quote(s.Source)+", seen at "+s.At.Format(timeForm),
					"now       "+list.ID.String(), "a released version never changes: raise version in bundle.yaml").
				Try("rye docs release").On("reason", Other).On("bundle", list.BundleID).On("version", list.Version).
				On("seen", s.ID.String()).On("manifest", list.ID.String()).On("source", s.Source)
		}
	}
	return nil
}

func (j *Journal) load() (*memory, error) {
	m := newMemory()
	f, err := journal.Open(j.Path)
	if err == nil {
		defer f.Close()
		err = m.read(j.Path, f)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return m, damaged(err)
}

// compactAt is the size above which a journal is replaced if more than half of it is superseded.
const compactAt = 256 << 10

func (j *Journal) change(ctx context.Context, edit func(*memory) ([]byte, error)) error {
	to := journal.Journal{Path: j.Path, Wait: j.Wait, Check: checkHeader, Line: isLine, Hook: j.hook}
	return damaged(to.Append(ctx, func(end *journal.Tail) ([]byte, error) {
		m, err := j.load()
		if err != nil {
			return nil, err
		}
		added, err := edit(m)
		if err != nil || added == nil {
			return nil, err
		}
		if end.Size > compactAt || end.Size == 0 {
			all := m.write()
			if end.Replace = int64(len(all)) < end.Size/2; end.Replace || end.Size == 0 {
				return all, nil
			}
		}
		return added, nil
	}))
}
