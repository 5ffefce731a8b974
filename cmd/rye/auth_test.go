package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
)

// TestAuthPrompt: on a terminal rye asks for the value and doesn't show it; without a terminal it doesn't ask.
func TestAuthPrompt(t *testing.T) {
	home := t.TempDir()
	set := func(typed string, failure error, seen bool) (status int, said string) {
		h, stdout, stderr := testHost("HOME="+home, "LOCALAPPDATA="+home, "XDG_STATE_HOME="+home)
		h.Hidden = func(context.Context) (string, error) { return typed, failure }
		h.Stderr.Tty = seen
		status = cli.Run(h, commands(), []string{"auth", "set", "a-token", "--file", "--no-color"})
		return status, stdout.String() + stderr.String()
	}
	if status, said := set("typed value", nil, true); status != fault.ExitDone ||
		!strings.HasPrefix(said, "value of a-token: \n") || strings.Contains(said, "typed") {
		t.Errorf("%d, %q", status, said)
	}
	h, _, _ := testHost("HOME="+home, "LOCALAPPDATA="+home, "XDG_STATE_HOME="+home)
	a, err := cli.NewApp(h, h.Terminal(true), cli.Globals{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := paths.Secrets(a)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := store.Get(t.Context(), "a-token"); v != "typed value" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if list, err := store.List(); err != nil || len(list) != 1 || list[0].From != "terminal" {
		t.Errorf("%+v, %v", list, err)
	}
	if status, said := set("typed value", nil, false); status != fault.ExitRefused ||
		!strings.Contains(said, "hint: rye auth set a-token --from-file secret.txt") {
		t.Errorf("%d, %q", status, said)
	}
	if status, _ := set("", errors.New("the terminal is gone"), true); status != fault.ExitNo {
		t.Errorf("%d", status)
	}
}
