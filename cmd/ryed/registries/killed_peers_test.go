//go:build peers

package registries_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
)

// dying runs ryed until it makes a change to the files for the n-th time, counted for each of its threads, and kills
// it there with -9. It reports whether it was killed.
func dying(t *testing.T, n int, args ...string) (killed bool) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal("no strace: apt-get install strace")
	}
	const changes = "fsync,renameat,renameat2,linkat,unlinkat,mkdirat"
	cmd := ryed(t, args...)
	cmd.Args = append([]string{strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + changes, "-e",
		fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", changes, n), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = strace
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() > 0 && cmd.ProcessState.ExitCode() != 137 {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return err != nil
}

// TestKilled: one process serves a registry from its own directory and is killed with -9 while clients publish, and so
// are backups that are made meanwhile, and restores from them. What was acknowledged is there; each backup is that of
// one state; and a restore that was interrupted goes on.
func TestKilled(t *testing.T) {
	root := t.TempDir()
	data, backup := filepath.Join(root, "data"), filepath.Join(root, "backup")
	h := &host{dir: data, args: []string{"--data", data, "--name", "registry.example"}}
	h.start(t)
	t.Cleanup(h.kill)
	run := func(args ...string) string {
		t.Helper()
		out, err := ryed(t, args...).Output()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("registry", "account", "add", "ada", "--data", data)
	token := run("registry", "token", "add", "ada", "--scope", "owner", "--scope", "publish", "--data", data)
	session := func() *client.Session {
		return &client.Session{URL: h.address(), Token: token, Client: web.New(web.Options{})}
	}
	if _, err := session().Claim(t.Context(), "acme", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	run("registry", "backup", backup, "--data", data)

	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	acknowledged := make(chan string, 30)
	beside.Go(func() {
		for n := 0; n < 30 && ctx.Err() == nil; n++ {
			version := fmt.Sprintf("1.%d.0", n)
			b := packed(t, "acme/base", version, "text")
			for try := 0; ; try++ {
				_, err := session().Publish(ctx, bytes.NewReader(b), int64(len(b)))
				if err == nil {
					acknowledged <- version
					break
				}
				if ctx.Err() != nil {
					return
				}
				if try > 2000 { // a process that was killed while it wrote the log is waited for
					t.Errorf("%s: %v", version, err)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
	for range 4 { // each time the log may be kept waiting for the process that has ended, for ten seconds
		time.Sleep(time.Duration(200+rand.IntN(500)) * time.Millisecond)
		h.kill()
		h.start(t)
	}
	restored := func(to string) {
		t.Helper()
		run("registry", "restore", to, "--from", backup)
		if out := run("registry", "verify", "--data", to); !strings.HasPrefix(out, "good  registry.example  ") {
			t.Error(out)
		}
	}
	kills := 0
	for n := 1; dying(t, n, "registry", "backup", backup, "--data", data); n += 3 {
		kills++
		restored(filepath.Join(root, fmt.Sprint("of", n)))
	}
	beside.Wait()
	stop()
	close(acknowledged)
	if out := run("registry", "verify", "--data", data); !strings.HasPrefix(out, "good  registry.example  ") {
		t.Error(out)
	}
	info, err := session().Bundle(t.Context(), "acme/base")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, v := range info.Versions {
		there[v.Version] = true
	}
	for version := range acknowledged {
		if !there[version] {
			t.Errorf("%s was acknowledged, and is lost", version)
		}
	}
	run("registry", "backup", backup, "--data", data)

	// The checkpoint of now is the newest: with it the restored registry goes on.
	newest := filepath.Join(data, "files", "log", "checkpoint")
	restores := 0
	for n := 1; ; n += 3 {
		to := filepath.Join(root, fmt.Sprint("to", n))
		if !dying(t, n, "registry", "restore", to, "--from", backup, "--seen", newest) {
			break
		}
		restores++
		// It was killed before its end, or after it: then it is restored already, and nothing is to be done.
		again := ryed(t, "registry", "restore", to, "--from", backup, "--seen", newest)
		again.Stderr = nil
		out, err := again.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "not empty") {
			t.Fatalf("%d: %v: %s", n, err, out)
		}
		if out := run("registry", "verify", "--data", to); !strings.HasPrefix(out, "good  registry.example  ") {
			t.Error(out)
		}
		run("registry", "account", "add", "eve", "--data", to)
	}
	if kills < 5 || restores < 5 {
		t.Errorf("killed %d backups and %d restores", kills, restores)
	}
}

// TestPromtool: promtool finds nothing wrong with what a registry counts, and other machines need a token for it.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("no promtool: apt-get install --no-install-recommends prometheus")
	}
	data := filepath.Join(t.TempDir(), "data")
	h := &host{dir: data, args: []string{"--data", data, "--name", "registry.example"}}
	h.start(t)
	t.Cleanup(h.kill)
	get := func(path string, header ...string) (int, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.address()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b
	}
	for _, path := range []string{"/registry.yaml", "/index/none", "/v1/search?q=x", "/v1/spaces/\"quoted\\"} {
		get(strings.ReplaceAll(path, "\"", "%22"))
	}
	if status, _ := get("/metrics", "X-Forwarded-For", "192.0.2.1"); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	token, err := os.ReadFile(filepath.Join(data, "metrics.token"))
	if err != nil {
		t.Fatal(err)
	}
	status, text := get("/metrics", "X-Forwarded-For", "192.0.2.1", "Authorization",
		"Bearer "+strings.TrimSpace(string(token)))
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = bytes.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
	if !strings.Contains(string(text), `ryed_requests_total{route="/index/",status="404"} 1`) {
		t.Errorf("%s", text)
	}
	if _, text := get("/healthz"); !json.Valid(text) {
		t.Errorf("%s", text)
	}
}
