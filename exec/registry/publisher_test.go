package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/pipeline"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// runs are the runs of tokens, as issuers would say. Package pipeline tests what issuers sign.
type runs map[string]pipeline.Run

func (r runs) Identify(_ context.Context, token string) (*pipeline.Run, error) {
	run, ok := r[token]
	if !ok {
		return nil, fault.New(fault.AuthFailed, "the pipeline's token is refused: no one signed it")
	}
	if run.Token == "" {
		run.Token = token
	}
	run.Expires = noon.Add(10 * time.Minute)
	return &run, nil
}

const forge = "https://forge.example"

// release is a run of the pipeline that theBinding lets publish acme/base.
var release = pipeline.Run{Issuer: forge, Repository: "acme/base", RepositoryID: "1234", OwnerID: "56",
	Workflow: ".github/workflows/release.yml", Environment: "release", Ref: "refs/tags/v1"}

func theBinding() *client.Binding {
	return &client.Binding{Issuer: forge, Repository: "acme/base", RepositoryID: "1234", OwnerID: "56",
		Workflow: ".github/workflows/release.yml", Environment: "release"}
}

// withRuns opens a registry that believes runs.
func withRuns(t *testing.T, known runs) *world {
	w := newWorld(t)
	w.o.Issuers = known
	w.open()
	return w
}

func (w *world) bind(by *registry.Caller, bundle string, b *client.Binding) *client.Binding {
	w.Helper()
	if _, err := w.SetPublisher(w.Context(), by, bundle, client.PublisherChange{Add: b}); err != nil {
		w.Fatal(err)
	}
	all, err := w.Publishers(w.Context(), nil, bundle)
	if err != nil || len(all) == 0 {
		w.Fatalf("%v, %v", all, err)
	}
	return all[len(all)-1]
}

// run exchanges a run's token, and returns who that makes it.
func (w *world) run(token, bundle string) *registry.Caller {
	w.Helper()
	secret, _, err := w.Trust(w.Context(), client.Exchange{Bundle: bundle, Token: token})
	if err != nil {
		w.Fatal(err)
	}
	caller, err := w.Caller(w.Context(), secret)
	if err != nil {
		w.Fatal(err)
	}
	return caller
}

// TestPublisher: the run of a bound pipeline publishes its bundle, for a quarter of an hour, and nothing else.
func TestPublisher(t *testing.T) {
	w := withRuns(t, runs{"one": release, "two": release})
	ctx := t.Context()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	b := w.bind(ada, "acme/base", theBinding())
	if b.ID == "" || b.By != "ada" || b.Pending == nil || !b.Pending.Equal(noon.Add(30*24*time.Hour)) {
		t.Errorf("%+v", b)
	}
	run := w.run("one", "acme/base")
	if run.Binder != "ada" || !run.Token.Expires.Equal(noon.Add(15*time.Minute)) {
		t.Errorf("%+v", run)
	}
	if v := w.publish(run, pack{id: "acme/base", version: "1.0.0"}); v.By != "ada" {
		t.Errorf("%+v", v)
	}
	_, err := w.Publish(ctx, run, bytes.NewReader(w.archive(pack{id: "acme/other", version: "1.0.0"})))
	wants(t, err, fault.Denied, `is not for "acme/other"`)
	_, err = w.Change(ctx, run, "acme", adding("ada"))
	wants(t, err, fault.Denied, "no scope owner")
	_, _, err = w.Trust(ctx, client.Exchange{Bundle: "acme/base", Token: "one"})
	wants(t, err, fault.AuthFailed, "was used before")
	w.run("two", "acme/base")
	// It doesn't see what other tokens the account has.
	if all, err := w.TokensFor(ctx, run); err != nil || len(all) != 1 || all[0].ID != run.Token.ID {
		t.Errorf("a run sees %+v, %v", all, err)
	}
	if all, err := w.TokensFor(ctx, ada); err != nil || len(all) != 3 {
		t.Errorf("the account sees %+v, %v", all, err)
	}
	if all, err := w.Publishers(ctx, nil, "acme/base"); err != nil || len(all) != 1 || all[0].Pending != nil {
		t.Errorf("it waits for the first version, which is there: %+v, %v", all, err)
	}
	secret, _, err := w.Trust(ctx, client.Exchange{Bundle: "acme/base", Token: "none"})
	wants(t, err, fault.AuthFailed, "no one signed it")
	if secret != "" {
		t.Error("a secret was given")
	}
	found := false
	for _, e := range w.entries() {
		found = found || e.Kind == tlog.TrustedPublisher && e.Bundle == "acme/base" && e.By == "ada"
	}
	if !found {
		t.Error("the log doesn't have the binding")
	}
	// The end of a binding ends the tokens of its runs.
	if _, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Remove: b.ID}); err != nil {
		t.Fatal(err)
	}
	if all, err := w.Tokens(ctx, "ada"); err != nil {
		t.Error(err)
	} else {
		for _, token := range all {
			if token.Binding != "" {
				t.Errorf("the token of a run is left: %+v", token)
			}
		}
	}
}

