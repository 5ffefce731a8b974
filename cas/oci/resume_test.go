package oci

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/oci/format"
)

// TestCutOff: wherever a push ends, the tag names nothing or all of it; wherever a pull ends, the next goes on.
func TestCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	t.Parallel()
	w := newWorld(t, noise(1, 30_000), noise(2, format.MinLayer+300_000))
	for i := 1; ; i++ {
		d := newDouble(t)
		d.Referrers = i%2 == 0
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		cut := func(rw http.ResponseWriter, r *http.Request) bool {
			if n.Add(1) == int64(i) {
				cancel()
				panic(http.ErrAbortHandler)
			}
			return false
		}
		d.Mu.Lock()
		d.Cue = cut
		d.Mu.Unlock()
		p := d.place(t)
		_, err := p.Push(ctx, w.content, "1")
		whole := err == nil
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("%d: %v", i, err)
		}
		d.HangUp()
		d.Mu.Lock()
		d.Cue = nil
		named, had := d.Tags["1"] != "", int64(0)
		for _, b := range d.Blobs {
			had += int64(len(b))
		}
		received := d.Received
		d.Mu.Unlock()
		if named {
			if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err != nil {
				t.Errorf("%d: the tag names %v", i, err)
			}
		}
		done, err := p.Push(t.Context(), w.content, "1")
		if err != nil || done.Reused < had && !whole {
			t.Fatalf("%d: %+v, %v, and %d bytes were there", i, done, err, had)
		}
		if sent := d.Received - received; sent != done.Sent {
			t.Errorf("%d: %d bytes on the wire, and %d are told of", i, sent, done.Sent)
		}

		ctx, cancel = context.WithCancel(t.Context())
		n.Store(0)
		d.Mu.Lock()
		d.Cue = cut
		d.Mu.Unlock()
		spool := filepath.Join(t.TempDir(), "spool")
		m, err := w.pull(ctx, p, "1", spool)
		cancel()
		d.Mu.Lock()
		d.Cue = nil
		d.Mu.Unlock()
		if err == nil && whole {
			if i < 8 {
				t.Errorf("only %d requests", i)
			}
			break
		}
		_ = m
		if _, err := w.pull(t.Context(), p, "1", spool); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// TestResume: a pull goes on behind the bytes that an earlier one has left, whatever they are.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, noise(2, 9<<20))
	d := newDouble(t)
	p := d.place(t)
	if _, err := p.Push(t.Context(), w.content, "1"); err != nil {
		t.Fatal(err)
	}
	m, err := p.Get(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	l := m.Manifest.Layers[0]
	b := d.Blobs[l.SHA256]
	for name, c := range map[string]struct {
		left []byte
		less int64 // that needn't be sent
	}{
		"nothing":  {nil, 0},
		"a part":   {b[:3<<20], 3 << 20},
		"all":      {b, int64(len(b))},
		"too much": {append(b[:len(b):len(b)], 'x'), 0},
		"junk":     {noise(5, 1<<20), -int64(len(b)) + 1<<20},
	} {
		spool := t.TempDir()
		if err := os.WriteFile(filepath.Join(spool, strings.TrimPrefix(l.SHA256, "sha256:")), c.left,
			0o600); err != nil {
			t.Fatal(err)
		}
		var whole int64
		for _, l := range m.Manifest.Layers {
			whole += l.Size
		}
		d.Mu.Lock()
		d.Sent = 0
		d.Mu.Unlock()
		_, release, err := m.Objects(t.Context(), w.content.Objects, new(cas.Memory), spool)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		release()
		d.Mu.Lock()
		sent := d.Sent
		d.Mu.Unlock()
		if sent != whole-c.less {
			t.Errorf("%s: %d bytes, want %d", name, sent, whole-c.less)
		}
	}
}

// TestBroken: a layout whose files are something else.
func TestBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []byte("a"))
	for name, breaks := range map[string]func(dir, blob string) error{
		"index": func(dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, "index.json"), []byte("{"),
				0o644)
		},
		"empty":    func(_, blob string) error { return os.Truncate(blob, 0) },
		"flipped":  func(_, blob string) error { return os.WriteFile(blob, []byte("x"), 0o644) },
		"gone":     func(_, blob string) error { return os.Remove(blob) },
		"longer":   func(_, blob string) error { return appendTo(blob, "x") },
		"a folder": func(_, blob string) error { return errors.Join(os.Remove(blob), os.Mkdir(blob, 0o755)) },
	} {
		dir := t.TempDir()
		p, err := Open(Reference{Dir: dir}, Options{pauses: []time.Duration{}})
		if err != nil {
			t.Fatal(err)
		}
		done, err := p.Push(t.Context(), w.content, "1")
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Get(t.Context(), done.Digest)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(m.Manifest.Layers[0].SHA256, "sha256:"))
		if err := breaks(dir, at); err != nil {
			t.Fatal(err)
		}
		if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err == nil {
			t.Errorf("%s: it is believed", name)
		}
		if name == "index" || name == "a folder" {
			continue
		}
		// A push mends it.
		if _, err := p.Push(t.Context(), w.content, "1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}
