package exam

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/policy"
)

// A Memory remembers that something was found good, so that it need not be looked at again as long as everything is as
// it was. It is one small file, in a cache; verifying and running don't ask it.
type Memory struct {
	File string // is made when there is something to remember, and so is its directory
}

const memoryForm = "rye found good 1"

// Recall returns what was kept under a key, if these policies and lists said so then and can't say otherwise now: no
// key began or ended to be valid since, and no list that must be fresh grew old. A file that isn't as it was written
// says nothing.
func (m *Memory) Recall(t *Trust, key cas.Digest) (value cas.Digest, ok bool) {
	f, err := os.Open(m.File)
	if err != nil {
		return value, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return value, false
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) != 6 {
		return value, false
	}
	at, err := time.Parse(time.RFC3339Nano, lines[2])
	if err != nil || t.turned(at) {
		return value, false
	}
	if value, err = cas.ParseDigest(lines[3]); err != nil {
		return cas.Digest{}, false
	}
	if !bytes.Equal(b, memoryText(t.under(key), at, value)) {
		return cas.Digest{}, false
	}
	return value, true
}

// Keep remembers a value under a key. That it can't is no error: the next time takes longer.
func (m *Memory) Keep(t *Trust, key, value cas.Digest) {
	if os.MkdirAll(filepath.Dir(m.File), 0o700) != nil {
		return
	}
	_ = osfile.WriteFile(m.File, 0o600, false, osfile.BytesOf(memoryText(t.under(key), t.Now, value)))
}

// memoryText is what stands in the file.
func memoryText(key cas.Digest, at time.Time, value cas.Digest) []byte {
	b := fmt.Appendf(nil, "%s\n%s\n%s\n%s\n", memoryForm, key, at.UTC().Format(time.RFC3339Nano), value)
	return fmt.Appendf(b, "%s\n", cas.Sum(b))
}

// under is a key together with the policies and the lists that decide.
func (t *Trust) under(key cas.Digest) cas.Digest {
	b := key.Append(nil)
	for _, s := range t.sides() {
		b = fmt.Appendf(b, "\npolicy %s", s.Policy.ID())
		var names []string
		for name, l := range s.Lists {
			if l != nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			b = fmt.Appendf(b, "\nlist %q %s", name, s.Lists[name].ID)
		}
	}
	return cas.Sum(b)
}

// Says reports whether everything that t is asked is answered as it was by before, apart from what has an end of its own: the
// policies and lists are the same, no key began or ended to be valid since, and no list that must be fresh grew old.
func (t *Trust) Says(before *Trust) bool {
	same := func(a, b *policy.Side) bool {
		if a == nil || b == nil || a.Policy == nil || b.Policy == nil {
			return a == b
		}
		return (a.Policy == b.Policy || a.Policy.ID() == b.Policy.ID()) && maps.EqualFunc(a.Lists, b.Lists, func(x, y *policy.List) bool {
			return x == y || x != nil && y != nil && x.ID == y.ID
		})
	}
	return same(&t.Root, &before.Root) && same(t.Project, before.Project) && !t.turned(before.Now)
}

// turned reports whether a policy may answer otherwise now than it did then.
func (t *Trust) turned(then time.Time) bool {
	if t.Now.Before(then) {
		return true
	}
	passed := func(at time.Time) bool { return !at.IsZero() && at.After(then) && !at.After(t.Now) }
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
