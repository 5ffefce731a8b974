// Package projecttest is a set of projects for tests: one with a note and a tool, whose user trusts alice and bob,
// for tests of its lock; and one with items of a test, whose user is alice.
package projecttest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// Noon is the time of all operations.
var Noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// The items of a project, their files, and a file beside Cart that belongs to it.
var (
	Note = model.Ref{Kind: "knowledge", ID: "acme/note"}
	Cart = model.Ref{Kind: "tool", ID: "acme/shop/cart"}
)

const (
	NoteFile   = ".ai/knowledge/acme/note.md"
	CartFile   = ".ai/tools/acme/shop/cart.py"
	TablesFile = ".ai/tools/acme/shop/tables.py"
)

// A Project is a directory with rye.yaml whose roots are all its items, and a user's home.
type Project struct {
	t         testing.TB
	Dir, Home string
}

// New makes a project whose items aren't signed yet.
func New(t testing.TB) *Project {
	project := &Project{t, t.TempDir(), t.TempDir()}
	project.write(project.Home, ".ai/policy.yaml",
		fmt.Sprintf(
			"rye: policy/2\n\nkeys:\n  alice: {key: %q}\n  bob: {key: %q}\n\nnames:\n  \"**\": {keys: [alice, bob]}\n",
			keytest.Alice().Public(), keytest.Bob().Public()))
	project.Write(workspace.MarkerFile, "")
	project.WriteNote("")
	project.Write(CartFile, `__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "acme/shop"
__tool_description__ = "Fill the cart"
`)
	project.Write(TablesFile, "ROWS = [1]\n")
	project.Write(".ai/tools/acme/shop/__init__.py", "") // with which all files of the directory are the tool's
	return project
}

// Signed makes a project whose items alice has signed.
func Signed(t testing.TB) *Project {
	p := New(t)
	p.Sign(Note, keytest.Alice())
	p.Sign(Cart, keytest.Alice())
	return p
}

// WriteNote writes the note with some more text, unsigned.
func (p *Project) WriteNote(more string) {
	p.t.Helper()
	p.Write(NoteFile,
		"---\nid: note\ntitle: Note\nentry_type: reference\nversion: 1.0.0\ncategory: acme\n---\n# Note\n"+more)
}

// With makes a project with files below .ai, whose items alice signs, and her home with her key and her policy.
// policy has more sections, before the names. Files that begin with "_" aren't items.
func With(t testing.TB, policy string, files map[string]string) *Project {
	t.Helper()
	dir := t.TempDir()
	project := &Project{t, filepath.Join(dir, "project"), filepath.Join(dir, "home")}
	project.write(project.Home, ".ai/policy.yaml",
		fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q}\n%s\nnames:\n  \"**\": {keys: [alice]}\n",
			keytest.Alice().Public(), policy))
	project.must(os.Chmod(filepath.Join(project.Home, ".ai"), 0o700))
	project.must(key.OpenDir(filepath.Join(project.Home, ".ai", "keys")).Add("alice", keytest.Alice(), ""))
	project.Write(".git/HEAD", "")
	project.Write(workspace.MarkerFile, "")
	var items []string
	for name, text := range files {
		project.Write(".ai/"+name, text)
		if !strings.HasPrefix(path.Base(name), "_") {
			items = append(items, name)
		}
	}
	project.SignFiles(keytest.Alice(), items...)
	return project
}

// Write writes a file of the project.
func (p *Project) Write(name, text string) {
	p.t.Helper()
	p.write(p.Dir, name, text)
}

func (p *Project) write(dir, name, text string) {
	p.t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	p.must(errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)))
}

// At returns the path of a file of the project.
func (p *Project) At(name string) string { return filepath.Join(p.Dir, filepath.FromSlash(name)) }

// Read reads a file of the project; it returns "" if the file is missing.
func (p *Project) Read(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(p.At(name))
	if !errors.Is(err, os.ErrNotExist) {
		p.must(err)
	}
	return string(b)
}

// Remove removes a file or directory of the project.
func (p *Project) Remove(name string) {
	p.t.Helper()
	p.must(os.RemoveAll(p.At(name)))
}

// Store returns the path of the user's store, which is created on use.
func (p *Project) Store() string { return filepath.Join(p.Home, "store") }

// ForgetStore removes the store.
func (p *Project) ForgetStore() {
	p.t.Helper()
	p.must(os.RemoveAll(p.Store()))
}

// Paths returns the paths of the project and its user.
func (p *Project) Paths() workspace.Paths { return Paths(p.Dir, p.Home) }

// Paths returns the paths of a project in a directory and of a user with a home.
func Paths(dir, home string) workspace.Paths {
	below := func(name string) workspace.Place { return workspace.Place{Path: filepath.Join(home, name)} }
	return workspace.Paths{Dir: dir, Version: "devel", User: below(""), Store: below("store"), State: below("state"),
		Cache: below("cache")}
}

// Workspace opens the project until the test ends.
func (p *Project) Workspace(o workspace.Options) *workspace.Workspace {
	p.t.Helper()
	w, err := workspace.Open(p.t.Context(), p.Paths(), o)
	p.must(err)
	p.t.Cleanup(w.Close)
	return w
}

// Unopened returns the lock as read, without policy and store.
func (p *Project) Unopened() *workspace.Lock {
	p.t.Helper()
	l, err := p.Workspace(workspace.Options{Offline: true, Now: func() time.Time { return Noon }}).OpenLock(true)
	p.must(err)
	p.t.Cleanup(l.Close)
	return l
}

// Lock opens the lock for making it.
func (p *Project) Lock() *workspace.Lock {
	p.t.Helper()
	l := p.Unopened()
	p.must(l.Open())
	return l
}

// Looked opens the lock for checking it.
func (p *Project) Looked() *workspace.Lock {
	p.t.Helper()
	l := p.Unopened()
	p.must(l.Look(p.t.Context()))
	return l
}

// Sign signs an item.
func (p *Project) Sign(ref model.Ref, by key.Private) {
	p.t.Helper()
	p.sign(by, ref)
}

// Put writes a file below .ai and signs its item as alice.
func (p *Project) Put(name, text string) {
	p.t.Helper()
	p.Write(".ai/"+name, text)
	p.SignFiles(keytest.Alice(), name)
}

// SignFiles signs the items in files below .ai.
func (p *Project) SignFiles(by key.Private, names ...string) {
	p.t.Helper()
	var refs []model.Ref
	for _, name := range names {
		dir, rest, _ := strings.Cut(name, "/")
		refs = append(refs, model.Ref{Kind: kinds[dir], ID: strings.TrimSuffix(rest, path.Ext(rest))})
	}
	p.sign(by, refs...)
}

var kinds = map[string]string{"tools": "tool", "directives": "directive", "knowledge": "knowledge", "config": "config"}

func (p *Project) sign(by key.Private, refs ...model.Ref) {
	p.t.Helper()
	w, err := workspace.Open(p.t.Context(), p.Paths(), workspace.Options{Offline: true, Now: func() time.Time {
		return Noon
	}})
	p.must(err)
	defer w.Close()
	items, err := w.Items(p.t.Context())
	p.must(err)
	defer items.Close()
	for _, ref := range refs {
		it, err := items.Find(p.t.Context(), ref)
		p.must(err)
		p.Write(".ai/"+it.Path, string(itemtest.Signed(p.t, items.Admit, it, Noon, by)))
	}
}

func (p *Project) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}