// TestUnbound: each thing that a binding names must be that of the run.
func TestUnbound(t *testing.T) {
	changes := map[string]func(*pipeline.Run){
		"issuer":      func(r *pipeline.Run) { r.Issuer = "https://other.example" },
		"repository":  func(r *pipeline.Run) { r.RepositoryID = "99" },
		"owner":       func(r *pipeline.Run) { r.OwnerID = "99" },
		"workflow":    func(r *pipeline.Run) { r.Workflow = ".github/workflows/test.yml" },
		"environment": func(r *pipeline.Run) { r.Environment = "test" },
		"none":        func(r *pipeline.Run) { r.Environment = "" },
	}
	known := runs{}
	for name, change := range changes {
		run := release
		change(&run)
		known[name] = run
	}
	branch, tag, other := release, release, release
	branch.Ref, tag.Ref, other.Ref = "refs/heads/main", "refs/tags/v2", "refs/heads/main2"
	known["branch"], known["tag"], known["other"] = branch, tag, other
	w := withRuns(t, known)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	w.bind(ada, "acme/base", theBinding())
	for name := range changes {
		_, _, err := w.Trust(t.Context(), client.Exchange{Bundle: "acme/base", Token: name})
		if fault.CodeOf(err) != fault.Denied {
			t.Errorf("another %s: %v", name, err)
		}
	}
	for _, bundle := range []string{"acme/other", "acme", "a..b", ""} {
		_, _, err := w.Trust(t.Context(), client.Exchange{Bundle: bundle, Token: "branch"})
		wants(t, err, fault.Denied, "no binding lets this run publish")
	}
	for ref, allowed := range map[string]map[string]bool{
		"refs/heads/main": {"branch": true, "tag": false, "other": false},
		"refs/tags/*":     {"branch": false, "tag": true},
	} {
		b := theBinding()
		b.Environment, b.Ref = "", ref
		bundle := fmt.Sprintf("acme/of%d", len(ref))
		w.bind(ada, bundle, b)
		for token, want := range allowed {
			_, _, err := w.Trust(t.Context(), client.Exchange{Bundle: bundle, Token: token})
			if (err == nil) != want && fault.CodeOf(err) != fault.AuthFailed {
				t.Errorf("%s for %s: %v", ref, token, err)
			}
		}
	}
	none := newWorld(t)
	_, _, err := none.Trust(t.Context(), client.Exchange{Bundle: "acme/base", Token: "one"})
	wants(t, err, fault.Denied, "believes no issuer")
}

