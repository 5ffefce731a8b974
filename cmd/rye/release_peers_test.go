//go:build peers && linux

package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// TestRelease runs the commands of rye docs release on three machines: a bundle that two people have signed is used by
// a third, and goes on when one of them has a new key.
func TestRelease(t *testing.T) {
	rye, err := exec.LookPath("rye")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sandboxtest.Removable(t, dir)
	place := "oci://" + distribution(t) + "/acme/deploy"
	machine := func(name string) *site {
		home := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(home, "work"), 0o755); err != nil {
			t.Fatal(err)
		}
		return &site{t: t, home: home, rye: rye,
			env: []string{"HOME=" + home, "PATH=" + filepath.Dir(rye) + ":/usr/bin:/bin"}}
	}
	ann, bob, user := machine("ann"), machine("bob"), machine("user")
	run := func(on *site, commands string) string {
		t.Helper()
		commands = strings.ReplaceAll(commands, "oci://registry.example.com/acme/deploy", place)
		return on.bash("exec 2>&1; cd work; " + strings.ReplaceAll(commands, "rye trust add", "rye trust add --yes"))
	}
	send := func(name string, from *site, to ...*site) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(from.home, "work", name))
		for _, on := range to {
			if err == nil {
				err = os.WriteFile(filepath.Join(on.home, "work", name), b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	says := func(got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q is missing in\n%s", w, got)
			}
		}
	}
	section := func(title string) []string { return blocks(t, "release", title) }

	key := section("Keys")[0]
	run(ann, key)
	run(bob, strings.NewReplacer("Ann", "Bob", "ann", "bob").Replace(key))
	send("ann.pem", ann, bob, user)
	send("bob.pem", bob, ann, user)
	rules := section("Rules")
	run(user, "rye key new --owner User; "+rules[0])
	run(ann, rules[1])
	run(bob, strings.NewReplacer("Bob", "Ann", "bob", "ann").Replace(rules[1]))

	run(ann,
		`rye init --yes; rye new tool acme/fetch; printf 'id: acme/deploy\nversion: 1.4.0\ninclude: [".ai/**"]\n' >bundle.yaml`)
	says(run(ann, section("Create and push")[0]+"rye bundle verify || echo status $?"), "1 of the 2 keys",
		"pushed acme/deploy@1.4.0", "BELOW_THRESHOLD", "status 1")
	use := section("Use")[0]
	says(run(user, "rye bundle pull oci://registry.example.com/acme/deploy:1.4.0 || echo status $?"),
		"1 of the 2 keys", "status 4")
	says(run(bob, section("The second signature")[0]), "2 signatures", "verified  acme/deploy@1.4.0")
	says(run(ann, section("The second signature")[1]), "signatures are in the manifest of the project",
		"threshold: 2, signed by 2 keys")
	says(run(user, use), "pulled acme/deploy@1.4.0, verified", "threshold: 2, signed by 2 keys")

	renew := section("A new key")
	run(ann, renew[0])
	send("rotation.yaml", ann, bob)
	run(bob, renew[1])
	send("rotation.yaml", bob, ann, user)
	for _, on := range []*site{ann, bob, user} {
		says(run(on, renew[2]), "\nold  ", "new  ")
	}
	says(run(user, "rye bundle verify acme/deploy || echo status $?"), "BELOW_THRESHOLD", "status 1")
	run(ann, "sed -i s/1.4.0/1.4.1/ bundle.yaml; echo '# more' >>.ai/tools/acme/fetch.py; "+renew[3])
	again := strings.NewReplacer("1.4.0", "1.4.1", "ann.pem",
		"ann-new.pem").Replace(section("The second signature")[0])
	run(ann, "rye key export ann-new >ann-new.pem")
	send("ann-new.pem", ann, bob)
	says(run(bob, again), "verified  acme/deploy@1.4.1")
	says(run(user, strings.ReplaceAll(use, "1.4.0", "1.4.1")), "pulled acme/deploy@1.4.1, verified",
		"threshold: 2, signed by 2 keys")
}

// distribution starts the registry that the CNCF has, and returns its address.
func distribution(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // it opens its port itself
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: " + filepath.Join(dir,
		"data") + "}}\nhttp: {addr: " + addr + "}\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker-registry", "serve", config)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for {
		if resp, err := http.Get("http://" + addr + "/v2/"); err == nil {
			resp.Body.Close()
			return addr
		}
		select {
		case <-ended:
			t.Fatalf("the registry has ended: %s", &said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
