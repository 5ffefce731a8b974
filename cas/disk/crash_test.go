package disk

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// An inode is a file in the model of a file system: what is surely on the disk, and the writes that may be.
type inode struct {
	data    []byte
	pending []Op
}

func writeInto(b []byte, off int64, data []byte) []byte {
	if end := int(off) + len(data); end > len(b) {
		b = append(b, make([]byte, end-len(b))...)
	}
	copy(b[off:], data)
	return b
}

// A change is one to the names: of create, mkdir, rename and remove.
type change struct {
	Op
	ino *inode
}

// dirs returns the directory whose sync makes the change durable.
func (c change) dir() string {
	if c.Name == "rename" {
		return filepath.Dir(c.To)
	}
	return filepath.Dir(c.Path)
}

func (c change) apply(names map[string]*inode) {
	switch c.Name {
	case "create", "mkdir":
		names[c.Path] = c.ino
	case "rename":
		names[c.To] = c.ino
		if names[c.Path] == c.ino {
			delete(names, c.Path)
		}
	case "remove":
		delete(names, c.Path)
	}
}

// A model is a file system that has lost nothing yet. It promises no more than POSIX does: what was written is on
// the disk after a sync of the file, and a name after a sync of its directory; whatever else happened may be there
// or not, in any order, and a write may be there in part.
type model struct {
	names   map[string]*inode // as the processes see them
	durable map[string]*inode
	pending []change
}

func newModel() *model {
	return &model{names: make(map[string]*inode), durable: make(map[string]*inode)}
}

func (m *model) do(op Op) {
	op.Data = bytes.Clone(op.Data)
	c := change{op, m.names[op.Path]}
	switch op.Name {
	case "create":
		c.ino = new(inode)
	case "mkdir":
		if c.ino != nil {
			return
		}
		c.ino = new(inode)
	case "write":
		c.ino.pending = append(c.ino.pending, op)
		return
	case "sync":
		for _, w := range c.ino.pending {
			c.ino.data = writeInto(c.ino.data, w.Off, w.Data)
		}
		c.ino.pending = nil
		return
	case "syncdir":
		m.pending = slices.DeleteFunc(m.pending, func(c change) bool {
			if c.dir() == op.Path {
				c.apply(m.durable)
			}
			return c.dir() == op.Path
		})
		return
	}
	c.apply(m.names)
	m.pending = append(m.pending, c)
}

// A fate says what of the pending operations is on the disk after a power cut.
type fate func(op Op) (here, torn bool)

// crash writes what is on the disk after a power cut to dir.
func (m *model) crash(dir string, f fate) error {
	names := maps.Clone(m.durable)
	for _, c := range m.pending {
		if here, _ := f(c.Op); here {
			c.apply(names)
		}
	}
	paths := slices.Sorted(maps.Keys(names))
	for _, path := range paths {
		if !reaches(names, path) {
			continue // the directory it was in is not there
		}
		to := filepath.Join(dir, path)
		if filepath.Ext(path) == "" && isDir(m, names[path]) {
			if err := os.MkdirAll(to, 0o700); err != nil {
				return err
			}
			continue
		}
		data := bytes.Clone(names[path].data)
		for _, w := range names[path].pending {
			if here, torn := f(w); torn {
				data = writeInto(data, w.Off, make([]byte, len(w.Data))) // the length came, the bytes didn't
				data = writeInto(data, w.Off, w.Data[:len(w.Data)/2])
			} else if here {
				data = writeInto(data, w.Off, w.Data)
			}
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// reaches reports whether all directories above a path are there.
func reaches(names map[string]*inode, path string) bool {
	for d := filepath.Dir(path); d != modelRoot; d = filepath.Dir(d) {
		if names[d] == nil {
			return false
		}
	}
	return true
}

const modelRoot = "/"

var directories = []string{"packs", "refs", "tmp", writers, pins, "store", "above"}

func isDir(m *model, i *inode) bool {
	for path, ino := range m.names {
		if ino == i {
			return slices.Contains(directories, filepath.Base(path))
		}
	}
	return false
}

// TestPowerCut lives a store's life in a model of a file system and cuts the power before every operation, with
// several fates of what was not synced. Each time the store must be clean, and have all that was acknowledged.
func TestPowerCut(t *testing.T) {
	real := ramDir(t)
	m := newModel()
	w := newWorld()
	round := 0
	var current string
	cut := func() {
		for i, f := range fates(uint64(round)) {
			if (round+i)%sample != 0 {
				continue
			}
			if err := survives(t, m, w, f); err != nil {
				t.Fatalf("%s: power cut %d, fate %d: %v", current, round, i, err)
			}
		}
		round++
	}
	var mu sync.Mutex // a batch writes from several goroutines
	hook := func(op Op) error {
		mu.Lock()
		defer mu.Unlock()
		cut()
		op.Path = filepath.Join(modelRoot, strings.TrimPrefix(op.Path, real))
		op.To = filepath.Join(modelRoot, strings.TrimPrefix(op.To, real))
		m.do(op)
		return nil
	}
	current = "open"
	s, err := open(filepath.Join(real, "above", "store"), Options{Hook: hook})
	must(t, err)
	r := &run{Store: s, w: w, mark: cut}
	for _, step := range history() {
		current = step.name
		must(t, step.do(r))
		cut()
	}
	if round < 250 {
		t.Errorf("only %d power cuts", round)
	}
}

// fates are: all there, none there, names without contents, contents without names, and some by chance.
func fates(seed uint64) []fate {
	out := []fate{
		func(Op) (bool, bool) { return true, false },
		func(Op) (bool, bool) { return false, false },
		func(op Op) (bool, bool) { return op.Name != "write", false },
		func(op Op) (bool, bool) { return op.Name == "rename" || op.Name == "remove", true },
	}
	for i := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, i))
		out = append(out, func(Op) (bool, bool) { return r.IntN(2) == 0, r.IntN(3) == 0 })
	}
	return out
}

func survives(t *testing.T, m *model, w *world, f fate) error {
	dir := ramDir(t)
	defer os.RemoveAll(dir)
	if err := m.crash(dir, f); err != nil {
		return err
	}
	s, err := open(filepath.Join(dir, "above", "store"), Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := w.check(s); err != nil {
		return err
	}
	if err := clean(s); err != nil {
		return err
	}
	if _, err := s.GC(context.Background(), GCOptions{Grace: time.Hour}); err != nil {
		return err
	}
	if err := swept(s.dir); err != nil {
		return err
	}
	return w.check(s)
}
