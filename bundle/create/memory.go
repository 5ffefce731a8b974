package create

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
)

// A Memory remembers that the files of a bundle were checked and found good, so that Create need not read them again
// as long as everything is as it was. It is one small file for each bundle, kept in a cache; whoever verifies or runs
// a bundle doesn't ask it.
type Memory struct {
	File string // is made when there is something to remember, and so is its directory
	// Under names whatever else an answer depends on: this rye, and what is in the spaces in Options.Below. Without
	// it nothing is remembered.
	Under cas.Digest
}

// A state is everything that decides whether files are good, but the time.
type state struct {
	key cas.Digest
	at  time.Time
}

const memoryForm = "rye bundle seen 1"

// state is called when the files are known.
func (c *creation) state() state {
	if c.Memory == nil {
		return state{}
	}
	h := cas.NewHasher()
	text := func(s string) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s))))
		io.WriteString(h, s)
	}
	text(memoryForm)
	h.Write(c.Memory.Under[:])
	text(c.Recipe.ID)
	for _, a := range c.Recipe.AllowSecret {
		text(a.Glob.String())
	}
	for _, s := range c.sides() {
		text("policy")
		id := s.Policy.ID()
		h.Write(id[:])
		for _, name := range sortedNames(s.Lists) {
			text(name)
			h.Write(s.Lists[name].ID[:])
		}
	}
	text("files")
	for i := range c.files {
		f := &c.files[i]
		text(f.Path)
		h.Write(f.Digest[:])
		h.Write([]byte{byte(f.Mode)})
	}
	text("left")
	for _, path := range c.left {
		text(path)
	}
	return state{h.Digest(), c.Trust.Now}
}

func sortedNames(lists map[string]*policy.List) (names []string) {
	for name, l := range lists {
		if l != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (c *creation) sides() (all []*policy.Side) {
	for _, s := range []*policy.Side{&c.Trust.Root, c.Trust.Project} {
		if s != nil && s.Policy != nil {
			all = append(all, s)
		}
	}
	return all
}

// recall takes from memory which files are items, and reports whether they are all good.
func (c *creation) recall(ctx context.Context, now state) bool {
	if c.Memory == nil || c.Paranoid {
		return false
	}
	then, doc, ok := c.Memory.read()
	if !ok || then.key != now.key || c.turned(then.at, now.at) {
		return false
	}
	b := c.old // which was named by the digest of its bytes when it was read
	if b == nil || b.ID != doc {
		var err error
		if b, err = c.stored(ctx, doc); err != nil {
			return false
		}
	}
	if !slices.EqualFunc(b.Files, c.files, func(a, b manifest.File) bool {
		return a.Path == b.Path && a.Digest == b.Digest && a.Mode == b.Mode
	}) {
		return false
	}
	c.files = b.Files
	c.result.Remembered = true
	return true
}

// stored reads a bundle's document.
func (c *creation) stored(ctx context.Context, doc cas.Digest) (*bundle.Bundle, error) {
	o, err := c.Store.Get(ctx, cas.ID{Kind: cas.Document, Digest: doc})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return bundle.Read(o)
}

// turned reports whether a policy may answer otherwise at one moment than at another: a key began or ended to be
// valid, or a list that must be fresh no longer is.
func (c *creation) turned(then, now time.Time) bool {
	if now.Before(then) {
		return true
	}
	passed := func(t time.Time) bool { return !t.IsZero() && t.After(then) && !t.After(now) }
	for _, s := range c.sides() {
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

// read returns the state in which a document was made. A file that isn't as it was written says nothing.
func (m *Memory) read() (s state, doc cas.Digest, ok bool) {
	f, err := os.Open(m.File)
	if err != nil {
		return s, doc, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return s, doc, false
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) != 6 || lines[0] != memoryForm {
		return s, doc, false
	}
	var errs [3]error
	s.key, errs[0] = cas.ParseDigest(lines[1])
	s.at, errs[1] = time.Parse(time.RFC3339Nano, lines[2])
	doc, errs[2] = cas.ParseDigest(lines[3])
	return s, doc, errs == [3]error{} && bytes.Equal(b, m.text(s, doc))
}

// text is what stands in the file.
func (m *Memory) text(s state, doc cas.Digest) []byte {
	b := fmt.Appendf(nil, "%s\n%s\n%s\n%s\n", memoryForm, s.key, s.at.UTC().Format(time.RFC3339Nano), doc)
	return fmt.Appendf(b, "%s\n", cas.Sum(b))
}

// keep remembers. That it can't is no error: the next Create takes longer.
func (m *Memory) keep(s state, doc cas.Digest) {
	if m == nil || os.MkdirAll(filepath.Dir(m.File), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(m.File), ".rye-tmp-seen-*")
	if err != nil {
		return
	}
	_, err = f.Write(m.text(s, doc))
	if f.Close() != nil || err != nil || os.Rename(f.Name(), m.File) != nil {
		os.Remove(f.Name())
	}
}
