package build_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/build"
)

// Two steps make something of sources, and a third one of what they make.
const diamond = `  end: {tool: "tool:end", inputs: ["out/left", "out/right"], outputs: [out/end]}
  left: {tool: "tool:left", inputs: ["src/a"], outputs: [out/left], params: {level: "1"}}
  right: {tool: "tool:right", inputs: ["src/**"], outputs: [out/right]}
  other: {tool: "tool:other", outputs: [out/other]}
`

const allRan = "end ran, left ran, right ran, other ran"

func TestBuild(t *testing.T) {
	w := newWorld(t, diamond)
	w.want(allRan)
	if got, want := w.read("out/end"), "end: out/left=left: src/a=a out/right=right: src/a=a"; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got := w.counted(); got != "end1 left1 other1 right1" {
		t.Errorf("%s", got)
	}
	w.want("end unchanged, left unchanged, right unchanged, other unchanged")
	w.put("src/b", "b")
	w.want("left unchanged", "left")
	w.want("end ran, left unchanged, right ran, other unchanged")
	w.put("out/end", "touched")
	w.want("end cached, left unchanged, right unchanged", "end")
	if got := w.counted(); got != "end1 right1" {
		t.Errorf("%s", got)
	}
	w.text["right"] = "changed"
	w.want("end unchanged, left unchanged, right ran, other unchanged") // it makes the same as before
	w.counted()
	w.o.DryRun = true
	w.put("src/a", "c")
	w.want("end stale, left stale, right stale, other unchanged")
	if err := os.Remove(filepath.Join(w.dir, "out", "other")); err != nil {
		t.Fatal(err)
	}
	w.want("other stale", "other")
	if r, err := w.build("other"); err != nil || r.OK() ||
		!slices.Equal(r.Steps[0].Why, []string{"the output out/other is gone"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if got := w.counted(); got != "" || w.read("out/other") != "none" {
		t.Errorf("%s was run, and there is %q", got, w.read("out/other"))
	}
	_, err := w.build("nosuch")
	if fault.CodeOf(err) != fault.NotFound || err.Error() != `bundle.yaml has no step "nosuch"` {
		t.Error(err)
	}
}

// TestCollected has a gc without grace whenever the store is asked for something: what a build works with stays.
func TestCollected(t *testing.T) {
	w := newWorld(t, diamond)
	other, err := disk.Open(w.store.Dir(), disk.Options{Wait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var removed, busy atomic.Int64
	w.store.first = func() {
		r, err := other.GC(t.Context(), disk.GCOptions{})
		if err != nil && fault.CodeOf(err) == fault.Busy {
			busy.Add(1) // a step is just putting something
		} else if err != nil {
			t.Error(err)
		}
		removed.Add(r.Removed)
	}
	w.want(allRan)
	w.store.first()
	w.put("out/end", "touched")
	w.want("end ran, left unchanged, right unchanged", "end") // its result has gone with the build before
	w.put("src/b", "b")
	w.want("end ran, left unchanged, right ran, other unchanged")
	if removed.Load() == 0 {
		t.Errorf("nothing was removed; %d times it was busy", busy.Load())
	}
}

// The names of files and directories are sorted each in their own way, paths in another.
func TestNames(t *testing.T) {
	w := newWorld(t, "  one: {tool: \"tool:one\", inputs: [\"src/**\"], outputs: [out/one]}\n")
	for _, name := range []string{"a-b", "d/x", "d-e", "d.f", "d/y/z", "d0"} {
		w.put("src/"+name, name)
	}
	w.want("one ran")
	if got, want := w.read("out/one"),
		"one: src/a=a src/a-b=a-b src/d-e=d-e src/d.f=d.f src/d/x=d/x src/d/y/z=d/y/z src/d0=d0"; got != want {
		t.Errorf("%q", got)
	}
	w.want("one unchanged")
}

// Why says what changed since the result was put here last.
func TestWhy(t *testing.T) {
	w := newWorld(t, diamond)
	why := func(want ...string) {
		t.Helper()
		r, err := w.build("left")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Steps[0].Why; !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
	why("not built here before")
	why()
	w.put("src/a", "b")
	w.text["left"] = "2"
	w.recipe = strings.Replace(w.recipe, `level: "1"`, `level: "2", more: "x"`, 1)
	why("the input src/a changed", "tool:left changed", `the parameter level is "2", and was "1"`,
		`the parameter more is "x", and was null`)
	w.recipe = strings.Replace(w.recipe, "tool:left", "tool:third", 1)
	why("tool:left was removed from the chain", "tool:third was added to the chain")
	w.recipe = strings.Replace(w.recipe, "outputs: [out/left]", "outputs: [out/left, out/more]", 1)
	w.make = func(context.Context, string, map[string]string) (map[string]string, error) {
		return map[string]string{"out/left": "x", "out/more": "y"}, nil
	}
	why("the list of outputs changed")
	w.text["programs"] = "python3 cc cc"
	why("the program cc changed", "the program python3 changed")
	w.text["programs"] = "cc python3"
	why() // in which order they were found is nothing
	w.text["programs"] = "cc+ python3"
	why("the program cc changed")
	w.recipe = strings.Replace(w.recipe, `["src/a"]`, `["src/**"]`, 1)
	for i := range 25 {
		w.put(fmt.Sprintf("src/x%02d", i), "x")
	}
	r, err := w.build("left")
	if err != nil || len(r.Steps[0].Why) != 21 || r.Steps[0].Why[0] != "the input src/x00 is new" ||
		r.Steps[0].Why[20] != "and more" {
		t.Errorf("%+v, %v", r, err)
	}
}

// What is never bundled is no source either, whatever a glob covers.
func TestNever(t *testing.T) {
	w := newWorld(t, "  one: {tool: \"tool:one\", inputs: [\".ai/**\"], outputs: [out/one]}\n")
	w.put(".ai/tools/x.yaml", "x")
	w.put(".ai/keys/me.pem", "secret")
	w.put(".ai/policy.yaml", "p")
	w.put(".ai/outputs/log", "l")
	w.want("one ran")
	if got := w.read("out/one"); got != "one: .ai/tools/x.yaml=x" {
		t.Errorf("%q", got)
	}
}

// A missing project directory is an error of the build, not a failed step.
func TestNoProject(t *testing.T) {
	w := newWorld(t, diamond)
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := w.build(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Steps that don't need each other run at one time: each waits until the other one has begun.
func TestTogether(t *testing.T) {
	w := newWorld(t, diamond)
	met := map[string]chan struct{}{"left": make(chan struct{}), "right": make(chan struct{})}
	w.make = func(ctx context.Context, step string, in map[string]string) (map[string]string, error) {
		if mine := met[step]; mine != nil {
			close(mine)
			for _, other := range met {
				<-other
			}
		}
		return joined(ctx, step, in)
	}
	w.want(allRan)
}

// With one job at a time no two run together.
func TestOneJob(t *testing.T) {
	w := newWorld(t, diamond)
	w.o.Jobs = 0
	running := make(chan struct{}, 1)
	w.make = func(ctx context.Context, step string, in map[string]string) (map[string]string, error) {
		select {
		case running <- struct{}{}:
		default:
			t.Errorf("%s runs beside another one", step)
		}
		defer func() { <-running }()
		return joined(ctx, step, in)
	}
	w.want(allRan)
}

// When one fails, what needs it isn't made; what doesn't is made with KeepGoing alone, or if it had begun.
func TestFailure(t *testing.T) {
	w := newWorld(t, diamond)
	no := errors.New("no luck")
	begun := make(chan struct{})
	w.make = func(ctx context.Context, step string, in map[string]string) (map[string]string, error) {
		switch step {
		case "left":
			<-begun
			return nil, no
		case "right":
			close(begun)
		}
		return joined(ctx, step, in)
	}
	w.o.KeepGoing = true
	var told []string
	w.o.Told = func(r *build.Report) { told = append(told, r.Step+" "+string(r.State)) }
	r, err := w.build()
	if err != nil || r.OK() || !errors.Is(r.Steps[1].Err, no) || r.Steps[1].State != build.Failed {
		t.Fatalf("%+v, %v", r, err)
	}
	if s := r.Steps[0]; s.State != build.Skipped || !slices.Equal(s.Why, []string{"the step left failed"}) {
		t.Errorf("%+v", s)
	}
	if r.Steps[2].State != build.Ran || r.Steps[3].State != build.Ran || w.read("out/end") != "none" ||
		w.read("out/left") != "none" {
		t.Errorf("%+v %+v", r.Steps[2], r.Steps[3])
	}
	slices.Sort(told)
	if want := []string{"end skipped", "left failed", "other ran", "right ran"}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}

	// Without it nothing begins any more.
	w = newWorld(t,
		"  one: {tool: \"tool:one\", inputs: [\"src/**\"], outputs: [out/one]}\n  two: {tool: \"tool:two\", inputs: [\"src/**\"], outputs: [out/two]}\n")
	w.o.Jobs = 1
	w.make = func(context.Context, string, map[string]string) (map[string]string, error) { return nil, no }
	r, err = w.build()
	if err != nil || len(w.runs) != 1 || r.Steps[0].State == r.Steps[1].State {
		t.Errorf("%v ran, %v", w.runs, err)
	}

	// What can't be prepared, or has no inputs, fails like what has run.
	w = newWorld(t, diamond)
	w.text["left"] = "refused"
	w.want("left failed", "left")
	w.recipe = strings.Replace(w.recipe, "src/a", "src/c", 1)
	r, err = w.build("left")
	if err != nil || r.Steps[0].Err.Error() != `the step "left" needs "src/c", and no file matches` {
		t.Errorf("%+v, %v", r, err)
	}
}

// A build that is interrupted says so, and has put nothing half.
func TestInterrupted(t *testing.T) {
	w := newWorld(t, diamond)
	ctx, cancel := context.WithCancel(t.Context())
	w.make = func(ctx context.Context, step string, in map[string]string) (map[string]string, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r, err := recipe.Parse([]byte(w.recipe))
	if err != nil {
		t.Fatal(err)
	}
	cache := build.OpenCache(w.cache, w.key)
	defer cache.Close(t.Context())
	o := w.o
	o.Dir, o.Recipe, o.Store, o.Cache, o.Prepare = w.dir, r, w.store, cache, w.prepare
	if _, err := build.Build(ctx, o); !errors.Is(err, context.Canceled) || w.read("out/end") != "none" {
		t.Errorf("%v, and there is %q", err, w.read("out/end"))
	}
}

// With Check each step runs twice, and must make the same.
func TestCheck(t *testing.T) {
	w := newWorld(t, diamond)
	w.o.Check = true
	w.want(allRan)
	w.want(allRan)
	if got := w.counted(); got != "end4 left4 other4 right4" {
		t.Errorf("%s", got)
	}
	n := 0
	w.make = func(_ context.Context, step string, in map[string]string) (map[string]string, error) {
		n++
		out := map[string]string{"out/other": "same", "out/extra": "x"}
		if n > 1 {
			out = map[string]string{"out/other": "changed", "out/more": "x"}
		}
		return out, nil
	}
	r, err := w.build("other")
	if err != nil {
		t.Fatal(err)
	}
	e, ok := errors.AsType[*fault.Error](r.Steps[0].Err)
	if want := []string{"the output out/extra is gone", "the output out/more is new",
		"the output out/other changed"}; !ok || e.Code != fault.Failed || !slices.Equal(e.Why, want) ||
		e.Error() != `"tool:other" is not pure: the second run of the step "other" had other outputs` {
		t.Errorf("%v", r.Steps[0].Err)
	}
	for i, err := range []error{errors.New("the second time"), nil} {
		n = 0
		w.make = func(ctx context.Context, step string, in map[string]string) (map[string]string, error) {
			if n++; n > 1 && err != nil {
				return nil, err
			}
			return joined(ctx, step, in)
		}
		r, _ = w.build("other")
		if got := r.Steps[0]; i == 0 && !errors.Is(got.Err, err) || i == 1 && got.State != build.Ran {
			t.Errorf("%+v", got)
		}
	}
}

// An output directory keeps the files of the result, and files that the build can't recreate.
func TestStrays(t *testing.T) {
	w := newWorld(t, "  all: {tool: \"tool:all\", inputs: [\"src/**\"], outputs: [dist]}\n")
	out := map[string]string{"dist/a": "a", "dist/b": "b"}
	w.make = func(context.Context, string, map[string]string) (map[string]string, error) { return out, nil }
	w.put("dist/mine", "mine")
	strays := func() []string {
		t.Helper()
		r, err := w.build()
		if err != nil {
			t.Fatal(err)
		}
		e, ok := errors.AsType[*fault.Error](r.Steps[0].Err)
		if !ok || e.Code != fault.Conflict || !strings.HasPrefix(e.Error(),
			`the outputs of the step "all" hold "dist/`) {
			t.Fatal(r.Steps[0].Err)
		}
		return e.Details["strays"].([]string)
	}
	if got := strays(); !slices.Equal(got, []string{"dist/mine"}) || w.read("dist/a") != "none" ||
		w.read("dist/mine") != "mine" {
		t.Errorf("%q, and there is %q", got, w.read("dist/a"))
	}
	if err := os.Remove(filepath.Join(w.dir, "dist", "mine")); err != nil {
		t.Fatal(err)
	}
	w.want("all cached")
	w.put("src/c", "c")
	out = map[string]string{"dist/b": "c"}
	w.put("dist/a", "touched")
	if got := strays(); !slices.Equal(got, []string{"dist/a"}) || w.read("dist/b") != "b" {
		t.Errorf("%q, and there is %q", got, w.read("dist/b"))
	}
	w.put("dist/a", "a")
	w.want("all cached")
	if w.read("dist/a") != "none" || w.read("dist/b") != "c" {
		t.Errorf("there is %q and %q", w.read("dist/a"), w.read("dist/b"))
	}
	// A directory in which nothing is left goes with its files.
	w = newWorld(t, "  all: {tool: \"tool:all\", inputs: [\"src/**\"], outputs: [x, y]}\n")
	w.make = func(context.Context, string, map[string]string) (map[string]string, error) { return out, nil }
	out = map[string]string{"x/a": "a", "y": "y"}
	w.want("all ran")
	out = map[string]string{"x": "a", "y": "y"}
	w.put("src/c", "c")
	w.want("all ran")
	if w.read("x") != "a" {
		t.Errorf("there is %q", w.read("x"))
	}
}

// Entries that another user added to the index or changed in it are ignored.
func TestPoisoned(t *testing.T) {
	w := newWorld(t, "  one: {tool: \"tool:one\", inputs: [\"src/**\"], outputs: [out/one]}\n")
	r, err := w.build()
	if err != nil {
		t.Fatal(err)
	}
	action := r.Steps[0].Action
	evil, err := putTree(t.Context(), &build.Job{Store: w.store, Hold: func(context.Context, cas.Digest) error {
		return nil
	}}, map[string]string{"out/one": "evil"})
	if err != nil {
		t.Fatal(err)
	}
	foreign := build.OpenCache(w.cache, []byte(strings.Repeat("e", 32)))
	if _, ok := foreign.Result(t.Context(), action); ok {
		t.Error("another user's entry counts")
	}
	foreign.Keep(t.Context(), action, evil)
	foreign.Close(t.Context())
	w.counted()
	w.want("one ran")
	if w.read("out/one") != "one: src/a=a" {
		t.Errorf("there is %q", w.read("out/one"))
	}
	w.want("one unchanged")
	// Its own entry for a tree that the store hasn't is none either.
	mine := build.OpenCache(w.cache, w.key)
	mine.Keep(t.Context(), action, cas.Sum([]byte("nothing")))
	mine.Close(t.Context())
	r, err = w.build()
	if err != nil || r.Steps[0].State != build.Ran ||
		!strings.HasPrefix(r.Steps[0].Note, "the cached result is missing or damaged") {
		t.Errorf("%+v, %v", r.Steps[0], err)
	}
	w.want("one unchanged")
	b, err := os.ReadFile(w.cache)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if i%61 == 0 {
			b[i] ^= 0x20
		}
	}
	if err := os.WriteFile(w.cache, b, 0o600); err != nil {
		t.Fatal(err)
	}
	w.put("out/one", "evil")
	w.want("one ran")
	if w.read("out/one") != "one: src/a=a" {
		t.Errorf("there is %q", w.read("out/one"))
	}
}

// A result that the store has with other bytes is made again, and is what it should be wherever it is read from.
func TestRotten(t *testing.T) {
	w := newWorld(t, "  one: {tool: \"tool:one\", inputs: [\"src/**\"], outputs: [out/one]}\n")
	w.want("one ran")
	r, err := w.build()
	if err != nil {
		t.Fatal(err)
	}
	blob := cas.Sum([]byte("one: src/a=a"))
	for what, bad := range map[string]cas.Digest{"file": blob, "tree": r.Steps[0].Outputs} {
		w.store.bad = map[cas.Digest]bool{bad: true}
		w.want("one unchanged") // the build doesn't read the store
		w.put("out/one", "touched")
		r, err := w.build()
		if err != nil || r.Steps[0].State != build.Ran ||
			!strings.Contains(r.Steps[0].Note, "the cached result is missing or damaged: ") {
			t.Errorf("%s: %+v, %v", what, r.Steps[0], err)
		}
		if got := w.read("out/one"); got != "one: src/a=a" {
			t.Errorf("%s: there is %q", what, got)
		}
		w.want("one unchanged")
	}
	// Of inputs that are others nothing is made.
	w.store.bad = map[cas.Digest]bool{cas.Sum([]byte("b")): true}
	w.put("src/a", "b")
	w.want("one failed")
	if got := w.read("out/one"); got != "one: src/a=a" {
		t.Errorf("there is %q", got)
	}
}

// An action says the same for everybody, and in one form.
func TestAction(t *testing.T) {
	w := newWorld(t, diamond)
	r, err := recipe.Parse([]byte(w.recipe))
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.prepare(t.Context(), r.Step("left"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := build.ActionOf(p, cas.EmptyTree, []string{"out/left"})
	if err != nil {
		t.Fatal(err)
	}
	if a.Platform == "" || a.Inputs != cas.EmptyTree || len(a.Chain) != 1 || a.Chain[0].Ref != "tool:left" ||
		!slices.Equal(a.Env, exec.BuildEnv()) {
		t.Errorf("%+v", a)
	}
	a.Platform = "linux/amd64"
	a.Toolchain = append(a.Toolchain, build.Program{Digest: cas.Sum([]byte("python")), Name: "python3",
		Version: "3.13.5"})
	b, err := a.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "action.json"))
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != strings.TrimSuffix(string(want), "\n") {
		t.Errorf("%s\nwant %s", b, want)
	}
}

func TestKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "build.key")
	first, err := build.Key(path)
	if err != nil || len(first) != 32 {
		t.Fatal(first, err)
	}
	if again, err := build.Key(path); err != nil || string(again) != string(first) {
		t.Error(again, err)
	}
	if err := os.Truncate(path, 31); err != nil {
		t.Fatal(err)
	}
	second, err := build.Key(path)
	if err != nil || string(second) == string(first) || len(second) != 32 {
		t.Error(second, err)
	}
	if _, err := build.Key(filepath.Join(path, "x")); err == nil {
		t.Error("a key in a file")
	}
	if _, err := build.Key(filepath.Join(t.TempDir(), "x", "y")); err == nil {
		t.Error("a key in no directory")
	}
	dir := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := build.Key(dir); err == nil {
		t.Error("a directory is a key")
	}
}
