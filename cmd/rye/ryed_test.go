package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/door"
	"github.com/rye-build/rye/exec/registry/rows"
	serving "github.com/rye-build/rye/exec/serve"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// host is "host DIR [ARG…]": a registry serves a data directory until the script ends, or until "host -stop". RYED
// is its address and RYEDHOST the host of that.
func host(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: host DIR [ARG…], host -stop")
	}
	if args[0] == "-stop" {
		stop, _ := ts.Value(hosting{}).(*func())
		if stop == nil || *stop == nil {
			ts.Fatalf("no registry serves")
		}
		(*stop)()
		return
	}
	listen := ts.Getenv("RYEDHOST") // again at the same address
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	ryed, err := exec.LookPath("ryed")
	ts.Check(err)
	command := exec.Command(ryed, append([]string{"registry", "serve", "--json", "--listen", listen, "--data"},
		args...)...)
	command.Dir, command.Env = ts.MkAbs("."), environ(ts)
	said := new(strings.Builder)
	command.Stderr = said
	out, err := command.StdoutPipe()
	ts.Check(err)
	ts.Check(command.Start())
	ended := false
	stop := func() {
		if ended {
			return
		}
		ended = true
		_ = command.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, out)
		_ = command.Wait()
		if strings.Contains(said.String(), "warning: ") {
			ts.Logf("[ryed]\n%s", said)
		}
	}
	ts.Defer(stop)
	*ts.Value(hosting{}).(*func()) = stop
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		ts.Fatalf("the registry doesn't serve: %s", said)
	}
	var answer struct{ Data struct{ URL string } }
	ts.Check(json.Unmarshal([]byte(line), &answer))
	if answer.Data.URL == "" {
		ts.Fatalf("the registry doesn't serve: %s", line)
	}
	at, err := url.Parse(answer.Data.URL)
	ts.Check(err)
	ts.Setenv("RYED", answer.Data.URL)
	ts.Setenv("RYEDHOST", at.Host)
}

// meter is "meter FILE": METER is the address of what stands before RYED, and METERHOST the host of that. Each request
// through it adds a line to FILE: its path, whether it has a condition, the status, and the bytes of the answer.
func meter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: meter FILE")
	}
	to, err := url.Parse(ts.Getenv("RYED"))
	ts.Check(err)
	log := ts.MkAbs(args[0])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = to.Scheme, to.Host, to.Host, ""
		answer, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		n, _ := io.Copy(w, answer.Body)
		asked := "whole"
		if r.Header.Get("If-None-Match") != "" {
			asked = "if-changed"
		}
		if f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(f, r.URL.Path, asked, answer.StatusCode, n)
			f.Close()
		}
	}))
	ts.Defer(server.Close)
	at, err := url.Parse(server.URL)
	ts.Check(err)
	ts.Setenv("METER", server.URL)
	ts.Setenv("METERHOST", at.Host)
}

// hosting is the key of what ends a script's registry.
type hosting struct{}