// TestPending: a binding for a bundle that no one has yet reserves nothing, is checked as a claim, and ends.
func TestPending(t *testing.T) {
	w := withRuns(t, runs{"one": release, "two": release, "three": release, "four": release})
	ctx := t.Context()
	ada, eve := w.caller("ada"), w.caller("eve")
	w.bind(ada, "fresh/base", theBinding())
	w.bind(eve, "fresh/base", &client.Binding{Issuer: forge, Repository: "eve/base", RepositoryID: "9", OwnerID: "9",
		Workflow: "x.yml", Ref: "refs/heads/main"})
	if _, err := w.Space(ctx, nil, "fresh"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("it reserves the namespace: %v", err)
	}
	if all, err := w.Publishers(ctx, nil, "fresh/base"); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	_, err := w.SetPublisher(ctx, ada, "rye/base", client.PublisherChange{Add: theBinding()})
	wants(t, err, fault.Denied, "is reserved")
	w.publish(w.run("one", "fresh/base"), pack{id: "fresh/base", version: "1.0.0"})
	if space, err := w.Space(ctx, nil, "fresh"); err != nil || space.Owners[0] != "ada" {
		t.Errorf("%+v, %v", space, err)
	}
	w.claim(eve, "taken")
	w.bind(eve, "taken/base", theBinding())
	_, err = w.SetPublisher(ctx, ada, "taken/base", client.PublisherChange{Add: theBinding()})
	wants(t, err, fault.Denied, "doesn't own")

	w.bind(ada, "later/base", theBinding())
	w.bind(ada, "laterr/base", theBinding())
	w.claim(eve, "later") // the first one who claims it has it
	_, _, err = w.Trust(ctx, client.Exchange{Bundle: "later/base", Token: "two"})
	wants(t, err, fault.Denied, "no binding")
	// This one is too like it by now.
	_, _, err = w.Trust(ctx, client.Exchange{Bundle: "laterr/base", Token: "three"})
	wants(t, err, fault.Conflict, "can't be claimed")

	w.bind(ada, "fresh/more", theBinding())
	w.now = noon.Add(31 * 24 * time.Hour)
	_, _, err = w.Trust(ctx, client.Exchange{Bundle: "fresh/more", Token: "four"})
	wants(t, err, fault.Denied, "no binding")
	w.run("four", "fresh/base") // it has a version
	w.bind(ada, "fresh/later", theBinding())
	if all, err := w.Publishers(ctx, nil, "fresh/more"); err != nil || len(all) != 0 {
		t.Errorf("what has waited too long is kept: %v, %v", all, err)
	}
}

// TestManyPending: what reserves nothing still takes space, so an account has a limit of it.
func TestManyPending(t *testing.T) {
	w := withRuns(t, runs{})
	ada := w.caller("ada")
	for i := range 100 {
		w.bind(ada, fmt.Sprintf("fresh/x%d", i), theBinding())
	}
	_, err := w.SetPublisher(t.Context(), ada, "fresh/more", client.PublisherChange{Add: theBinding()})
	wants(t, err, fault.Limit, "wait for first versions")
	w.bind(w.caller("eve"), "fresh/more", theBinding())
}

