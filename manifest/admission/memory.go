package admission

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/policy"
)

// A Memory caches a successful verification, which is skipped while nothing has changed. It is one file in a cache;
// verifying and running don't use it.
type Memory struct {
	File string // Keep creates it and its directory
}

const memoryForm = "rye found good 2"

// maxMemory bounds the file.
const maxMemory = 64 << 20

// Recall returns the value under a key if these policies and lists were the same then and their answers can't have
// changed: no key became valid or expired since, and no list that must be fresh became stale. A damaged file counts as
// empty.
func (m *Memory) Recall(t *Trust, key cas.Digest) (value []byte, ok bool) {
	data, err := osfile.ReadSmall(m.File, maxMemory)
	if err != nil {
		return nil, false
	}
	at := timeOf(data)
	end := len(data) - len(memoryEnd(nil))
	start := len(memoryHead(key, at))
	if t.turned(at) || end-1 < start ||
		!bytes.HasPrefix(data, memoryHead(t.under(key), at)) || !bytes.Equal(data[end:], memoryEnd(data[:end])) {
		return nil, false
	}
	return data[start : end-1], true
}

// Keep stores a value under a key. It ignores errors: the next call only takes longer.
func (m *Memory) Keep(t *Trust, key cas.Digest, value []byte) {
	if os.MkdirAll(filepath.Dir(m.File), 0o700) != nil {
		return
	}
	_ = osfile.WriteFile(m.File, 0o600, false, osfile.BytesOf(memoryText(t.under(key), t.Now, value)))
}

// memoryText returns the content of the file.
func memoryText(key cas.Digest, at time.Time, value []byte) []byte {
	b := append(append(memoryHead(key, at), value...), '\n')
	return append(b, memoryEnd(b)...)
}

func memoryHead(key cas.Digest, at time.Time) []byte {
	return fmt.Appendf(nil, "%s\n%s\n%s\n", memoryForm, key, at.UTC().Format(time.RFC3339Nano))
}

func memoryEnd(b []byte) []byte { return append(cas.Sum(b).Append(nil), '\n') }

// timeOf reads the time of the entry. It is zero in a damaged file, which has another sum.
func timeOf(b []byte) time.Time {
	lines := bytes.SplitN(b, []byte("\n"), 4)
	if len(lines) < 4 {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339Nano, string(lines[2]))
	return at
}

// under is a key combined with the policies and lists in force.
func (t *Trust) under(key cas.Digest) cas.Digest {
	data := key.Append(nil)
	for _, s := range t.sides() {
		data = fmt.Appendf(data, "\npolicy %s", s.Policy.ID())
		var names []string
		for name, l := range s.Lists {
			if l != nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			data = fmt.Appendf(data, "\nlist %q %s", name, s.Lists[name].ID)
		}
	}
	return cas.Sum(data)
}

// Says reports whether t and before give the same answers, apart from documents that expire: the policies and lists
// are the same, no key became valid or expired since, and no list that must be fresh became stale.
func (t *Trust) Says(before *Trust) bool {
	same := func(a, b *policy.Side) bool {
		if a == nil || b == nil || a.Policy == nil || b.Policy == nil {
			return a == b
		}
		return (a.Policy == b.Policy || a.Policy.ID() == b.Policy.ID()) &&
			maps.EqualFunc(a.Lists, b.Lists, func(x, y *policy.List) bool {
				return x == y || x != nil && y != nil && x.ID == y.ID
			})
	}
	return same(&t.Root, &before.Root) && same(t.Project, before.Project) && !t.turned(before.Now)
}

// turned reports whether a policy's answers may have changed since then.
func (t *Trust) turned(then time.Time) bool {
	if t.Now.Before(then) {
		return true
	}
	passed := func(at time.Time) bool { return at.After(then) && !at.After(t.Now) }
	for _, s := range t.sides() {
		all := s.Policy.Sections()
		for _, k := range all.Keys {
			if passed(k.NotBefore) || passed(k.Expires) {
				return true
			}
		}
		for _, source := range all.Lists {
			l := s.Lists[source.Name]
			if l != nil && (passed(l.Issued) || passed(l.Expires) || passed(l.Issued.Add(source.MaxAge))) {
				return true
			}
		}
	}
	return false
}
