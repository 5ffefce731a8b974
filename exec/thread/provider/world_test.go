package provider_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
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
	*projecttest.Project
	*session.Session
	t      testing.TB
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
	files := map[string]string{}
	for id, text := range items {
		files["tools/"+id+".yaml"] = text
	}
	w := &world{t: t, secret: true, Project: projecttest.With(t, `
override:
  - "tool:rye/agent/providers/*"

exec:
  secrets: {ANTHROPIC_API_KEY: ["tool:**"], OPENAI_API_KEY: ["tool:**"], GEMINI_API_KEY: ["tool:**"]}
`, files)}
	sandboxtest.Removable(t, filepath.Dir(w.Dir))
	self, err := os.Executable()
	must(t, err)
	w.Session, err = session.Open(t.Context(), w.Workspace(workspace.Options{Offline: true}), session.Options{
		Mode: session.Mode{Unlocked: true}, Self: self,
		Host: env.Host{Vars: map[string]string{"ANTHROPIC_API_KEY": secret, "OPENAI_API_KEY": secret,
			"GEMINI_API_KEY": secret}},
	})
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w
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
	must(w.t, filepath.WalkDir(w.Paths().State.Path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			all += string(b)
			return err
		}
		return err
	}))
	return all
}
