package build_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/build"
	"github.com/rye-build/rye/exec/chain"
)

// A world is a project, a store and an index, and a runner that makes what a test says.
type world struct {
	testing.TB
	dir    string
	cache  string
	key    []byte
	store  *rotten
	recipe string
	text   map[string]string // of the tools
	o      build.Options

	mu   sync.Mutex
	runs map[string]int
	// make says what a step makes of its inputs.
	make func(ctx context.Context, step string, in map[string]string) (map[string]string, error)
}

// A rotten store has other bytes under some names, and doesn't know.
type rotten struct {
	*disk.Store
	bad   map[cas.Digest]bool
	first func() // if set, before an object is read or a batch begun
}

// collect does what comes first.
func (r *rotten) collect(ctx context.Context) {
	if r.first != nil {
		r.first()
		r.Store.Missing(ctx, nil) // rereads the disk: until then removed objects stay readable
	}
}

// Batch implements cas.Batcher.
func (r *rotten) Batch(ctx context.Context) (cas.Batch, error) {
	r.collect(ctx)
	return r.Store.Batch(ctx)
}

// Get implements cas.Getter.
func (r *rotten) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	r.collect(ctx)
	o, err := r.Store.Get(ctx, id)
	if err != nil || !r.bad[id.Digest] {
		return o, err
	}
	b, err := io.ReadAll(o)
	b[len(b)/2] ^= 1
	return cas.Verify(o.Info, io.NopCloser(bytes.NewReader(b))), errors.Join(err, o.Close())
}

func newWorld(t testing.TB, steps string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{TB: t, dir: filepath.Join(dir, "project"), cache: filepath.Join(dir, "build.db"),
		key:    []byte(strings.Repeat("k", 32)),
		recipe: "id: acme/x\nversion: 1.0.0\nbuild:\n" + steps, text: map[string]string{}, runs: map[string]int{}}
	var err error
	w.store = &rotten{bad: map[cas.Digest]bool{}}
	if w.store.Store, err = disk.Open(filepath.Join(dir, "store"), disk.Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	w.put("src/a", "a")
	w.o = build.Options{Jobs: 4, Runner: w}
	return w
}

func (w *world) put(path, text string) {
	w.Helper()
	at := filepath.Join(w.dir, filepath.FromSlash(path))
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o777), os.WriteFile(at, []byte(text), 0o666)); err != nil {
		w.Fatal(err)
	}
}

// read returns what a file of the project has; "none" if it isn't there.
func (w *world) read(path string) string {
	b, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(path)))
	if err != nil {
		return "none"
	}
	return string(b)
}

// prepare makes the plan of a step, whose tool is a text.
func (w *world) prepare(_ context.Context, s *recipe.Step) (*exec.Plan, error) {
	text := w.text[s.Tool.ID]
	if text == "refused" {
		return nil, errors.New("it is revoked")
	}
	p := &exec.Plan{Decision: exec.Decision{Params: map[string]any{}}}
	for _, param := range s.Params {
		p.Params[param.Name] = param.Text
	}
	for _, name := range strings.Fields(w.text["programs"]) {
		p.Programs = append(p.Programs, record.Program{Name: strings.TrimRight(name, "+"),
			Digest: cas.Sum([]byte(name)), Path: "/somewhere/" + name})
	}
	it := &ai.Item{Raw: cas.Sum([]byte(text)), Model: &model.Model{}}
	it.Ref = s.Tool
	p.Chain = []chain.Link{{Item: it}}
	return p, nil
}

// Run implements build.Runner.
func (w *world) Run(ctx context.Context, j *build.Job) (cas.Digest, error) {
	w.mu.Lock()
	w.runs[j.Step.Name]++
	w.mu.Unlock()
	w.store.collect(ctx)
	in := map[string]string{}
	err := cas.Walk(ctx, j.Store, cas.ID{Kind: cas.TreeKind, Digest: j.Action.Inputs},
		func(path string, e cas.Entry) error {
			if e.Mode == cas.Dir {
				return nil
			}
			o, err := j.Store.Get(ctx, e.ID())
			if err != nil {
				return err
			}
			defer o.Close()
			b, err := io.ReadAll(o)
			in[path] = string(b)
			return err
		})
	if err != nil {
		return cas.Digest{}, err
	}
	make := w.make
	if make == nil {
		make = joined
	}
	out, err := make(ctx, j.Step.Name, in)
	if err != nil {
		return cas.Digest{}, err
	}
	if out == nil {
		out, _ = joined(ctx, j.Step.Name, in)
		for path, text := range out {
			delete(out, path)
			out[j.Step.Outputs[0]] = text
		}
	}
	return putTree(ctx, j, out)
}

