package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/classify"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/secret"
)

// TestAuthPrompt: on a terminal the value is asked for, and not shown; where nobody sees the question there is none.
func TestAuthPrompt(t *testing.T) {
	home := t.TempDir()
	set := func(typed string, failure error, seen bool) (status int, said string) {
		h, stdout, stderr := testHost("HOME="+home, "LOCALAPPDATA="+home, "XDG_STATE_HOME="+home)
		h.Hidden = func(context.Context) (string, error) { return typed, failure }
		h.Stderr.Tty = seen
		status = cli.Run(h, commands(), []string{"auth", "set", "a-token", "--file", "--no-color"})
		return status, stdout.String() + stderr.String()
	}
	if status, said := set("typed value", nil, true); status != fault.ExitDone || !strings.HasPrefix(said, "value of a-token: \n") || strings.Contains(said, "typed") {
		t.Errorf("%d, %q", status, said)
	}
	h, _, _ := testHost("HOME="+home, "LOCALAPPDATA="+home, "XDG_STATE_HOME="+home)
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := runs.Secrets(a)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := store.Get(t.Context(), "a-token"); v != "typed value" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if list, err := store.List(); err != nil || len(list) != 1 || list[0].From != "terminal" {
		t.Errorf("%+v, %v", list, err)
	}
	if status, said := set("typed value", nil, false); status != fault.ExitRefused || !strings.Contains(said, "hint: rye auth set a-token --from-file FILE") {
		t.Errorf("%d, %q", status, said)
	}
	if status, _ := set("", errors.New("the terminal is gone"), true); status != fault.ExitNo {
		t.Errorf("%d", status)
	}
}

// TestClassifySecrets: what keeps a secret from a tool has its code, and what to do about it.
func TestClassifySecrets(t *testing.T) {
	ref := model.Ref{Kind: "tool", ID: "acme/x"}
	of := func(err error) error { return &exec.SecretError{Ref: ref, Err: err} }
	for _, c := range []struct {
		err  error
		code fault.Code
		hint string
		why  string
	}{
		{&exec.WithheldError{Ref: ref, Name: "n", By: exec.ByPolicy}, fault.Policy, "rye docs secrets", `exec: {secrets: {n: ["tool:acme/x"]}}`},
		{&exec.WithheldError{Ref: ref, Name: "n", By: exec.ByGrants}, fault.Policy, "rye docs secrets", `grants: {"tool:acme/x": []}`},
		{&exec.WithheldError{Ref: ref, Name: "n", By: exec.ByCaller}, fault.Denied, "rye docs secrets", ""},
		{&exec.WithheldError{Ref: ref, Name: "n", By: exec.ByDev}, fault.Unsigned, "rye sign tool:acme/x", ""},
		{of(&secret.NotSetError{Name: "a-b"}), fault.AuthRequired, "rye auth set a-b", "A_B"},
		{of(&secret.ExpiredError{Name: "n"}), fault.SessionExpired, "rye auth set n", ""},
		{of(&secret.ValueError{Name: "n", Reason: "r"}), fault.Config, "rye docs secrets", ""},
		{&secret.ValueError{Name: "n", Reason: "r"}, fault.Validation, "rye docs secrets", ""},
		{of(&secret.NameError{Name: "n", Reason: "r"}), fault.Validation, "rye docs secrets", ""},
		{of(&secret.KeyringError{Name: "n", Err: errors.New("x")}), fault.Unavailable, "rye auth set n --file", "opened by somebody"},
		{of(osfile.Busy("p", 0)), fault.Busy, "", ""},
		{of(&secret.DamagedError{Path: "p", Err: errors.New("x")}), fault.Parsing, "mv p p.bad", "lost"},
		{of(&secret.ModeError{Path: "p", Reason: "is open"}), fault.Denied, "chmod go= p", ""},
		{of(errors.New("more than fits")), fault.Limit, "", ""},
		{&exec.ActionError{Ref: ref, Text: "x"}, fault.Failed, "", ""},
	} {
		f := classify.Classify(fmt.Errorf("around: %w", c.err))
		if f.Code != c.code || !strings.HasPrefix(strings.Join(f.Hint, "\n"), c.hint) || !strings.Contains(strings.Join(f.Why, "\n"), c.why) {
			t.Errorf("%v: %s, %q, %q", c.err, f.Code, f.Hint, f.Why)
		}
	}
}
