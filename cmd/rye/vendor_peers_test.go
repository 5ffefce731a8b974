//go:build peers && linux

package main

import (
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// vendoredProject is a project in a repository of git, with a bundle from an https server, and all that it needs in
// .ai/vendor.
func vendoredProject(t *testing.T) (p *lockedProject, policy string) {
	t.Helper()
	h := newTrustHome(t)
	server := httptest.NewTLSServer(http.FileServer(http.Dir(h.dir)))
	t.Cleanup(server.Close)
	roots := filepath.Join(h.dir, "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	p = h.lockedProject(filepath.Join(h.dir, "p"), 3)
	p.in("init")
	p.put("rye.yaml", "roots: [\"tool:**\", \"directive:**\"]\n")
	p.put(".ai/tools/mine/shop/cart.py", toolIn("mine/shop", "first"))
	p.put(".ai/tools/mine/shop/__init__.py", "VERSION = 1\r\n")
	p.put(".ai/tools/mine/shop/lib/run.sh", "#!/bin/sh\nexit 0\n")
	p.put(".ai/tools/mine/shop/lib/data.bin", "\x00\r\n\xff\x00\n")
	if err := os.Chmod(p.path(".ai/tools/mine/shop/lib/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.put(".ai/directives/mine/go.md",
		"# Go\n\n```xml\n<directive name=\"go\" version=\"1.0.0\">\n  <metadata>\n    <description>Go</description>\n"+
			"    <category>mine</category>\n    <permissions><execute><tool>base/*</tool></execute></permissions>\n  </metadata>\n</directive>\n```\n\nGo.\n")
	p.in("sign", "tool:mine/shop/cart", "directive:mine/go")
	archive := p.archive("base", "1.0.0")
	policy = filepath.Join(h.dir, ".ai", "policy.yaml")
	text, err := os.ReadFile(policy)
	if err == nil {
		err = os.WriteFile(policy, fmt.Appendf(text, "\ninside: [\"%s\"]\n", server.Listener.Addr()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.in("add", "base", "--from", server.URL+"/"+filepath.Base(archive))
	p.in("vendor")
	p.in("lock", "--check")
	git(t, p.project, "init", "-q")
	git(t, p.project, "add", "-A")
	git(t, p.project, "commit", "-q", "-m", "all of it")
	return p, policy
}

// git runs git, with nothing of this machine's in its configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Me", "-c", "user.email=me@example.org", "-c",
		"init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestCloneWithoutNetwork looks at a clone where there is nothing but it and a policy: no network, no store, no home,
// and no right to write anywhere.
func TestCloneWithoutNetwork(t *testing.T) {
	p, policy := vendoredProject(t)
	top, err := os.MkdirTemp("", "clone")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("chmod", "-R", "u+w", top).Run()
		os.RemoveAll(top)
	})
	clone, bare := filepath.Join(top, "clone"), filepath.Join(top, "bare")
	git(t, top, "clone", "-q", p.project, clone)
	git(t, top, "clone", "-q", p.project, bare)
	if err := os.RemoveAll(filepath.Join(bare, ".ai", "vendor")); err != nil {
		t.Fatal(err)
	}
	home, rye := filepath.Join(top, "home"), filepath.Join(top, "rye")
	at, err := exec.LookPath("rye")
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{at: rye, policy: filepath.Join(top, "policy.yaml")} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Mkdir(home, 0o755), os.Chmod(top, 0o755),
		exec.Command("chmod", "-R", "a-w,a+rX", top).Run()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(dir string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(rye, append([]string{"--trust", filepath.Join(top, "policy.yaml")}, args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + home, "SSL_CERT_FILE=" + os.Getenv("SSL_CERT_FILE")}
		cmd.SysProcAttr = withoutNetwork()
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, args := range [][]string{
		{"lock", "--check"}, {"vendor", "--check"}, {"diff"}, {"diff", "tool:mine/t0"}, {"diff", "directive:mine/go"},
		{"why", "base"},
		{"why", "tool:base/x"}, {"tree"}, {"tree", "--json"}, {"ls"}, {"show", "tool:base/x"}, {"verify", "**"},
		{"restore", "**"},
		{"restore", "**", "--dry-run"},
	} {
		if out, status := run(clone, args...); status != 0 {
			t.Errorf("rye %q: exit status %d\n%s", args, status, out)
		}
	}
	// Neither is there a network by which a missing object could come, nor a place to put it.
	for _, args := range [][]string{{"lock", "--check"}, {"tree"}, {"diff"}} {
		out, status := run(bare, args...)
		if status != fault.ExitMissing || !strings.Contains(out, `is missing, needed by "bundle:base@1.0.0"`) ||
			!strings.Contains(out, filepath.Join(top, "policy.yaml")+" fetch\n") {
			t.Errorf("rye %q: exit status %d\n%s", args, status, out)
		}
	}
	if out, status := run(bare, "--store", filepath.Join(top, "store"), "fetch"); status == 0 {
		t.Errorf("fetched: %s", out)
	}
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if changed := git(t, clone, "-c", "safe.directory=*", "status", "--porcelain"); changed != "" {
		t.Errorf("changed:\n%s", changed)
	}
}

// withoutNetwork starts a process in a network of its own, in which there is nothing, and as a user who may write
// nowhere.
func withoutNetwork() *syscall.SysProcAttr {
	if os.Geteuid() == 0 {
		return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET,
			Credential: &syscall.Credential{Uid: 4242, Gid: 4242}}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}
}

// TestClonesAreIdentical clones to other places, with another umask and with a git that would like to change line
// ends: it is the same tree, and the same lock, everywhere.
func TestClonesAreIdentical(t *testing.T) {
	p, policy := vendoredProject(t)
	want := tracked(t, p.project)
	if len(want) < 12 {
		t.Fatalf("only %d files", len(want))
	}
	for name, script := range map[string]string{
		"plain":      `git clone -q "$0" "$1"`,
		"umask":      `umask 077 && git clone -q "$0" "$1"`,
		"line ends":  `git clone -q -c core.autocrlf=true -c core.eol=crlf "$0" "$1"`,
		"group-made": `umask 002 && git clone -q -c core.sharedRepository=group "$0" "$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			clone := filepath.Join(t.TempDir(), "some where", "else")
			if err := os.Mkdir(filepath.Dir(clone), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", script, p.project, clone)
			cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			same := func() {
				t.Helper()
				got := tracked(t, clone)
				for file, is := range want {
					if got[file] != is {
						t.Errorf("%q is %.60q, want %.60q", file, got[file], is)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%d files, want %d", len(got), len(want))
				}
				if changed := git(t, clone, "status", "--porcelain"); changed != "" {
					t.Errorf("changed:\n%s", changed)
				}
			}
			same()
			// What is made there anew is what is there.
			for _, args := range [][]string{
				{"lock", "--check"}, {"vendor", "--check"}, {"verify", "**"}, {"lock"}, {"fetch"}, {"vendor"},
				{"restore", "**"}, {"lock", "--check"},
			} {
				cmd := exec.Command("rye", append([]string{"--trust", policy, "--offline"}, args...)...)
				cmd.Dir = clone
				cmd.Env = []string{"HOME=" + filepath.Join(filepath.Dir(clone), "home")}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("rye %q: %v\n%s", args, err, out)
				}
			}
			same()
			if err := os.RemoveAll(filepath.Join(clone, ".ai", "tools")); err != nil {
				t.Fatal(err)
			}
			cmd = exec.Command("rye", "--trust", policy, "restore", "**")
			cmd.Dir = clone
			cmd.Env = []string{"HOME=" + filepath.Join(t.TempDir(), "no-home")}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			same()
		})
	}
}

// tracked is every file of a working tree with its bytes, and whether it may be executed: what git knows of modes.
// Left out are those of git's own.
func tracked(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name == ".gitattributes" || name == ".gitignore" {
			return err
		}
		all[name] = fmt.Sprintf("%v %s", fi.Mode().Perm()&0o100 != 0, b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
