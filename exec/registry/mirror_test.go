package registry_test

import (
	"bytes"
	"testing"

	"github.com/rye-build/rye/exec/registry/blobs"
	client "github.com/rye-build/rye/lock/registry"
)

// TestMirror: a copy has what clients read and nothing else, and follows the registry.
func TestMirror(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	first := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	to, err := blobs.OpenLocal(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	done, err := w.Mirror(t.Context(), to)
	if err != nil || done.Copied < 8 || done.Removed != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if again, err := w.Mirror(t.Context(), to); err != nil || again.Copied != 0 || again.Bytes != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	if _, err := w.Withdraw(t.Context(), ada, "acme/base", "1.0.0", true); err != nil {
		t.Fatal(err)
	}
	if done, err = w.Mirror(t.Context(), to); err != nil || done.Removed != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	real := w.files
	w.files = to
	if list := w.index("acme/base"); len(list.Entries) != 1 || !bytes.Equal(w.read("log/checkpoint"),
		func() []byte { w.files = real; defer func() { w.files = to }(); return w.read("log/checkpoint") }()) {
		t.Errorf("%+v", list)
	}
	if _, err := to.Open(t.Context(), client.ArchiveFile(first.Archive)); err == nil {
		t.Error("an unpublished archive is still in the copy")
	}
	for n := 0; ; n++ {
		fresh, err := blobs.OpenLocal(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		// An index never names what isn't there.
		if _, err = w.Mirror(t.Context(), &stopping{fresh, n}); err == nil {
			return
		}
		if _, err := fresh.Open(t.Context(), client.IndexFile("acme/base")); err == nil {
			w.files = fresh
			w.index("acme/base")
		}
	}
}