// joined makes nothing of its own: its result is put where the step says.
func joined(_ context.Context, step string, in map[string]string) (map[string]string, error) {
	text := step + ":"
	for _, path := range slices.Sorted(maps.Keys(in)) {
		text += " " + path + "=" + in[path]
	}
	return map[string]string{"out/" + step: text}, nil
}

// putTree puts files, at most one directory deep, into the store of a job.
func putTree(ctx context.Context, j *build.Job, files map[string]string) (cas.Digest, error) {
	s := j.Store
	batch, err := s.Batch(ctx)
	if err != nil {
		return cas.Digest{}, err
	}
	defer batch.Close()
	dirs := map[string][]cas.Entry{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		dir, name, ok := strings.Cut(path, "/")
		if !ok {
			dir, name = "", path
		}
		d := cas.Sum([]byte(files[path]))
		missing, err := s.Missing(ctx, []cas.ID{{Kind: cas.Blob, Digest: d}})
		if err == nil && len(missing) > 0 {
			_, err = s.Put(ctx, cas.Blob, strings.NewReader(files[path]))
		}
		if err != nil {
			return d, err
		}
		dirs[dir] = append(dirs[dir], cas.Entry{Name: name, Mode: cas.File, Digest: d, Size: int64(len(files[path]))})
	}
	tree := func(entries []cas.Entry) (cas.Digest, error) {
		slices.SortFunc(entries, func(a, b cas.Entry) int { return strings.Compare(a.Name, b.Name) })
		b, err := cas.AppendTree(nil, entries)
		if err != nil {
			return cas.Digest{}, err
		}
		return batch.PutBytes(ctx, cas.TreeKind, b)
	}
	root := dirs[""]
	for dir, entries := range dirs {
		if dir != "" {
			d, err := tree(entries)
			if err != nil {
				return d, err
			}
			root = append(root, cas.Entry{Name: dir, Mode: cas.Dir, Digest: d})
		}
	}
	d, err := tree(root)
	if err == nil {
		err = batch.Commit(ctx)
	}
	if err == nil {
		err = j.Hold(ctx, d)
	}
	return d, err
}

// build builds, as one process does.
func (w *world) build(steps ...string) (*build.Result, error) {
	w.Helper()
	r, err := recipe.Parse([]byte(w.recipe))
	if err != nil {
		w.Fatal(err)
	}
	cache := build.OpenCache(w.cache, w.key)
	defer cache.Close(w.Context())
	o := w.o
	o.Dir, o.Recipe, o.Steps, o.Store, o.Cache, o.Prepare = w.dir, r, steps, w.store, cache, w.prepare
	return build.Build(w.Context(), o)
}

// states builds, and says what became of each step.
func (w *world) states(steps ...string) string {
	w.Helper()
	r, err := w.build(steps...)
	if err != nil {
		w.Fatal(err)
	}
	var list []string
	for _, s := range r.Steps {
		list = append(list, fmt.Sprintf("%s %s", s.Step, s.State))
		if s.Err != nil {
			w.Logf("%s: %v", s.Step, s.Err)
		}
	}
	return strings.Join(list, ", ")
}

func (w *world) want(states string, steps ...string) {
	w.Helper()
	if got := w.states(steps...); got != states {
		w.Errorf("%s; want %s", got, states)
	}
}

// counted says how often each step ran, and begins again.
func (w *world) counted() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(w.runs)) {
		list = append(list, fmt.Sprint(name, w.runs[name]))
	}
	clear(w.runs)
	return strings.Join(list, " ")
}
