package registry_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// TestClaim: which namespaces an account can have.
func TestClaim(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme-tools")
	w.claim(ada, "acme-tools") // again
	w.claim(ada, "acmetools")  // an owner's own
	w.claim(ada, "abc")
	w.claim(eve, "abd") // too short to be mistaken
	for name, code := range map[string]fault.Code{
		"acme-tools": fault.Conflict, "Acme_Tools": fault.Conflict, "acme.tools": fault.Conflict,
		"acme-tool": fault.Conflict, "acmetoolz": fault.Conflict, "rye": fault.Denied, "plugins": fault.Denied,
		"R-Y-E": fault.Denied, "skills": fault.Denied, "admin": fault.Denied, "a/b": fault.Validation,
		"": fault.Validation, "a b": fault.Validation, "con": fault.Validation,
	} {
		_, err := w.Claim(t.Context(), eve, name, "")
		wants(t, err, code, "")
	}
	_, err := w.Claim(t.Context(), nil, "free", "")
	wants(t, err, fault.AuthRequired, "owner")
	_, err = w.Claim(t.Context(), w.caller("ada", registry.ScopePublish), "free", "")
	wants(t, err, fault.Denied, "no scope owner")
	narrow := w.callerFor(registry.Token{Account: "ada", Label: "n", Names: []string{"one/**"},
		Scopes: []registry.Scope{registry.ScopeOwner}})
	_, err = w.Claim(t.Context(), narrow, "two", "")
	wants(t, err, fault.Denied, "not for")
	w.claim(narrow, "one")
	_, err = w.Space(t.Context(), nil, "nothing")
	wants(t, err, fault.NotFound, "nothing")
}

func adding(account string) client.Change {
	return client.Change{Owner: &client.OwnerChange{Account: account, Action: client.AddOwner}}
}

func removing(account string) client.Change {
	return client.Change{Owner: &client.OwnerChange{Account: account, Action: client.RemoveOwner}}
}

func giving(account string) client.Change {
	return client.Change{Owner: &client.OwnerChange{Account: account, Action: client.TransferOwner}}
}

