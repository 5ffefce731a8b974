package restore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/drift"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

const (
	vendorDir = ".ai/vendor"
	pack      = vendorDir + "/all.pack"
)

// locked makes a project with a lock.
func locked(t *testing.T) *projecttest.Project {
	t.Helper()
	p := projecttest.Signed(t)
	l := p.Lock()
	batch, err := l.DiskStore().Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	r := restore.Request(t.Context(), l)
	r.Store = batch
	made, err := relock.Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(batch.Commit(t.Context()), l.Write(made)); err != nil {
		t.Fatal(err)
	}
	return p
}

// vendored makes a project whose lock is vendored.
func vendored(t *testing.T) *projecttest.Project {
	t.Helper()
	p := locked(t)
	if _, err := restore.Vendor(t.Context(), p.Lock(), restore.FetchResult{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// damageNote changes a byte of the note in .ai/vendor.
func damageNote(t *testing.T, p *projecttest.Project) {
	t.Helper()
	whole := p.Read(pack)
	damaged := strings.Replace(whole, "# Note", "# Nope", 1)
	if damaged == whole {
		t.Fatal("the note isn't vendored")
	}
	p.Write(pack, damaged)
}

// link puts a link out of the project in place of a directory, and returns where it leads.
func link(t *testing.T, p *projecttest.Project, name string) string {
	t.Helper()
	outside := t.TempDir()
	p.Remove(name)
	if err := os.Symlink(outside, p.At(name)); err != nil {
		t.Fatal(err)
	}
	return outside
}

// Drift names each file that isn't as it is pinned, of all items or of some.
func TestDrift(t *testing.T) {
	p := locked(t)
	lines := func() (all []string) {
		t.Helper()
		found, err := restore.Drift(t.Context(), p.Looked())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			all = append(all, string(d.Kind)+" "+d.Path)
		}
		return all
	}
	if all := lines(); len(all) > 0 {
		t.Errorf("%q", all)
	}
	p.Remove(projecttest.NoteFile)
	p.Write(projecttest.TablesFile, "ROWS = [2]\n")
	p.Write(".ai/tools/acme/shop/new.py", "NEW = 1\n")
	want := "gone knowledge/acme/note.md, added tools/acme/shop/new.py, changed tools/acme/shop/tables.py"
	if all := strings.Join(lines(), ", "); all != want {
		t.Errorf("%s, want %s", all, want)
	}
	found, err := restore.Drift(t.Context(), p.Looked(), projecttest.Note)
	if err != nil || len(found) != 1 || found[0].Kind != drift.Gone {
		t.Errorf("%v, %v", found, err)
	}

	l := p.Looked()
	link(t, p, ".ai")
	if _, err := restore.Drift(t.Context(), l); fault.CodeOf(err) != fault.Denied {
		t.Error(err)
	}
	p.Remove("rye.lock")
	p.Remove(".ai")
	if _, err := restore.Drift(t.Context(), p.Looked()); fault.CodeOf(err) != fault.NotLocked {
		t.Error(err)
	}
}

// Fetch has nothing to do where the store has all of it. What it lacks comes from .ai/vendor, then from the project.
func TestFetch(t *testing.T) {
	ctx := t.Context()
	p := vendored(t)
	all, err := restore.Fetch(ctx, p.Lock())
	if err != nil || all.Fetched != 0 || all.Objects == 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	note := p.Read(projecttest.NoteFile)

	p.ForgetStore()
	p.Remove(projecttest.NoteFile)
	if r, err := restore.Fetch(ctx, p.Lock()); err != nil || r.Fetched != all.Objects || r.Objects != all.Objects {
		t.Errorf("%+v, %v; want %d objects", r, err, all.Objects)
	}

	// Damaged, it is an error only if the bytes are nowhere else.
	damageNote(t, p)
	p.ForgetStore()
	if _, err := restore.Fetch(ctx, p.Lock()); !errors.Is(err, cas.ErrDamaged) ||
		fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	p.ForgetStore()
	p.Write(projecttest.NoteFile, note)
	if r, err := restore.Fetch(ctx, p.Lock()); err != nil || r.Objects != all.Objects {
		t.Errorf("%+v, %v", r, err)
	}

	// Of a vendor directory without files not even the directories of tools are known: the project has them.
	p.ForgetStore()
	p.Remove(pack)
	if r, err := restore.Fetch(ctx, p.Lock()); err != nil || r.Objects != all.Objects {
		t.Errorf("%+v, %v", r, err)
	}
	// Without the file the bytes are gone, and only git may have them.
	p.ForgetStore()
	p.Remove(vendorDir)
	p.Remove(projecttest.NoteFile)
	_, err = restore.Fetch(ctx, p.Lock())
	if f := fault.Of(err); f.Code != fault.NotFound || len(f.Hint) != 2 ||
		f.Hint[0] != fault.Command("git restore", p.At(projecttest.NoteFile)) {
		t.Errorf("%v: %q", err, f.Hint)
	}
}

// Interrupted, Fetch says so and not that something is missing.
func TestFetchInterrupted(t *testing.T) {
	p := vendored(t)
	p.ForgetStore()
	l := p.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	l.Progress = func(int64) { cancel() }
	r, err := restore.Fetch(ctx, l)
	if !errors.Is(err, context.Canceled) || r.Fetched != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := restore.Fetch(ctx, p.Lock()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What takes over the vendored objects for others leaves nothing to fetch.
func TestTakeVendored(t *testing.T) {
	p := vendored(t)
	p.ForgetStore()
	if err := restore.TakeVendored(t.Context(), p.Lock()); err != nil {
		t.Fatal(err)
	}
	p.Remove(vendorDir)
	if r, err := restore.Fetch(t.Context(), p.Lock()); err != nil || r.Fetched != 0 || r.Objects == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A vendor directory that is a link is refused for reading and for writing, and nothing is written where it leads.
func TestVendorLink(t *testing.T) {
	p := locked(t)
	locks := map[string]*workspace.Lock{}
	calls := map[string]func(l *workspace.Lock) error{
		"fetch": func(l *workspace.Lock) error { _, err := restore.Fetch(t.Context(), l); return err },
		"vendor": func(l *workspace.Lock) error {
			_, err := restore.Vendor(t.Context(), l, restore.FetchResult{})
			return err
		},
		"check": func(l *workspace.Lock) error { _, err := restore.CheckVendor(t.Context(), l); return err },
		"restore": func(l *workspace.Lock) error {
			_, err := restore.Restore(t.Context(), l, l.Old.Pins, false)
			return err
		},
	}
	for name := range calls {
		locks[name] = p.Lock()
	}
	outside := link(t, p, vendorDir)
	p.Write(projecttest.NoteFile, "# Other\n")
	for name, call := range calls {
		if err := call(locks[name]); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if p.Read(projecttest.NoteFile) != "# Other\n" {
		t.Error("the note was replaced")
	}
}

// CheckVendor tells each difference, and a directory that misses something from one that Vendor would only tidy up.
func TestCheckVendor(t *testing.T) {
	p := locked(t)
	check := func(code fault.Code, problem string) {
		t.Helper()
		r, err := restore.CheckVendor(t.Context(), p.Unopened())
		if err == nil && code == "" && len(r.Problems) == 0 && r.Checked && r.Objects > 0 {
			return
		}
		f := fault.Of(err)
		if r == nil || f == nil || f.Code != code || f.Line().Exit != fault.ExitNo || f.Hint[0] != "rye vendor" ||
			!strings.Contains(strings.Join(r.Problems, "\n"), problem) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	check(fault.NotFound, "")
	if r, err := restore.Vendor(t.Context(), p.Lock(), restore.FetchResult{}); err != nil || r.Written != 1 ||
		r.Removed != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	check("", "")
	good := p.Read(pack)
	p.Remove(vendorDir + "/.gitattributes")
	check(fault.LockMismatch, "out of date or not in the lock: .gitattributes")
	damageNote(t, p)
	check(fault.Integrity, ", which knowledge:acme/note needs")
	p.Write(pack, good)
	p.Write(vendorDir+"/notes.txt", "mine")
	if r, err := restore.Vendor(t.Context(), p.Lock(), restore.FetchResult{}); err != nil || r.Written != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := restore.CheckVendor(t.Context(), p.Unopened()); err != nil || len(r.Foreign) != 1 ||
		r.Foreign[0] != p.At(vendorDir+"/notes.txt") {
		t.Errorf("%+v, %v", r, err)
	}
	// Vendor replaces no directory, and needs all objects.
	p.Remove(pack)
	p.Write(pack+"/mine.txt", "mine")
	_, err := restore.Vendor(t.Context(), p.Lock(), restore.FetchResult{})
	if f := fault.Of(err); f.Code != fault.Integrity || !strings.HasPrefix(f.Hint[0], "mv ") ||
		p.Read(pack+"/mine.txt") != "mine" {
		t.Errorf("%v: %q", err, f.Hint)
	}
	p.Remove(vendorDir)
	p.ForgetStore()
	if _, err := restore.Vendor(t.Context(), p.Lock(), restore.FetchResult{}); fault.CodeOf(err) != fault.NotFound ||
		p.Read(pack) != "" {
		t.Error(err)
	}
}

// Restore replaces the files that differ and no others; what was there is in the store.
func TestRestore(t *testing.T) {
	p := locked(t)
	note, tables := p.Read(projecttest.NoteFile), p.Read(projecttest.TablesFile)
	again := func(dry bool) *restore.RestoreResult {
		t.Helper()
		l := p.Unopened()
		r, err := restore.Restore(t.Context(), l, l.Old.Pins, dry)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := again(false); len(r.Files) != 0 || len(r.Left) != 0 {
		t.Errorf("%+v", r)
	}
	p.Write(projecttest.NoteFile, "# Other\n")
	p.Remove(projecttest.TablesFile)
	p.Write(".ai/tools/acme/shop/new.py", "NEW = 1\n")
	if err := os.Chmod(p.At(projecttest.CartFile), 0o755); err != nil {
		t.Fatal(err)
	}
	other := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("# Other\n"))}
	for _, dry := range []bool{true, false} {
		r := again(dry)
		if len(r.Files) != 3 || r.DryRun != dry || r.Files[0].File != projecttest.NoteFile ||
			r.Files[0].Before != other.Digest.String() ||
			r.Files[1].Only != "mode" || r.Files[2].Before != "" || len(r.Left) != 1 ||
			r.Left[0].File != ".ai/tools/acme/shop/new.py" {
			t.Errorf("dry %v: %+v", dry, r)
		}
		if (p.Read(projecttest.NoteFile) == note) == dry || (p.Read(projecttest.TablesFile) == tables) == dry {
			t.Errorf("dry %v: %q, %q", dry, p.Read(projecttest.NoteFile), p.Read(projecttest.TablesFile))
		}
	}
	if o, err := p.Lock().DiskStore().Get(t.Context(), other); err != nil {
		t.Error(err)
	} else {
		o.Close()
	}

	// What would say whether a file is left isn't needed to restore.
	p.Write(projecttest.NoteFile, "# Other\n")
	l := p.Unopened()
	var details []string
	l.Detail = func(what string, err error) { details = append(details, what+": "+err.Error()) }
	if err := os.WriteFile(filepath.Join(p.Home, ".ai", "policy.yaml"), []byte("rye: policy/2\nkeys: 1\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	r, err := restore.Restore(t.Context(), l, l.Old.Pins, false)
	if err != nil || len(r.Files) != 1 || len(r.Left) != 0 || len(details) != 1 ||
		p.Read(projecttest.NoteFile) != note {
		t.Errorf("%+v, %v, %q", r, err, details)
	}

	// Without .ai all of it would be made, and is.
	p.Remove(".ai")
	if r := again(true); len(r.Files) != 4 || p.Read(projecttest.NoteFile) != "" {
		t.Errorf("%+v", r)
	}
	if r := again(false); len(r.Files) != 4 || p.Read(projecttest.NoteFile) != note {
		t.Errorf("%+v", r)
	}
}

// Restore goes through no link and replaces nothing but regular files; while one file is in the way it writes none.
func TestRestoreConfined(t *testing.T) {
	for name, prepare := range map[string]func(p *projecttest.Project) (outside string){
		".ai is a link":         func(p *projecttest.Project) string { return link(t, p, ".ai") },
		"a directory is a link": func(p *projecttest.Project) string { return link(t, p, ".ai/tools/acme") },
		"the file is a link":    func(p *projecttest.Project) string { return link(t, p, projecttest.CartFile) },
		"a directory": func(p *projecttest.Project) string {
			p.Remove(projecttest.CartFile)
			p.Write(projecttest.CartFile+"/mine.txt", "mine")
			return t.TempDir()
		},
	} {
		p := locked(t)
		p.Write(projecttest.NoteFile, "# Other\n")
		l := p.Unopened()
		outside := prepare(p)
		before := p.Read(projecttest.NoteFile)
		for _, dry := range []bool{true, false} {
			if r, err := restore.Restore(t.Context(), l, l.Old.Pins, dry); r != nil ||
				fault.CodeOf(err) != fault.Denied {
				t.Errorf("%s, dry %v: %+v, %v", name, dry, r, err)
			}
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 ||
			p.Read(projecttest.NoteFile) != before {
			t.Errorf("%s: %v, %v, %q", name, entries, err, p.Read(projecttest.NoteFile))
		}
	}
}

// As long as one byte is missing or damaged, or what is there can't be kept, no file is replaced.
func TestRestoreAllOrNone(t *testing.T) {
	none := func(name string, p *projecttest.Project, ctx context.Context, is func(error) bool) {
		t.Helper()
		p.Write(projecttest.NoteFile, "# Other\n")
		p.Write(projecttest.TablesFile, "ROWS = [2]\n")
		for _, dry := range []bool{true, false} {
			l := p.Unopened()
			if r, err := restore.Restore(ctx, l, l.Old.Pins, dry); r != nil && len(r.Files) > 0 || !is(err) {
				t.Errorf("%s, dry %v: %+v, %v", name, dry, r, err)
			}
		}
		entries, err := os.ReadDir(p.At(".ai/tools/acme/shop"))
		if err != nil || len(entries) != 3 || p.Read(projecttest.NoteFile) != "# Other\n" ||
			p.Read(projecttest.TablesFile) != "ROWS = [2]\n" {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
	p := vendored(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	none("canceled", p, canceled, func(err error) bool { return errors.Is(err, context.Canceled) })

	damageNote(t, p)
	p.ForgetStore()
	none("damaged", p, t.Context(), func(err error) bool { return errors.Is(err, cas.ErrDamaged) })
	p.Remove(vendorDir)
	none("missing", p, t.Context(), func(err error) bool { return fault.CodeOf(err) == fault.NotFound })

	// What is vendored is enough for a dry run, but what would be replaced must be kept.
	p = vendored(t)
	p.ForgetStore()
	if err := os.WriteFile(p.Store(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Write(projecttest.NoteFile, "# Other\n")
	l := p.Unopened()
	if r, err := restore.Restore(t.Context(), l, l.Old.Pins, true); err != nil || len(r.Files) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := restore.Restore(t.Context(), l, l.Old.Pins, false); err == nil || len(r.Files) > 0 ||
		p.Read(projecttest.NoteFile) != "# Other\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// The error of a source names the bundle of the lock that comes from there.
func TestOfBundle(t *testing.T) {
	from := func(id, where string) file.Bundle {
		b := file.Bundle{ID: id, Version: "1.0.0"}
		b.Source.Where = where
		return b
	}
	l := &workspace.Lock{Old: &file.Lock{Bundles: []file.Bundle{from("acme/a", "../a"), from("acme/b", "../b")}}}
	f := restore.OfBundle(l, &source.Error{Where: "../b", Err: fs.ErrNotExist})
	if !strings.HasPrefix(f.Text, "bundle:acme/b@1.0.0: ") || len(f.Hint) != 1 || f.Hint[0] != "rye docs sources" {
		t.Errorf("%q, %q", f.Text, f.Hint)
	}
	for _, err := range []error{&source.Error{Where: "../c", Err: fs.ErrNotExist},
		&source.Error{ID: "acme/b", Where: "../b", Err: fs.ErrNotExist}} {
		if f := restore.OfBundle(l, err); strings.HasPrefix(f.Text, "bundle:") || len(f.Hint) > 0 &&
			strings.HasPrefix(f.Hint[0], "rye add") {
			t.Errorf("%q, %q", f.Text, f.Hint)
		}
	}
}