// environ returns the environment of a script.
func environ(ts *testscript.TestScript) (all []string) {
	for _, name := range []string{"PATH", "HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_DATA_HOME", "XDG_STATE_HOME",
		"XDG_CACHE_HOME", "GORACE", "GOCOVERDIR", "TMPDIR", "SYSTEMROOT"} {
		if value := ts.Getenv(name); value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// registryWords serves a registry, and returns the words of the commands that ask it, with two tokens of an account.
func registryWords(t *testing.T, home string) (words map[string][]string, first, second string) {
	t.Helper()
	dir, ctx := t.TempDir(), t.Context()
	state, err := rows.OpenLocal(filepath.Join(dir, "rows"), nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := blobs.OpenLocal(filepath.Join(dir, "files"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(ctx, registry.Options{Rows: state, Blobs: files, Name: "registry.example",
		LogKey: keytest.Seeded(1), IndexKey: keytest.Seeded(2), Now: time.Now, TempDir: dir,
		Below: []*ai.Space{find.LibrarySpace()}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := serving.Listen(serving.Options{Listen: "127.0.0.1:0", Tokens: &serving.Tokens{}, Now: time.Now,
		Ready: func() error { return nil }, Warn: func(err error) { t.Log(err) }})
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
	var tokens [2]string
	for i, account := range []string{"ada", "ada", "eve"} {
		if _, err := r.AddAccount(ctx, account); err != nil {
			t.Fatal(err)
		}
		if i < len(tokens) {
			if tokens[i], _, err = r.AddToken(ctx, registry.Token{Account: account, Label: "test",
				Scopes: registry.Scopes, Login: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, third, err := r.AddToken(ctx, registry.Token{Account: "ada", Label: "third", Scopes: registry.Scopes})
	if err != nil {
		t.Fatal(err)
	}
	by, err := r.Caller(ctx, tokens[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"acme", "other"} {
		if _, err := r.Claim(ctx, by, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	staged := stagedChanges(t, r, by)
	project := filepath.Join(t.TempDir(), "base")
	run := func(args ...string) {
		h, _, stderr := testHost("HOME="+home, "LOCALAPPDATA="+home)
		if status := cli.Run(h, commands(), args); status != 0 {
			t.Fatalf("%q: %d, %s", args, status, stderr)
		}
	}
	run("init", project)
	archive := filepath.Join(t.TempDir(), "base.tar.zst")
	for _, version := range []string{"0.9.0", "1.0.0"} {
		if err := os.WriteFile(filepath.Join(project, "bundle.yaml"), []byte("id: acme/base\nversion: \""+version+
			"\"\nassets: [\"bundle.yaml\"]\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		run("-C", project, "bundle", "create")
		if version == "0.9.0" {
			run("-C", project, "bundle", "export", "-o", archive)
		}
	}
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Publish(ctx, by, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	at := server.URL("")
	return map[string][]string{
		"publish": {"-C", project, "--registry", at, "--yes"}, "yank": {"acme/base@1.0.0", "--registry", at, "--yes"},
		"unpublish":   {"acme/base@1.0.0", "--registry", at, "--yes"},
		"owner claim": {"acme", "--registry", at}, "owner list": {"acme", "--registry", at},
		"owner add": {"acme", "eve", "--registry", at}, "owner remove": {"acme", "eve", "--registry", at},
		"owner transfer": {"acme", "eve", "--registry", at, "--yes"},
		"owner set":      {"other/base", "--trusted-only", "--registry", at},
		"owner publisher add": {"other/base", "--issuer", "https://forge.example", "--repository", "other/base",
			"--repository-id", "1", "--owner-id", "2", "--workflow", "ci.yml", "--ref", "refs/heads/main",
			"--registry", at},
		"owner publisher list":   {"other/base", "--registry", at},
		"owner publisher remove": {"other/base", staged[2], "--registry", at},
		"release list":           {"--registry", at}, "release show": {staged[0], "--registry", at},
		"release approve": {staged[0], "--registry", at, "--yes"}, "release reject": {staged[1], "--registry", at},
		"info": {"acme/base", "--registry", at}, "login": {at, "--file"}, "logout": {at}, "whoami": {"--registry", at},
		"registry token add":  {"--registry", at},
		"registry token list": {"--registry", at}, "registry token remove": {third.ID, "--registry", at},
	}, tokens[0], tokens[1]
}

// stagedChanges has eve stage two changes that the caller may approve, in a namespace of both, and binds a pipeline.
// It returns the ids of the changes and of the binding.
func stagedChanges(t *testing.T, r *registry.Registry, by *registry.Caller) (ids [3]string) {
	t.Helper()
	ctx, one, none := t.Context(), 1, 0
	secret, _, err := r.AddToken(ctx, registry.Token{Account: "eve", Label: "test", Scopes: registry.Scopes})
	if err != nil {
		t.Fatal(err)
	}
	eve, err := r.Caller(ctx, secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Claim(ctx, by, "team", ""); err != nil {
		t.Fatal(err)
	}
	for _, change := range []client.Change{
		{Owner: &client.OwnerChange{Account: "eve", Action: client.AddOwner}},
		{Settings: &client.Settings{Approvals: &one}},
	} {
		if _, err := r.Change(ctx, by, "team", change); err != nil {
			t.Fatal(err)
		}
	}
	for i, change := range []client.Change{
		{Settings: &client.Settings{TrustedOnly: map[string]bool{"team/x": true}}},
		{Settings: &client.Settings{Approvals: &none}},
	} {
		changed, err := r.Change(ctx, eve, "team", change)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = changed.Staged.ID
	}
	binding := &client.Binding{Issuer: "https://forge.example", Repository: "other/base", RepositoryID: "9",
		OwnerID: "2", Workflow: "ci.yml", Ref: "refs/heads/main"}
	if _, err := r.SetPublisher(ctx, by, "other/base", client.PublisherChange{Add: binding}); err != nil {
		t.Fatal(err)
	}
	all, err := r.Publishers(ctx, nil, "other/base")
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	ids[2] = all[0].ID
	return ids
}