// TestOwners: who publishes changes with the owners, and each change is in the log.
func TestOwners(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	ctx := t.Context()
	_, err := w.Change(ctx, eve, "acme", adding("eve"))
	wants(t, err, fault.Denied, "doesn't own")
	_, err = w.Change(ctx, ada, "acme", adding("ghost"))
	wants(t, err, fault.NotFound, "ghost")
	_, err = w.Change(ctx, ada, "acme", removing("ada"))
	wants(t, err, fault.Conflict, "only owner")
	_, err = w.Change(ctx, nil, "acme", removing("ada"))
	wants(t, err, fault.AuthRequired, "")
	_, err = w.Change(ctx, ada, "none", adding("ada"))
	wants(t, err, fault.NotFound, "none")
	space, err := w.Change(ctx, ada, "acme", adding("eve"))
	if err != nil || !slices.Equal(space.Owners, []string{"ada", "eve"}) {
		t.Fatalf("%+v, %v", space, err)
	}
	if space, err = w.Change(ctx, eve, "acme", adding("eve")); err != nil || len(space.Owners) != 2 {
		t.Errorf("%+v, %v", space, err)
	}
	w.publish(eve, pack{id: "acme/x", version: "1.0.0"})
	if space, err = w.Change(ctx, eve, "acme", removing("ada")); err != nil || !slices.Equal(space.Owners,
		[]string{"eve"}) {
		t.Fatalf("%+v, %v", space, err)
	}
	_, err = w.Publish(ctx, ada, bytes.NewReader(w.archive(pack{id: "acme/x", version: "1.1.0"})))
	wants(t, err, fault.Denied, "doesn't own")
	if space, err := w.Space(ctx, nil, "acme"); err != nil || space.Owners[0] != "eve" {
		t.Errorf("%+v, %v", space, err)
	}
	_, err = w.Change(ctx, eve, "acme", giving("eve"))
	wants(t, err, fault.Validation, "transfers it")
	_, err = w.Change(ctx, eve, "acme", giving("ghost"))
	wants(t, err, fault.NotFound, "ghost")
	_, err = w.Change(ctx, ada, "acme", giving("ada"))
	wants(t, err, fault.Denied, "doesn't own")
	_, err = w.Change(ctx, eve, "acme", client.Change{Owner: &client.OwnerChange{Account: "ada", Action: "sell"}})
	wants(t, err, fault.Validation, `unknown action "sell"`)
	if space, err = w.Change(ctx, eve, "acme", giving("ada")); err != nil || !slices.Equal(space.Owners,
		[]string{"ada"}) {
		t.Fatalf("%+v, %v", space, err)
	}
	checkpoint, err := tlog.Open(w.read("log/checkpoint"), w.Registry.Log())
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	if err := tlog.NewTree(checkpoint, registry.LogFiles{Store: w.files}).Entries(ctx, 0, func(_ int64,
		b []byte) error {
		e, err := tlog.ParseEntry(b)
		if err != nil {
			return err
		}
		kinds = append(kinds, string(e.Kind)+" "+e.Bundle+" by "+e.By)
		if e.Kind == tlog.Owner && cas.Sum(w.read(client.DocumentFile(e.Document))) != e.Document {
			t.Errorf("%s has another document", e.Bundle)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kinds, ", "); got !=
		"owner acme by ada, owner acme by ada, publish acme/x by eve, owner acme by eve, owner acme by eve" {
		t.Error(got)
	}
}

// TestAccounts: tokens end with time, with their account and by themselves, and a guessed one opens nothing.
func TestAccounts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for _, name := range []string{"", "a/b", "a b", strings.Repeat("x", 65)} {
		_, err := w.AddAccount(ctx, name)
		wants(t, err, fault.Validation, "name for an account")
	}
	if _, err := w.AddAccount(ctx, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddAccount(ctx, "ada"); err != nil {
		t.Errorf("again: %v", err)
	}
	_, err := w.AddAccount(ctx, "A-da")
	wants(t, err, fault.Conflict, "mistaken")
	good := registry.Token{Account: "ada", Label: "laptop", Scopes: []registry.Scope{registry.ScopePublish},
		Expires: noon.Add(time.Hour)}
	for _, change := range []func(*registry.Token){
		func(x *registry.Token) { x.Label = "" }, func(x *registry.Token) { x.Label = "a\nb" },
		func(x *registry.Token) { x.Scopes = nil }, func(x *registry.Token) { x.Scopes = []registry.Scope{"all"} },
		func(x *registry.Token) { x.Names = []string{"***"} }, func(x *registry.Token) { x.Expires = noon },
		func(x *registry.Token) { x.Expires = noon.Add(registry.MaxTokenLife + time.Hour) },
	} {
		bad := good
		change(&bad)
		_, _, err := w.AddToken(ctx, bad)
		wants(t, err, fault.Validation, "")
	}
	bad := good
	bad.Account = "ghost"
	_, _, err = w.AddToken(ctx, bad)
	wants(t, err, fault.NotFound, "ghost")

	secret, made, err := w.AddToken(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	if caller, err := w.Caller(ctx, secret); err != nil || caller.Account != "ada" || caller.Name() != "ada" {
		t.Fatalf("%+v, %v", caller, err)
	}
	for _, guess := range []string{"", secret + "x", secret[:len(secret)-1], "ryer_", made.ID} {
		_, err := w.Caller(ctx, guess)
		wants(t, err, fault.AuthFailed, "")
	}
	if all, err := w.Tokens(ctx, "ada"); err != nil || len(all) != 1 || all[0].ID != made.ID {
		t.Errorf("%v, %v", all, err)
	}
	wants(t, w.RemoveToken(ctx, "eve", made.ID), fault.NotFound, made.ID)
	w.now = noon.Add(time.Hour)
	_, err = w.Caller(ctx, secret)
	wants(t, err, fault.AuthFailed, "")
	w.now = noon
	if err := w.RemoveToken(ctx, "ada", made.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.Caller(ctx, secret)
	wants(t, err, fault.AuthFailed, "")

	secret, _, err = w.AddToken(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Disable(ctx, "ada", true); err != nil {
		t.Fatal(err)
	}
	_, err = w.Caller(ctx, secret)
	wants(t, err, fault.AuthFailed, "")
	_, _, err = w.AddToken(ctx, good)
	wants(t, err, fault.NotFound, "ada")
	if err := w.Disable(ctx, "ada", false); err != nil {
		t.Fatal(err)
	}
	if _, _, err = w.AddToken(ctx, good); err != nil {
		t.Errorf("an account that is no longer disabled: %v", err)
	}
	wants(t, w.Disable(ctx, "ghost", true), fault.NotFound, "ghost")
	good.Expires = time.Time{}
	if _, made, err := w.AddToken(ctx, good); err != nil || !made.Expires.Equal(noon.Add(90*24*time.Hour)) {
		t.Errorf("%+v, %v", made, err)
	}
}

// TestSearch finds bundles by id and description; what is withdrawn isn't found.
func TestSearch(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	for _, p := range []pack{{id: "acme/base", version: "1.9.0"}, {id: "acme/base", version: "1.10.0"},
		{id: "acme/people", version: "1.0.0"}, {id: "acme/gone", version: "1.0.0"}} {
		w.publish(ada, p)
	}
	if _, err := w.Withdraw(t.Context(), ada, "acme/gone", "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"people": "acme/people@1.0.0 acme/base@1.10.0", "BASE": "acme/base@1.10.0", "gone": "",
		"acme base": "acme/base@1.10.0",
		"nothing":   "",
	} {
		hits, err := w.Search(t.Context(), nil, query, "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range hits {
			got = append(got, h.Bundle+"@"+h.Version)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"", " ", strings.Repeat("x", 201)} {
		_, err := w.Search(t.Context(), nil, query, "")
		wants(t, err, fault.Validation, "query")
	}
}

// TestMany writes more entries than a tile has, and a process that begins then goes on.
func TestMany(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.caller("eve")
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	for i := range 260 {
		change := adding("eve")
		if i%2 == 1 {
			change = removing("eve")
		}
		if _, err := w.Change(t.Context(), ada, "acme", change); err != nil {
			t.Fatal(err)
		}
		if i == 251 || i == 253 || i == 254 || i == 255 {
			w.open()
		}
	}
	if v := w.publish(ada, pack{id: "acme/base", version: "2.0.0"}); v.Leaf != 262 {
		t.Errorf("entry %d", v.Leaf)
	}
	if list := w.index("acme/base"); len(list.Entries) != 2 {
		t.Errorf("%d versions", len(list.Entries))
	}
}

// TestEnded: an account that is disabled while its caller is at work publishes nothing any more.
func TestEnded(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	b := w.archive(pack{id: "acme/base", version: "1.0.0"})
	if err := w.Disable(ctx, "ada", true); err != nil {
		t.Fatal(err)
	}
	_, err := w.Publish(ctx, ada, bytes.NewReader(b))
	wants(t, err, fault.NotFound, `there is no account "ada"`)
	if err := w.Disable(ctx, "ada", false); err != nil {
		t.Fatal(err)
	}
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	for _, name := range []string{"a..b", "CON", ""} {
		_, err := w.Withdraw(ctx, ada, "acme/"+name, "1.0.0", false)
		wants(t, err, fault.NotFound, "")
		_, err = w.Change(ctx, ada, name, adding("eve"))
		wants(t, err, fault.NotFound, "")
		if _, err := w.Space(ctx, nil, name); fault.CodeOf(err) != fault.NotFound {
			t.Error(err)
		}
	}
	_, err = w.Withdraw(ctx, ada, "acme/base", "one", false)
	wants(t, err, fault.NotFound, "")
	_, err = w.Change(ctx, ada, "acme", adding("a/b"))
	wants(t, err, fault.NotFound, "a/b")
}

// A notary is a witness that doesn't answer, until it does.
type notary struct{ away bool }

func (n *notary) Cosign(_ context.Context, c *tlog.Checkpoint, _ tlog.Tree) (*tlog.Checkpoint, error) {
	if n.away {
		return nil, fault.New(fault.Unavailable, "no witness answers")
	}
	return c, nil
}

// Confirm implements registry.Witness.
func (n *notary) Confirm(context.Context, *tlog.Checkpoint, tlog.Tree) error {
	if n.away {
		return fault.New(fault.Unavailable, "no witness answers")
	}
	return nil
}

// TestWitnessAway: what no witness has signed isn't shown, and is shown as soon as one does.
func TestWitnessAway(t *testing.T) {
	w := newWorld(t)
	witness := new(notary)
	w.o.Witness = witness
	w.o.Warn = nil
	w.open()
	ada := w.caller("ada")
	w.claim(ada, "acme")
	before := w.read("log/checkpoint")
	witness.away = true
	_, err := w.Publish(t.Context(), ada, bytes.NewReader(w.archive(pack{id: "acme/base", version: "1.0.0"})))
	wants(t, err, fault.Unavailable, "no witness answers")
	if !bytes.Equal(w.read("log/checkpoint"), before) {
		t.Error("a checkpoint is shown that no witness has signed")
	}
	w.open() // and a new process starts nevertheless
	witness.away = false
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(w.read("log/checkpoint"), before) || len(w.read("index/acme/base.yaml")) == 0 {
		t.Error("nothing is shown")
	}
}
