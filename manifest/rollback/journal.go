package rollback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
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
		return fmt.Sprintf("%q %s was taken already, at %s, and is taken once only", s.Name, s.ID, o.At.Format(timeForm))
	}
	if s.Position == o.Position {
		return fmt.Sprintf("%q %s from %+q is %s, but was %s when it was seen at %s", s.Name, s.Position, s.Source, s.ID, o.ID, o.At.Format(timeForm))
	}
	return fmt.Sprintf("%q from %+q goes back to %s: it was at %s at %s", s.Name, s.Source, s.Position, o.Position, o.At.Format(timeForm))
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
		if reason == Older {
			f.Try("rye bundle install " + e.Step.ID.String())
		}
	case kind == "revocations" && reason == Older: // the words of package policy
		f.On("reason", "list-older")
	case kind == "revocations" && reason == Other:
		f.On("reason", "list-forked")
	}
	return f
}

// A DamagedError is returned for a journal that is damaged or gone. It never counts as empty.
type DamagedError struct {
	Path   string
	Offset int64 // where the damage begins
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the journal %q is damaged at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// Fault returns the error as people and programs see it.
func (e *DamagedError) Fault() *fault.Error {
	return fault.New(fault.Integrity, "%s", e).From(e).On("reason", "journal").On("path", e.Path).
		Because("it remembers the versions seen, so that older ones are refused",
			"restore it from a backup; if you delete both files, rye starts over and trusts what it sees first").
		Try("rm -f " + fault.Quote(e.Path) + " " + fault.Quote(e.Path+".lock"))
}

// A Journal is the memory against rollback, in the file at Path, which is made with its directory when something
// is first recorded. Any number of processes and goroutines may use one at once; each call looks at the file anew.
type Journal struct {
	Path string
	Wait time.Duration // for others to release it; zero for 30 seconds

	hook func(op string, b []byte) error // sees each change before it happens, and may fail it
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
	// Once there was one, its absence is a loss. Record marks the file of its lock when there is one, and may do so at any
	// time: looked for in the other order, one that was made in between would be lost.
	info, err := os.Stat(j.lockPath())
	marked := err == nil && info.Size() > 0
	b, err := os.ReadFile(j.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if marked {
			return nil, &DamagedError{Path: j.Path, Reason: "the file is gone"}
		}
		return newMemory(), nil
	}
	if err != nil {
		return nil, err
	}
	m, err := readJournal(b)
	if e, ok := errors.AsType[*DamagedError](err); ok {
		e.Path = j.Path
	}
	return m, err
}

func (j *Journal) lockPath() string { return j.Path + ".lock" }

// compactAt is the size from which a journal is rewritten when more than half of it says nothing any more.
const compactAt = 256 << 10

// maxJournal bounds what is read at each call.
const maxJournal = 256 << 20

func (j *Journal) change(ctx context.Context, edit func(*memory) ([]byte, error)) error {
	lock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	m, err := j.load()
	if err != nil {
		return err
	}
	added, err := edit(m)
	if err != nil {
		return err
	}
	live := m.size
	switch {
	case m.size+int64(len(added)) > maxJournal:
		return &DamagedError{Path: j.Path, Offset: m.size, Reason: fmt.Sprintf("it would be larger than %d bytes", int64(maxJournal))}
	case m.size == 0 && added == nil:
		return nil
	case m.size > compactAt:
		live = int64(len(m.write()))
	}
	if m.size == 0 || live < m.size/2 {
		err = j.rewrite(m.write())
	} else {
		err = j.append(m, added)
	}
	if err != nil {
		return err
	}
	return j.mark(lock)
}

// mark leaves in the lock's file that there is a journal.
func (j *Journal) mark(lock *os.File) error {
	if info, err := lock.Stat(); err != nil || info.Size() > 0 {
		return err
	}
	return j.write(lock, []byte("journal\n"), 0)
}

// append puts records behind the last good one. What a process that died left there is cut off first, and what
// it left whole is made durable with ours: it may be what the caller wants to be sure of.
func (j *Journal) append(m *memory, added []byte) error {
	f, err := os.OpenFile(j.Path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	added = slices.Concat(m.repair, added)
	if m.torn {
		if err := j.truncate(f, m.size); err != nil {
			return err
		}
	}
	if err := j.write(f, added, m.size); err != nil {
		// The next process must not rely on a record that may not be durable.
		return errors.Join(err, j.truncate(f, m.size))
	}
	return f.Close()
}

// rewrite replaces the journal by one of these bytes.
func (j *Journal) rewrite(b []byte) error {
	tmp := j.Path + ".tmp" // ours alone, under the lock
	if err := j.do("create", nil); err != nil {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(j.write(f, b, 0), f.Close())
	if err == nil {
		err = j.do("rename", nil)
	}
	if err == nil {
		err = os.Rename(tmp, j.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := j.do("syncdir", nil); err != nil {
		return err
	}
	return osfile.SyncDirectory(filepath.Dir(j.Path))
}

func (j *Journal) do(op string, b []byte) error {
	if j.hook == nil {
		return nil
	}
	return j.hook(op, b)
}

// write writes b at an offset and makes it durable.
func (j *Journal) write(f *os.File, b []byte, off int64) error {
	if len(b) > 0 {
		if err := j.do("write", b); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, off); err != nil {
			return err
		}
	}
	if err := j.do("sync", nil); err != nil {
		return err
	}
	return f.Sync()
}

func (j *Journal) truncate(f *os.File, size int64) error {
	if err := j.do("truncate", nil); err != nil {
		return err
	}
	return f.Truncate(size)
}

// lock waits for the lock, which the system drops with the file, however the process ends.
func (j *Journal) lock(ctx context.Context) (*os.File, error) {
	if err := makeDirectory(filepath.Dir(j.Path)); err != nil {
		return nil, err
	}
	return osfile.OpenLocked(ctx, j.lockPath(), osfile.Exclusive, cmp.Or(j.Wait, 30*time.Second))
}

// makeDirectory makes a directory and its parents, so that they last.
func makeDirectory(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDirectory(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return osfile.SyncDirectory(filepath.Dir(dir))
}
