package wasm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox"
)

// MaxKept bounds the cache of compiled modules, in bytes.
const MaxKept = 1 << 30

// engine names the compiler. Modules compiled by another version aren't used.
const engine = "wazero/v1.12.0"

// compiled compiles the module into the cache unless it is there, and adds the cache entry to the plan. It returns
// the End of the compiling guest, or nil if none ran. Without a cache, the guest that runs the module compiles it.
func (w *Wasm) compiled(ctx context.Context, spec sandbox.Spec, planned *plan, stop func()) (*worker.End, error) {
	key, err := w.keyOf(planned.Module)
	if err != nil || w.Cache == "" {
		return nil, err
	}
	done, err := w.making.Take(ctx, key)
	if err != nil {
		return nil, err
	}
	defer done()
	entry := filepath.Join(w.Cache, key)
	if planned.Cache = used(entry); planned.Cache != "" {
		return nil, nil
	}
	making := w.unfinished()
	if err := os.MkdirAll(making, 0o700); err != nil {
		return nil, nil
	}
	defer os.RemoveAll(making)
	spec.Read, spec.Write = []string{planned.Module}, []string{making}
	spec.Limits.Written = 0 // the tool's limit doesn't apply to the compiler
	e, err := w.guest(ctx, spec, &plan{Module: planned.Module, Cache: making, Make: true, Pages: planned.Pages,
		Name: planned.Name}, "",
		answer.New(nil, nil), stop, "", nil)
	if err != nil || e.Ended != "" || e.Kind != worker.Exit {
		return e, err
	}
	w.forget(MaxKept)
	if err := os.Rename(making, entry); err == nil || errors.Is(err, fs.ErrExist) {
		planned.Cache = entry
	}
	return e, nil
}

// used marks a cache entry as recently used, and returns its path, or "" if it is missing.
func used(entry string) string {
	info, err := os.Lstat(entry)
	if err != nil || !info.IsDir() {
		return ""
	}
	now := time.Now()
	os.Chtimes(entry, now, now)
	return entry
}

// A module is a hashed file and its key in the cache.
type module struct {
	file fs.FileInfo
	key  string
}

// maxModules bounds the modules whose keys are remembered.
const maxModules = 64

// keyOf returns the key of a module. It hashes a file once, until its stamp changes: a tool runs from a private copy,
// which is verified before each call.
func (w *Wasm) keyOf(path string) (string, error) {
	file, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	m, ok := w.modules[path]
	w.mu.Unlock()
	if ok && os.SameFile(m.file, file) && m.file.Size() == file.Size() && m.file.ModTime().Equal(file.ModTime()) {
		return m.key, nil
	}
	h := cas.NewHasher()
	fmt.Fprintf(h, "wasm/2 %s %s/%s\n", engine, runtime.GOOS, runtime.GOARCH)
	if err := readModule(path, h); err != nil {
		return "", err
	}
	key := strings.TrimPrefix(h.Digest().String(), "blake3:")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.modules == nil || len(w.modules) >= maxModules {
		w.modules = map[string]module{}
	}
	w.modules[path] = module{file, key}
	return key, nil
}

// unfinished returns a new name for a directory that is being created or removed.
func (w *Wasm) unfinished() string { return filepath.Join(w.Cache, rand.Text()+".new") }

// forget removes the least recently used modules until the rest fits, and abandoned unfinished directories.
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
		k := kept{at, info.ModTime(), osfile.BytesIn(at)}
		sum += k.bytes
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kept) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	})
	for _, k := range all {
		if sum <= most {
			return
		}
		// Rename the entry first: a guest that is reading it either succeeds or compiles the module itself.
		gone := w.unfinished()
		if os.Rename(k.path, gone) == nil {
			os.RemoveAll(gone)
			sum -= k.bytes
		}
	}
}
