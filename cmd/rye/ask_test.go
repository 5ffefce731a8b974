package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// askingHost is a host with a terminal on which these lines are typed, and these words where nothing is shown.
func askingHost(t *testing.T, typed string, hidden ...string) (h cli.Host, home string, stderr *bytes.Buffer) {
	t.Helper()
	home = t.TempDir()
	h, _, stderr = testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home, "TERM=dumb")
	h.Stdin = strings.NewReader(typed)
	h.Stderr.Tty = true
	h.Hidden = func(context.Context) (string, error) {
		word := hidden[0]
		hidden = hidden[1:]
		return word, nil
	}
	return h, home, stderr
}

// TestConfirm: only a yes is one, and without it nothing is done.
func TestConfirm(t *testing.T) {
	for _, test := range []struct {
		typed string
		exit  int
	}{{"y\n", fault.ExitDone}, {"YES \n", fault.ExitDone}, {"n\n", fault.ExitRefused}, {"\n", fault.ExitRefused},
		{"", fault.ExitRefused}, {"yess\n", fault.ExitRefused}} {
		h, home, stderr := askingHost(t, test.typed)
		if got := cli.Run(h, commands(), []string{"key", "new", "-q"}); got != fault.ExitDone {
			t.Fatalf("key new: %d, %s", got, stderr)
		}
		if got := cli.Run(h, commands(), []string{"key", "remove", "default"}); got != test.exit {
			t.Errorf("%q: exit %d, want %d; %s", test.typed, got, test.exit, stderr)
		}
		_, err := os.Stat(filepath.Join(home, ".ai", "keys", "private_key.pem"))
		if gone := err != nil; gone != (test.exit == fault.ExitDone) {
			t.Errorf("%q: gone is %v", test.typed, gone)
		}
		if !strings.Contains(stderr.String(), `remove the key "default", `) {
			t.Errorf("%q: not asked: %s", test.typed, stderr)
		}
	}
}

// TestPassphrase: a new one is typed twice, an old one once, and neither is shown.
func TestPassphrase(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h, home, stderr := askingHost(t, "", "sesame", "sesam", "", "", "sesame", "sesame", "open", "sesame")
	line := func(want int, args ...string) {
		t.Helper()
		if got := cli.Run(h, commands(), args); got != want {
			t.Fatalf("%q: exit %d, want %d; %s", args, got, want, stderr)
		}
	}
	tool := filepath.Join(home, "a.py")
	if err := os.WriteFile(tool, []byte("print(1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	line(fault.ExitUsage, "key", "new", "--passphrase") // they differ
	line(fault.ExitUsage, "key", "new", "--passphrase") // empty
	line(fault.ExitDone, "key", "new", "--passphrase")
	line(fault.ExitRefused, "sign", tool, "--as", "tool:a") // wrong
	line(fault.ExitDone, "sign", tool, "--as", "tool:a")
	if text := stderr.String(); strings.Contains(text, "sesam") || !strings.Contains(text, "new passphrase: ") {
		t.Errorf("%s", text)
	}
}
