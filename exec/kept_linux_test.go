package exec_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/primitive/retry"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// saying is a module that writes a text of at most 100 bytes.
func saying(text string) []byte {
	vector := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 16), uint32(len(text)))
	data := slices.Concat(vector, make([]byte, 8), []byte(text))
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		[]byte{1, 12, 2, 0x60, 0, 0, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f}, // types: of _start and of fd_write
		[]byte("\x02\x23\x01\x16wasi_snapshot_preview1\x08fd_write\x00\x01"),
		[]byte{3, 2, 1, 0},
		[]byte{5, 3, 1, 0, 1}, // a page
		[]byte("\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x01"),
		[]byte{10, 15, 1, 13, 0, 0x41, 1, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 0, 0x1a, 0x0b}, // fd_write(1, 0, 1, 8)
		[]byte{11, byte(6 + len(data)), 1, 0, 0x41, 0, 0x0b, byte(len(data))}, data,
	)
}

// TestKeptModule: a call whose module a kept child has compiled copies and compares no files. Whatever becomes of the
// copy, what runs is what was signed.
func TestKeptModule(t *testing.T) {
	w, id := newWorld(t), "rye/core/primitives/wasm"
	for _, at := range []string{"tools/" + id + ".yaml", "tools/rye/core/runtimes/wasm_runtime.yaml"} {
		text, err := fs.ReadFile(std.FS(), at)
		if err != nil {
			t.Fatal(err)
		}
		w.library[at] = &fstest.MapFile{Data: text}
	}
	self := sandboxtest.Self(t)
	module := &wasm.Wasm{Machine: sandboxtest.Machine(t), Self: []string{self, moduleWord},
		Cache: filepath.Join(w.dir, "compiled")}
	w.kernel.Primitives[id] = &retry.Primitive{Inner: module}
	t.Cleanup(func() { module.Close() })
	w.put(map[string]string{
		".ai/tools/acme/m/m.yaml":       tool("acme/m/m", "rye/core/runtimes/wasm_runtime"),
		".ai/tools/acme/m/_module.wasm": string(saying(`{"says": "good"}`)),
	})
	w.signed(swapped, alice)
	set, view := w.pinned(swapped)
	resolver, trust := set.Resolver(view), w.trust()
	made := func(principal string) *exec.Plan {
		t.Helper()
		c := call(swapped, nil)
		c.Principal = principal
		p, err := w.kernel.Prepare(t.Context(), &exec.Base{Resolver: resolver,
			Admit: ai.NewAdmitter(resolver, set.Examiner(trust)), Set: set.ID()}, c)
		if err != nil {
			t.Fatal(err)
		}
		if kept := p.Action.Kept != nil; kept != (p.Action.Scratch == "") {
			t.Fatalf("kept: %v, with %q", kept, p.Action.Scratch)
		}
		return p
	}
	at := ""
	run := func(principal string) (kept bool) {
		t.Helper()
		p := made(principal)
		defer p.Close()
		r, err := p.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := r.Value.(map[string]any); v["says"] != "good" {
			t.Fatalf("what ran was another: %+v", r)
		}
		at = cmp.Or(at, filepath.Join(p.Action.Own, "tree", "project", "tools", "acme", "m", "_module.wasm"))
		return p.Action.Kept != nil
	}
	ann := func(want bool) {
		t.Helper()
		if got := run("ann"); got != want {
			t.Fatalf("kept: %v", got)
		}
	}
	ann(false) // it compiles the module
	ann(false) // its child is kept
	ann(true)
	good, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	evil := saying(`{"says": "evil"}`)
	change := func() {
		t.Helper()
		if err := errors.Join(os.Chmod(at, 0o600), os.WriteFile(at, evil, 0o600), os.Chmod(at, 0o400)); err != nil {
			t.Fatal(err)
		}
	}
	// Other callers have children of their own, which read the file: so it is made again. A call has a copy of its own
	// while a process that is being started still has the lock of the one before.
	mended := func() {
		t.Helper()
		for i := range 1000 {
			run(fmt.Sprint(i))
			if text, err := os.ReadFile(at); err == nil && bytes.Equal(text, good) {
				return
			}
		}
		t.Fatal("the copy remains another")
	}
	change()
	ann(true)
	mended()
	run("ann") // it isn't the file that the first child has
	ann(true)
	// Two at once: only one has the child, and the other has a copy that was compared.
	change()
	first := made("ann")
	if first.Action.Kept == nil {
		t.Error("the child is gone")
	}
	ann(false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	mended()
	dir := filepath.Dir(at)
	err = errors.Join(os.Chmod(dir, 0o700), os.WriteFile(at+"~", evil, 0o400), os.Rename(at+"~", at),
		os.Chmod(dir, 0o500))
	if err != nil {
		t.Fatal(err)
	}
	run("ann")
	mended()
	run("ann")
	ann(true)
	// A plan that didn't run gives the child back.
	p := made("ann")
	over, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.Run(over, nil); !errors.Is(err, context.Canceled) || p.Action.Kept == nil {
		t.Errorf("%v, kept: %v", err, p.Action.Kept)
	}
	p.Close()
	ann(true)
	checkLog(w)
}