// TestTrustedOnly: a bundle that only its pipelines publish takes nothing from its owners' tokens; and a binding ends
// with the ownership of who made it.
func TestTrustedOnly(t *testing.T) {
	w := withRuns(t, runs{"one": release, "two": release})
	ctx := t.Context()
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	only := func(bundle string, on bool) client.Change {
		return client.Change{Settings: &client.Settings{TrustedOnly: map[string]bool{bundle: on}}}
	}
	_, err := w.Change(ctx, ada, "acme", only("other/base", true))
	wants(t, err, fault.Validation, "is no bundle of the namespace")
	if _, err := w.Change(ctx, ada, "acme", only("acme/base", true)); err != nil {
		t.Fatal(err)
	}
	base := pack{id: "acme/base", version: "1.0.0"}
	for _, stage := range []bool{true, false} {
		if stage {
			_, err = w.Stage(ctx, ada, "", bytes.NewReader(w.archive(base)))
		} else {
			_, err = w.Publish(ctx, ada, bytes.NewReader(w.archive(base)))
		}
		wants(t, err, fault.Denied, "only its pipelines")
	}
	w.publish(ada, pack{id: "acme/other", version: "1.0.0"})
	early := w.stage(ada, "", pack{id: "acme/early", version: "1.0.0"})
	if _, err := w.Change(ctx, ada, "acme", only("acme/early", true)); err != nil {
		t.Fatal(err)
	}
	_, err = w.Approve(ctx, ada, early.ID, early.Digest) // it was staged before
	wants(t, err, fault.Denied, "only its pipelines")
	w.bind(ada, "acme/base", theBinding())
	run := w.run("one", "acme/base")
	w.publish(run, base)
	for _, change := range []client.Change{adding("eve"), giving("eve")} {
		if _, err := w.Change(ctx, ada, "acme", change); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.Publish(ctx, run, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.1.0"})))
	wants(t, err, fault.Denied, "doesn't own")
	_, _, err = w.Trust(ctx, client.Exchange{Bundle: "acme/base", Token: "two"})
	wants(t, err, fault.Denied, "no binding")
	if _, err := w.Change(ctx, eve, "acme", only("acme/base", false)); err != nil {
		t.Fatal(err)
	}
	w.publish(eve, pack{id: "acme/base", version: "1.1.0"})
}

// TestPublisherApproved: where others must approve, they approve bindings, too; and who has bound a pipeline doesn't
// approve what it stages.
func TestPublisherApproved(t *testing.T) {
	w := withRuns(t, runs{"one": release})
	ctx := t.Context()
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	for _, change := range []client.Change{adding("eve"), demanding(1)} {
		if _, err := w.Change(ctx, ada, "acme", change); err != nil {
			t.Fatal(err)
		}
	}
	changed, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Add: theBinding()})
	if err != nil || changed.Staged == nil {
		t.Fatalf("%+v, %v", changed, err)
	}
	_, _, err = w.Trust(ctx, client.Exchange{Bundle: "acme/base", Token: "one"})
	wants(t, err, fault.Denied, "no binding")
	w.approve(eve, changed.Staged)
	run := w.run("one", "acme/base")
	_, err = w.Publish(ctx, run, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0"})))
	wants(t, err, fault.Approval, "needs the approval")
	s := w.stage(run, "", pack{id: "acme/base", version: "1.0.0"})
	if s.Binder != "ada" {
		t.Errorf("%+v", s)
	}
	_, err = w.Approve(ctx, ada, s.ID, s.Digest)
	wants(t, err, fault.Denied, "doesn't count")
	if s = w.approve(eve, s); !s.Done {
		t.Errorf("%+v", s)
	}
}

// TestBindingChecks: a binding that would let more runs publish than anyone means is refused.
func TestBindingChecks(t *testing.T) {
	w := withRuns(t, runs{})
	ctx := t.Context()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	for name, change := range map[string]func(*client.Binding){
		"no issuer":             func(b *client.Binding) { b.Issuer = "" },
		"no repository":         func(b *client.Binding) { b.Repository = "" },
		"no repository id":      func(b *client.Binding) { b.RepositoryID = " " },
		"no owner":              func(b *client.Binding) { b.OwnerID = "" },
		"no workflow":           func(b *client.Binding) { b.Workflow = "a\nb" },
		"neither":               func(b *client.Binding) { b.Environment = "" },
		"both":                  func(b *client.Binding) { b.Ref = "refs/heads/main" },
		"any ref":               func(b *client.Binding) { b.Environment, b.Ref = "", "*" },
		"any branch":            func(b *client.Binding) { b.Environment, b.Ref = "", "refs/heads/*" },
		"a ref of pull request": func(b *client.Binding) { b.Environment, b.Ref = "", "refs/pull/1/merge" },
		"a star in the middle":  func(b *client.Binding) { b.Environment, b.Ref = "", "refs/heads/*/x" },
		"an environment":        func(b *client.Binding) { b.Environment = "a\x00" },
	} {
		b := theBinding()
		change(b)
		if _, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Add: b}); fault.CodeOf(err) !=
			fault.Validation {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, change := range []client.PublisherChange{{}, {Add: theBinding(), Remove: "x"}} {
		_, err := w.SetPublisher(ctx, ada, "acme/base", change)
		wants(t, err, fault.Validation, "added or removed")
	}
	_, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Remove: "none"})
	wants(t, err, fault.NotFound, "no publisher")
	_, err = w.SetPublisher(ctx, ada, "acme", client.PublisherChange{Add: theBinding()})
	wants(t, err, fault.Validation, "is no bundle")
	_, err = w.SetPublisher(ctx, nil, "acme/base", client.PublisherChange{Add: theBinding()})
	wants(t, err, fault.AuthRequired, "")
	_, err = w.Publishers(ctx, nil, "acme//b")
	wants(t, err, fault.NotFound, "")
	for i := range 20 {
		b := theBinding()
		b.RepositoryID = fmt.Sprint(i)
		w.bind(ada, "acme/base", b)
	}
	_, err = w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Add: theBinding()})
	wants(t, err, fault.Limit, "has 20 publishers")
	again := theBinding()
	again.RepositoryID = "3"
	if _, err := w.SetPublisher(ctx, ada, "acme/base", client.PublisherChange{Add: again}); err != nil {
		t.Errorf("the same again: %v", err)
	}
}
