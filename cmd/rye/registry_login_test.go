package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/door"
	"github.com/rye-build/rye/exec/registry/passkey/passkeytest"
	"github.com/rye-build/rye/exec/registry/rows"
	serving "github.com/rye-build/rye/exec/serve"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// watched is a terminal whose person acts as soon as a code is shown.
type watched struct {
	bytes.Buffer
	person func(code string) error
	acted  bool
	err    error
}

var shownCode = regexp.MustCompile(`type the code ([A-Z]{4}-[A-Z]{4})\n`)

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if found := shownCode.FindSubmatch(w.Bytes()); found != nil && !w.acted {
		w.acted = true
		w.err = w.person(string(found[1]))
	}
	return n, err
}

// TestRegistryLogin: rye login shows a code on a terminal, keeps the token that a person allows with a passkey, and
// that token makes another one.
func TestRegistryLogin(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	server, err := serving.Listen(serving.Options{Listen: "127.0.0.1:0", Tokens: &serving.Tokens{}, Now: time.Now,
		Ready: func() error { return nil }, Warn: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	site := strings.Replace(server.URL(""), "127.0.0.1", "localhost", 1)
	state, err := rows.OpenLocal(filepath.Join(dir, "rows"), nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := blobs.OpenLocal(filepath.Join(dir, "files"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(ctx, registry.Options{Rows: state, Blobs: files, Name: "localhost", URL: site,
		LogKey: keytest.Seeded(1), IndexKey: keytest.Seeded(2), Now: time.Now, TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	(&door.Door{Registry: r, Blobs: files, Warn: func(err error) { t.Log(err) }}).Register(server)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, state.Close()); err != nil {
			t.Error(err)
		}
	})

	device := &passkeytest.Authenticator{Origin: site, Counts: true}
	person := enrolled(t, r, device, "ada")
	allow := func(code string) error {
		found, ask, err := r.FindDevice(ctx, person, code, "127.0.0.1")
		if err != nil {
			return err
		}
		answer, err := device.Get([]byte(ask.Options))
		if err != nil {
			return err
		}
		return r.AllowDevice(ctx, person, found.ID, ask.Ceremony, answer)
	}
	deny := func(code string) error {
		found, _, err := r.FindDevice(ctx, person, code, "127.0.0.1")
		if err != nil {
			return err
		}
		return r.DenyDevice(ctx, person, found.ID)
	}

	h, home, _ := askingHost(t, "")
	h.Now = time.Now
	at := server.URL("")
	run := func(act func(string) error, args ...string) (status int, stdout, stderr string) {
		t.Helper()
		out, screen := new(bytes.Buffer), &watched{person: act}
		h.Stdout, h.Stderr = cli.Stream{Writer: out}, cli.Stream{Writer: screen, Tty: true}
		h.Environ = []string{"HOME=" + home, "USERPROFILE=" + home, "LOCALAPPDATA=" + home, "TERM=dumb"}
		status = cli.Run(h, commands(), args)
		if screen.err != nil {
			t.Errorf("%q: the person: %v", args, screen.err)
		}
		return status, out.String(), screen.String()
	}
	status, stdout, stderr := run(allow, "login", at, "--file", "--label", "laptop", "--scope", "owner", "--scope",
		"publish", "--names", "acme/**", "--life", "48h")
	if status != fault.ExitDone || stdout != "ada\n" ||
		!strings.Contains(stderr, "open "+site+"/device in a browser") ||
		!strings.Contains(stderr, `token "laptop" at `+at+": owner, publish, for acme/**, until ") {
		t.Fatalf("%d, %q, %s", status, stdout, stderr)
	}
	if status, stdout, stderr = run(nil, "whoami", "--registry", at); status != fault.ExitDone || stdout != "ada\n" {
		t.Errorf("%d, %q, %s", status, stdout, stderr)
	}
	status, stdout, stderr = run(nil, "registry", "token", "add", "--label", "ci", "--names", "acme/base", "--life",
		"24h", "--registry", at, "--json")
	var made struct {
		Data struct{ Token, Account string }
	}
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || status != fault.ExitDone ||
		made.Data.Account != "ada" {
		t.Fatalf("%d, %s, %s", status, stdout, stderr)
	}
	if caller, err := r.Caller(ctx, made.Data.Token); err != nil || caller.Token.Label != "ci" ||
		time.Until(caller.Token.Expires) > 24*time.Hour {
		t.Errorf("%+v, %v", caller, err)
	}
	status, stdout, stderr = run(nil, "registry", "token", "add", "--registry", at)
	if status != fault.ExitDone || !strings.HasPrefix(stdout, "ryer_") ||
		!strings.Contains(stderr, "it is shown once") {
		t.Errorf("%d, %s, %s", status, stdout, stderr)
	}
	if status, _, stderr = run(nil, "registry", "token", "add", "--names", "other/**", "--registry",
		at); status != fault.ExitRefused || !strings.Contains(stderr, `your token is not for "other/**"`) {
		t.Errorf("%d, %s", status, stderr)
	}
	// Denied: what was kept before stays.
	if status, _, stderr = run(deny, "login", at, "--file"); status != fault.ExitRefused ||
		!strings.Contains(stderr, "the login was denied on the registry's page") {
		t.Errorf("%d, %s", status, stderr)
	}
	if status, stdout, _ = run(nil, "whoami", "--registry", at); status != fault.ExitDone || stdout != "ada\n" {
		t.Errorf("%d, %q", status, stdout)
	}
	if status, _, stderr = run(nil, "login", at, "--life", "-1h"); status != fault.ExitUsage {
		t.Errorf("%d, %s", status, stderr)
	}
	if status, _, stderr = run(nil, "login", at, "--scope", "all"); status != fault.ExitRefused ||
		!strings.Contains(stderr, `unknown scope "all"`) {
		t.Errorf("%d, %s", status, stderr)
	}
}

// enrolled makes an account with a passkey, and returns its person, signed in.
func enrolled(t *testing.T, r *registry.Registry, device *passkeytest.Authenticator, name string) *registry.Person {
	t.Helper()
	ctx := t.Context()
	if _, err := r.AddAccount(ctx, name); err != nil {
		t.Fatal(err)
	}
	link, err := r.Invite(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(link.URL, "#")
	_, ask, err := r.OpenLink(ctx, secret)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := device.Create([]byte(ask.Options))
	if err != nil {
		t.Fatal(err)
	}
	session, err := r.Enrol(ctx, secret, ask.Ceremony, "laptop", answer)
	if err != nil {
		t.Fatal(err)
	}
	person, err := r.Person(ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	return person
}
