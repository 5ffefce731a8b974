package wasm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/sandbox"
)

// MaxKept is how much is kept of what was compiled.
const MaxKept = 1 << 30

// engine is what compiles: what another has made isn't looked at.
const engine = "wazero/v1.12.0"

// An alone has one goroutine work on a key while the others wait for it.
type alone struct {
	mu   sync.Mutex
	keys map[string]chan struct{}
}

// take returns how to give a key back; an error if the context ends first.
func (a *alone) take(ctx context.Context, key string) (func(), error) {
	for {
		a.mu.Lock()
		busy := a.keys[key]
		if busy == nil {
			done := make(chan struct{})
			if a.keys == nil {
				a.keys = map[string]chan struct{}{}
			}
			a.keys[key] = done
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				delete(a.keys, key)
				a.mu.Unlock()
				close(done)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// compiled sees to it that a module is kept compiled, and says so in the plan. It returns what that has cost; nil if
// nothing. Where it can't be kept the child compiles for itself.
func (w *Wasm) compiled(ctx context.Context, s sandbox.Spec, p *plan) (*end, error) {
	h := cas.NewHasher()
	fmt.Fprintf(h, "wasm/1 %s %s/%s\n", engine, runtime.GOOS, runtime.GOARCH)
	if err := readModule(p.Module, h); err != nil {
		return nil, err
	}
	if w.Cache == "" {
		return nil, nil
	}
	key := strings.TrimPrefix(h.Digest().String(), "blake3:")
	done, err := w.making.take(ctx, key)
	if err != nil {
		return nil, err
	}
	defer done()
	entry := filepath.Join(w.Cache, key)
	if info, err := os.Lstat(entry); err == nil && info.IsDir() {
		now := time.Now()
		os.Chtimes(entry, now, now)
		p.Cache = entry
		return nil, nil
	}
	making := filepath.Join(w.Cache, random()+".new")
	if err := os.MkdirAll(making, 0o700); err != nil {
		return nil, nil
	}
	defer os.RemoveAll(making)
	inner, stop := context.WithCancel(ctx)
	defer stop()
	s.Read, s.Write = []string{p.Module}, []string{making}
	s.Limits.Written = 0 // what the tool may write isn't what the compiler may
	made := &plan{Module: p.Module, Cache: making, Make: true, Pages: p.Pages, Name: p.Name}
	e, err := w.child(inner, s, made, "", io.Discard, io.Discard, stop)
	if err != nil || e.ended() {
		return e, err
	}
	w.forget(MaxKept)
	if err := os.Rename(making, entry); err == nil || errors.Is(err, fs.ErrExist) {
		p.Cache = entry
	}
	return e, nil
}

func random() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// forget removes what was not used for longest, as long as there is too much, and what was left half made.
func (w *Wasm) forget(most int64) {
	type kept struct {
		path  string
		used  time.Time
		bytes int64
	}
	var all []kept
	var sum int64
	entries, _ := os.ReadDir(w.Cache)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		at := filepath.Join(w.Cache, e.Name())
		if strings.HasSuffix(e.Name(), ".new") {
			if time.Since(info.ModTime()) > 24*time.Hour {
				os.RemoveAll(at)
			}
			continue
		}
		k := kept{at, info.ModTime(), Kept(at)}
		sum += k.bytes
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
	for _, k := range all {
		if sum <= most {
			return
		}
		// Out of its name first: who has it by then reads it to its end, or compiles.
		gone := filepath.Join(w.Cache, random()+".new")
		if os.Rename(k.path, gone) == nil {
			os.RemoveAll(gone)
			sum -= k.bytes
		}
	}
}

// Kept returns how many bytes the files in a directory have.
func Kept(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil // what vanishes meanwhile doesn't count
	})
	return n
}
