package ai_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/policy"
)

// counted counts the files that are opened.
type counted struct {
	fstest.MapFS
	opened, looked atomic.Int64
}

func (c *counted) Open(name string) (fs.File, error) {
	c.opened.Add(1)
	return c.MapFS.Open(name)
}

func (c *counted) Lstat(name string) (fs.FileInfo, error) {
	c.looked.Add(1)
	return c.MapFS.Lstat(name)
}

func (c *counted) ReadLink(name string) (string, error) { return c.MapFS.ReadLink(name) }

// TestKeepTrees: many tools of one directory read its files once, and are worth what they are worth without.
func TestKeepTrees(t *testing.T) {
	const tools = 60
	f := files{"tools/d/__init__.py": "", "tools/d/lib/h.py": "x = 1\n", "tools/e/__init__.py": "",
		"tools/e/a.py": pyTool("e/a", python)}
	for i := range tools {
		f[fmt.Sprintf("tools/d/t%d.py", i)] = pyTool(fmt.Sprintf("d/t%d", i), python)
	}
	c := &counted{MapFS: f.fs()}
	s := &ai.Space{Label: "project", Level: ai.Project, FS: c}
	v, tr := view(t, noOverride, s), trust(t, noOverride)
	for i := range tools - 1 {
		b := signText(t, "tool:none", "", 1, alice) // a line for another name: out of all helpers' digests
		c.MapFS[fmt.Sprintf("tools/d/t%d.py", i)].Data = append([]byte(b),
			c.MapFS[fmt.Sprintf("tools/d/t%d.py", i)].Data...)
	}
	// A tool whose own lines are wrong can't be in another tool's tree, but has one itself.
	crlf := strings.ReplaceAll(signText(t, "tool:e/bad", pyTool("e/bad", python), 1, alice), "\n", "\r\n")
	c.MapFS["tools/e/bad.py"] = &fstest.MapFile{Data: []byte(crlf), Mode: 0o644}
	var items []*ai.Item
	for i := range tools {
		items = append(items, find(t, v, fmt.Sprintf("tool:d/t%d", i)))
	}
	items = append(items, find(t, v, "tool:e/a"), find(t, v, "tool:e/bad"))
	keeps, reads := ai.NewAdmitter(v, tr), ai.NewAdmitter(v, tr)
	keeps.KeepTrees()
	before := c.opened.Load()
	c.looked.Store(0)
	var wait sync.WaitGroup
	got := make([]string, len(items))
	tell := func(a *ai.Admitter, it *ai.Item) string {
		other, err := a.Tree(t.Context(), it)
		_, admitErr := a.Admit(t.Context(), it, policy.ToUse)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(other.Digest, len(other.Files), admitErr)
	}
	got[0] = tell(keeps, items[0])
	for i, it := range items {
		wait.Go(func() { got[i] = tell(keeps, it) })
	}
	wait.Wait()
	if opened := c.opened.Load() - before; opened > 4*tools {
		t.Errorf("%d files were opened", opened)
	}
	if looked := c.looked.Load(); looked > tools {
		t.Errorf("%d names were looked up", looked)
	}
	for i, it := range items {
		if want := tell(reads, it); got[i] != want {
			t.Errorf("%s: got %s, want %s", it.Ref, got[i], want)
		}
	}

	if !strings.Contains(got[tools], "bad.py") || strings.Contains(got[tools+1], "bad.py\":") {
		t.Errorf("got %s and %s", got[tools], got[tools+1])
	}
	// What is refused is remembered as well, but for the tool that it is the file of.
	c.MapFS["tools/e/a b|.py"] = &fstest.MapFile{}
	keeps = ai.NewAdmitter(v, tr)
	keeps.KeepTrees()
	for range 2 {
		_, err := keeps.Tree(t.Context(), items[tools])
		if _, ok := errors.AsType[*tree.RefusedError](err); !ok || !strings.Contains(err.Error(), "a b|.py") {
			t.Errorf("got %v", err)
		}
	}
}

// TestKeptItems: what a Space keeps of an item is what the file says now, in the way of the file that it is asked for.
func TestKeptItems(t *testing.T) {
	f := files{}
	const many = 300 // more than are kept
	for i := range many {
		f[fmt.Sprintf("tools/d/t%d.py", i)] = pyTool(fmt.Sprintf("d/t%d", i), python)
	}
	m := f.fs()
	v := view(t, noOverride, &ai.Space{Label: "project", Level: ai.Project, FS: m},
		&ai.Space{Label: "user", Level: ai.User, FS: m})
	for round := range 3 {
		for i := range many {
			name := fmt.Sprintf("tools/d/t%d.py", i)
			if round > 0 && i%2 == 0 { // of one length, as is all that a stat tells
				old, young := fmt.Sprintf("%d.2.3", round), fmt.Sprintf("%d.2.3", round+1)
				m[name].Data = []byte(strings.Replace(string(m[name].Data), old, young, 1))
			}
			it := find(t, v, fmt.Sprintf("tool:d/t%d", i))
			again, err := v.Load(t.Context(), it.File)
			if err != nil {
				t.Fatal(err)
			}
			want := "1.2.3"
			if i%2 == 0 {
				want = fmt.Sprintf("%d.2.3", round+1)
			}
			if it.Model.Version != want || again.Model.Version != want || again.Raw != cas.Sum(m[name].Data) ||
				again == it {
				t.Fatalf("round %d: %s has the version %s, then %s", round, it.Ref, it.Model.Version,
					again.Model.Version)
			}
			clear(it.Bytes) // a copy of its own
		}
	}
}

// TestRead: what an item says is read without its digests, and is no answer to who asks for them.
func TestRead(t *testing.T) {
	f := files{"tools/d/t.py": pyTool("d/t", python)}
	space := &ai.Space{Label: "project", Level: ai.Project, FS: f.fs()}
	v := view(t, noOverride, space)
	file, err := v.At(space, "tools/d/t.py")
	if err != nil {
		t.Fatal(err)
	}
	it, err := v.Read(t.Context(), file)
	if err != nil || !it.Raw.IsZero() || it.Model.Tool.Executor == "" {
		t.Errorf("%+v, %v", it, err)
	}
	if it, err = v.Load(t.Context(), file); err != nil || it.Raw.IsZero() || it.Stripped.IsZero() {
		t.Errorf("%+v, %v", it, err)
	}
}
