package registry_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// TestRotate replaces the key of a log, interrupted before each write to the files: a registry is opened with the old
// key or the new one, and in the end all that clients read is signed by the new one, and continues.
func TestRotate(t *testing.T) {
	next := keytest.Seeded(7)
	for stop := 0; ; stop++ {
		w := newWorld(t)
		ada := w.caller("ada")
		w.claim(ada, "acme")
		v := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
		before := w.Registry.Log()
		last, err := tlog.Open(w.read("log/checkpoint"), before)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Rotate(t.Context(), keytest.Seeded(1)); fault.CodeOf(err) != fault.Validation {
			t.Errorf("a key replaces itself: %v", err)
		}
		running := w.Registry
		o := w.o
		o.Blobs = &stopping{w.files, stop}
		half, err := registry.Open(t.Context(), o)
		if err == nil {
			_, err = half.Rotate(t.Context(), next)
		}
		shown := err == nil // the host replaces the key's file then
		if shown {
			o.LogKey = next
			_, err = registry.Open(t.Context(), o)
		}
		done := err == nil
		if !done && !errors.Is(err, errStopped) {
			t.Fatalf("%d: %v", stop, err)
		}
		if !shown {
			w.open()
			if _, err := w.Rotate(t.Context(), next); err != nil {
				t.Fatal(err)
			}
		}
		w.o.LogKey = next
		w.open()
		if done {
			if stop < 4 {
				t.Errorf("a rotation changes %d files", stop)
			}
			w.rotated(before, last, v)
			// A process that still has the old key signs nothing.
			b := w.archive(pack{id: "acme/base", version: "1.1.0"})
			if _, err := running.Publish(t.Context(), ada, bytes.NewReader(b)); fault.CodeOf(err) != fault.Conflict {
				t.Errorf("the old key signs: %v", err)
			}
			return
		}
		w.rotated(before, last, v)
	}
}

// rotated checks what clients read after a rotation.
func (w *world) rotated(before tlog.Key, last *tlog.Checkpoint, v *registry.Version) {
	w.Helper()
	r, err := client.ParseRotation(w.read(client.RotationFile(before)))
	if err != nil || r.Before != before || r.Log != w.Registry.Log() || r.Entries != last.Size || r.Root != last.Root {
		w.Fatalf("%+v, %v", r, err)
	}
	now, err := tlog.Open(w.read("log/checkpoint"), w.Registry.Log())
	if err != nil {
		w.Fatal(err)
	}
	if err := tlog.NewTree(now, registry.LogFiles{Store: w.files}).Extends(w.Context(), last); err != nil {
		w.Error(err)
	}
	proof, err := tlog.ParseProof(w.read(client.ProofFile(v.Archive)))
	if err == nil {
		_, _, err = proof.Verify(w.Registry.Log())
	}
	if err != nil {
		w.Errorf("a proof: %v", err)
	}
	description, err := client.ParseDescription(w.read(client.DescriptionFile))
	if err != nil || description.Log != w.Registry.Log() {
		w.Errorf("%+v, %v", description, err)
	}
	if check, err := w.Verify(w.Context()); err != nil || len(check.Wrong) > 0 {
		w.Errorf("%+v, %v", check, err)
	}
	if more := w.publish(w.caller("ada"), pack{id: "acme/base", version: "2.0.0"}); more.Leaf != last.Size {
		w.Errorf("the log goes on at %d, not %d", more.Leaf, last.Size)
	}
	if err := w.files.Remove(w.Context(), client.RotationFile(before)); err != nil {
		w.Fatal(err)
	}
	w.open()
	w.read(client.RotationFile(before)) // made again from the rows
}
