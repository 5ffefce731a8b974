//go:build peers && linux

package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// TestRelease runs the commands of rye docs release with a real registry in the place of the page's directory: a
// bundle that two people have signed is used by a third, and goes on when one of them has a new key.
func TestRelease(t *testing.T) {
	rye, err := exec.LookPath("rye")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sandboxtest.Removable(t, dir)
	place := "oci://" + distribution(t) + "/acme/deploy"
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := topics[slices.IndexFunc(topics, func(it *ai.Item) bool { return it.ID == "rye/release" })]
	// The page carries the bundle in a directory, and says that a registry does as well.
	commands := "exec 2>&1; set +eu; rye() { command rye --yes \"$@\"; }; rye init shop; cd shop\n"
	found, _ := docBlocks(page.Model.Body)
	for _, b := range found {
		for _, c := range b.commands {
			commands += strings.ReplaceAll(c.text, "oci-layout:../stick/deploy", place) + "\n"
			if c.text == "rye key new --owner Eve" { // made her policy, which lets a project lead to this machine
				commands += "printf 'inside: [127.0.0.1]\\n' >>\"$USER_SPACE\"/.ai/policy.yaml\n"
			}
		}
	}
	on := &site{t: t, home: dir, rye: rye, env: []string{"HOME=" + filepath.Join(dir, "home"),
		"PATH=" + filepath.Dir(rye) + ":/usr/bin:/bin"}}
	got := on.bash(commands + "exit 0")
	for _, want := range []string{"pushed acme/deploy@1.4.0", "1 of the 2 keys", "2 signatures",
		"verified  acme/deploy@1.4.0", "threshold: 2, signed by 2 keys", "pulled acme/deploy@1.4.0, verified",
		"pushed acme/deploy@1.5.0", "pulled acme/deploy@1.5.0"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
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
