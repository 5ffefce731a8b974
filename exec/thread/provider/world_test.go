package provider_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

// secret is the key that all providers of a world are given.
const secret = "sk-a-key-for-tests-5f3c9b21"

// shipped are the providers of the library.
var shipped = []string{"anthropic", "gemini", "local", "openai", "openai_responses"}

// someShipped are the shipped providers of a test in which goroutines meet alike for all: two with -short.
func someShipped() []string {
	if testing.Short() {
		return []string{"anthropic", "openai"}
	}
	return shipped
}

// A world is a project of Alice with providers, and a session of it.
type world struct {
	t     testing.TB
	paths workspace.Paths
	*session.Session
	secret bool // the calls have one
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// newWorld makes a project with items: ids with their texts.
func newWorld(t testing.TB, items map[string]string) *world {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { // copies that tools run from are read-only
		filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	at := func(name string) workspace.Place { return workspace.Place{Path: filepath.Join(dir, name)} }
	w := &world{t: t, secret: true, paths: workspace.Paths{Dir: at("project").Path, Version: "devel", User: at("home"), Store: at("store"), State: at("state"), Cache: at("cache")}}
	policy := fmt.Sprintf(`rye: policy/2

keys:
  alice: {key: %q}

override:
  - "tool:rye/agent/providers/*"

exec:
  secrets: {ANTHROPIC_API_KEY: ["tool:**"], OPENAI_API_KEY: ["tool:**"], GEMINI_API_KEY: ["tool:**"]}

names:
  "**": {keys: [alice]}
`, keytest.Alice().Public())
	w.write(".git/HEAD", "")
	w.write("rye.yaml", "")
	w.write("../home/.ai/policy.yaml", policy)
	must(t, os.Chmod(filepath.Join(w.paths.User.Path, ".ai"), 0o700), key.OpenDir(filepath.Join(w.paths.User.Path, ".ai", "keys")).Add("alice", keytest.Alice(), ""))
	for id, text := range items {
		w.write(".ai/tools/"+id+".yaml", text)
	}
	for id := range items {
		w.sign(model.Ref{Kind: "tool", ID: id})
	}
	space := w.workspace()
	self, err := os.Executable()
	must(t, err)
	w.Session, err = session.Open(t.Context(), space, session.Options{
		Mode: session.Mode{Unlocked: true}, Self: self,
		Host: env.Host{Vars: map[string]string{"ANTHROPIC_API_KEY": secret, "OPENAI_API_KEY": secret, "GEMINI_API_KEY": secret}},
	})
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.paths.Dir, filepath.FromSlash(name))
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) workspace() *workspace.Workspace {
	w.t.Helper()
	space, err := workspace.Open(w.t.Context(), w.paths, workspace.Options{Offline: true})
	must(w.t, err)
	w.t.Cleanup(space.Close)
	return space
}

// sign has Alice sign an item.
func (w *world) sign(ref model.Ref) {
	w.t.Helper()
	items, err := w.workspace().Items(w.t.Context())
	must(w.t, err)
	defer items.Close()
	it, err := items.Find(w.t.Context(), ref)
	must(w.t, err)
	subject, _, err := items.Admit.Subject(w.t.Context(), it)
	must(w.t, err)
	signed, err := sign.Sign(it.Bytes, subject.Signing(), subject.Claim(), keytest.Alice(), time.Now(), nil)
	must(w.t, err)
	w.write(".ai/tools/"+ref.ID+".yaml", string(signed))
}

// provider reads a provider as a call of it would run.
func (w *world) provider(id string) *provider.Provider {
	w.t.Helper()
	it, err := w.Tool(w.t.Context(), model.Ref{Kind: "tool", ID: id})
	must(w.t, err)
	p, err := provider.Read(it.Model)
	must(w.t, err)
	return p
}

// ask makes a model call. Everything that came out of it, the answer apart, is searched for the key.
func (w *world) ask(p *provider.Provider, r provider.Request, to provider.Deltas) (*provider.Answer, error) {
	w.t.Helper()
	given, err := p.Params(r)
	if err != nil {
		return nil, err
	}
	stream := p.Stream(to)
	result, err := w.Call(w.t.Context(), &exec.Call{Ref: p.Ref, Params: params.Values(given)}, stream)
	if err != nil {
		w.clean("error", err.Error())
		return nil, err
	}
	answer, err := p.Answer(&result.Result, stream)
	w.clean("result", fmt.Sprintf("%#v", result.Result))
	w.clean("receipt", string(result.Receipt))
	w.clean("answer", fmt.Sprintf("%#v, %v, %#v", answer, err, err))
	return answer, err
}

// clean fails if a text has the key in it.
func (w *world) clean(what, text string) {
	w.t.Helper()
	if w.secret && strings.Contains(text, secret) {
		w.t.Errorf("the key is in the %s: %s", what, text)
	}
}

// logged closes the session and returns everything that it has written down.
func (w *world) logged() (all string) {
	w.t.Helper()
	must(w.t, w.Close())
	must(w.t, filepath.WalkDir(w.paths.State.Path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			all += string(b)
			return err
		}
		return err
	}))
	return all
}
