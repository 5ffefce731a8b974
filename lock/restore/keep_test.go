package restore

import (
	"os"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

// TestKeepEdited: content that a user edits while it is about to be replaced is the reason to replace nothing, also if
// the edit changes no size: what is kept would be another content than the result names.
func TestKeepEdited(t *testing.T) {
	p := projecttest.Signed(t)
	l := p.Lock()
	batch, err := l.DiskStore().Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	request := Request(t.Context(), l)
	request.Store = batch
	made, err := relock.Make(t.Context(), request)
	if err == nil {
		err = batch.Commit(t.Context())
	}
	if err == nil {
		err = l.Write(made)
	}
	if err != nil {
		t.Fatal(err)
	}
	for edit, want := range map[string]fault.Code{"# Edits\n": fault.Conflict, "# Other\n": ""} {
		p.Write(projecttest.NoteFile, "# Other\n")
		l = p.Unopened()
		r := &restoring{l: l, writes: true}
		if r.objects, err = l.Objects(); err != nil {
			t.Fatal(err)
		}
		if r.dir, err = openDir(l.DotAI, true); err != nil {
			t.Fatal(err)
		}
		defer r.dir.Close()
		if err = r.add(t.Context(), l.Old.Pins); err == nil {
			err = r.compare(t.Context())
		}
		if err != nil || len(r.files) != 1 {
			t.Fatal(err, len(r.files))
		}
		p.Write(projecttest.NoteFile, edit)
		err = r.keep(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || fault.CodeOf(err) != want) {
			t.Errorf("%q: %v, want %q", edit, err, want)
		}
		if b, err := os.ReadFile(p.At(projecttest.NoteFile)); err != nil || string(b) != edit {
			t.Errorf("%q: %q, %v", edit, b, err)
		}
	}
}
