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

// OfFileList returns what a Journal should remember of a file list; byName says that it came as what its id stands
// for there, and not because this version was asked for.
func OfFileList(l *manifest.FileList, source string, byName bool, at time.Time) Step {
	return Step{source, "bundle:" + l.BundleID, l.Version, l.ID, byName, at}
}

// OfRevocations returns what a Journal should remember of a revocation list.
func OfRevocations(r *manifest.Revocations, source string, at time.Time) Step {
	return Step{source, "revocations:" + r.List, strconv.FormatInt(r.Counter, 10), r.ID, true, at}
}

// A Step is something signed that came from a source under a name, or is about to be taken from it.
type Step struct {
	Source   string     // where it came from: a registry, a directory, the address of a list
	Name     string     // as signatures have it, without the version: "bundle:acme/x", "revocations:acme"
	Position string     // its version, or its counter in decimal digits
	ID       cas.Digest // of the document
	ByName   bool       // what is there under the name was asked for, not this position
	At       time.Time  // when, for people
}

// An Error is returned for a step that contradicts what was seen before.
type Error struct {
	Step Step
	Seen Step // the earlier one
}

func (e *Error) Error() string {
	s, o := e.Step, e.Seen
	if s.ID == o.ID {
		return fmt.Sprintf("%q %s was taken already, at %s, and is taken once only", s.Name, s.ID,
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
	Older    = "older"    // it goes back behind what was there
	Other    = "other"    // it is another of the same version or counter
	Repeated = "repeated" // it was taken already, and may be once only
)

// Reason is one of the words above.
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
	f := fault.New(fault.Rollback, "%s", e).From(e).On("reason", reason).On("name", e.Step.Name)
	switch kind, _, _ := strings.Cut(e.Step.Name, ":"); {
	case kind == "bundle":
		f.On("version", e.Step.Position).On("seen", e.Seen.Position).On("manifest", e.Step.ID.String()).
			Because("an installed bundle doesn't go back by name, and the content of a version doesn't change")
		switch reason {
		case Older:
			f.Try("rye bundle install " + e.Step.ID.String())
		case Other:
			f.Try("rye docs sources")
		}
	case kind == "revocations" && reason == Older: // the words of package policy
		f.On("reason", "list-older")
	case kind == "revocations" && reason == Other:
		f.On("reason", "list-forked")
	}
	return f
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

// A Journal is the memory against rollback, in the file at Path, which is made with its directory when something
// is first recorded. Any number of processes and goroutines may use one at once; each call looks at the file anew.
type Journal struct {
	Path string
	Wait time.Duration // for others to release it; zero for 30 seconds

	hook journal.Hook
}

// Check returns nil if the steps, taken one after the other, contradict nothing that was seen, else a
// *Error for the first that does. It changes nothing.
func (j *Journal) Check(steps ...Step) error {
	m, err := j.load()
	if err != nil {
		return err
	}
	_, err = m.apply(steps)
	return err
}

// Record is Check, and then remembers all the steps: when it returns nil they are on disk, and else none of them
// may count as taken. It waits for other processes, within bounds: an *osfile.BusyError.
func (j *Journal) Record(ctx context.Context, steps ...Step) error {
	return j.change(ctx, func(m *memory) ([]byte, error) { return m.apply(steps) })
}

// Once remembers a step that may be taken a single time, such as a rotation: one whose id was remembered under its
// source and name before is an *Error. Nothing orders such steps, so that Position is set here, to their number, and
// ByName isn't looked at. As with Record, the step is on disk when it returns nil.
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

// Forget forgets everything about a name from a source: the way back for a person who knows that a source began
// anew. It is no error if nothing was known.
func (j *Journal) Forget(ctx context.Context, source, name string) error {
	return j.change(ctx, func(m *memory) ([]byte, error) {
		if m.names[subject{source, name}] == nil {
			return nil, nil
		}
		r := record{op: opForget, Step: Step{Source: source, Name: name}}
		return m.add(nil, r)
	})
}

// Seen returns the steps that are remembered, sorted by source, name and the order they came in. A name's last
// position that it was at by name has ByName set, alone of its steps.
func (j *Journal) Seen() ([]Step, error) {
	m, err := j.load()
	if err != nil {
		return nil, err
	}
	return m.steps(), nil
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

// compactAt is the size from which a journal is rewritten when more than half of it says nothing any more.
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
