package relock_test

import (
	"errors"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock/file"
)

// TestShadow: a lock can't put an item of the project in front of the library's, if policy doesn't let it.
func TestShadow(t *testing.T) {
	w := shop(t)
	w.files["project"]["tools/rye/core/runtimes/bash_runtime.yaml"] = tool(bash, "rye/core/primitives/subprocess")
	w.policy = "\noverride:\n  - \"**\"\n"
	w.build()
	s := w.set()
	if got := s.Pin(ref("tool:" + bash)).From; got != "project" {
		t.Fatalf("got %s", got)
	}
	if _, err := w.use(s).state(t.Context(), ref("tool:"+bash)); err != nil {
		t.Error(err)
	}
	v, err := s.View(t.Context(), w.trust(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ai.Walk(t.Context(), s.Resolver(v), ref("tool:acme/hello"))
	if _, ok := errors.AsType[*ai.ShadowError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// TestTwoSpaces: the pin of a ref that a bundle has too is the project's, and the bundle doesn't get it.
func TestTwoSpaces(t *testing.T) {
	w := shop(t)
	w.files[base]["tools/acme/hello.sh"] = shTool("acme/hello")
	w.build()
	s := w.set()
	u := w.use(s)
	it, err := u.resolver.Resolve(t.Context(), ref("tool:acme/hello"), nil)
	if err != nil || it.Space.Label != "project" {
		t.Errorf("got %v, %v", it, err)
	}
	for _, space := range s.Spaces() {
		if space.Label == base {
			if _, err := u.resolver.Resolve(t.Context(), ref("tool:acme/hello"), space); err == nil {
				t.Error("a bundle gets what it can't reach")
			}
		}
	}
	// Were the pin the bundle's, the project's wouldn't be there.
	s, err = w.edited(func(l *file.Lock) {
		p := l.Pin(model.Ref{Kind: "tool", ID: "acme/hello"})
		*p = file.Pin{Ref: p.Ref, Version: p.Version, Digest: p.Digest, From: base, Signers: p.Signers,
			Format: p.Format, Interface: p.Interface, Grants: p.Grants}
	})
	if err != nil {
		t.Fatal(all(err))
	}
	it, err = w.use(s).resolver.Resolve(t.Context(), ref("tool:acme/hello"), nil)
	if err != nil || it.Space.Label != base {
		t.Errorf("got %v, %v", it, err)
	}
}
