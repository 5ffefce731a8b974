package session

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/lock/git"
)

// The test binary is what calls of its sessions start, and a git that prints its arguments and exits with 3.
func TestMain(m *testing.M) {
	if status, inside := Inside(os.Args[1:]); inside {
		os.Exit(status)
	}
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "git" {
		_, _ = io.WriteString(os.NewFile(1, "stdout"), strings.Join(os.Args[1:], " "))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func installGit(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	name := "git"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestGit(t *testing.T) {
	vars := map[string]string{"PATH": installGit(t), "HTTPS_PROXY": "http://proxy.example",
		"SSL_CERT_FILE": "/certificates", "HOME": "/nowhere"}
	o := Git(env.Host{Vars: vars, Files: env.Disk{}, Ask: proc.Asker{}})(t.TempDir())
	if o.Vars["HTTPS_PROXY"] != "http://proxy.example" || o.Vars["GIT_SSL_CAINFO"] != "/certificates" ||
		len(o.Vars) != 2 {
		t.Errorf("%v", o.Vars)
	}
	for range 2 { // found once
		var out bytes.Buffer
		code, err := o.Run(context.Background(), git.Command{Args: []string{"a", "b"}, Dir: t.TempDir(), Stdout: &out})
		if err != nil || code != 3 || out.String() != "a b" {
			t.Errorf("%d, %v, %q", code, err, out.String())
		}
	}
}

// Without git in PATH the error says so, and a project's own git is never run.
func TestGitMissing(t *testing.T) {
	run := func(path, project string) (int, error) {
		o := Git(env.Host{Vars: map[string]string{"PATH": path}, Files: env.Disk{}, Ask: proc.Asker{}})(project)
		return o.Run(context.Background(), git.Command{Dir: t.TempDir()})
	}
	if code, err := run(t.TempDir(), t.TempDir()); code != -1 || fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("%d, %v", code, err)
	}
	own := installGit(t)
	if code, _ := run(own, own); code == 3 {
		t.Error("the project's git was run")
	}
	// A program that doesn't start.
	broken := installGit(t)
	for _, name := range []string{"git", "git.exe"} {
		if _, err := os.Stat(filepath.Join(broken, name)); err == nil {
			if err := os.WriteFile(filepath.Join(broken, name), []byte("\x7fELF"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if code, err := run(broken, t.TempDir()); code != -1 || err == nil {
		t.Errorf("%d, %v", code, err)
	}
}
