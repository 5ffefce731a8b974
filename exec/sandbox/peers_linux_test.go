//go:build peers

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const otherUser = 65534

// private returns a directory of another user's, with this binary in it.
func private(t *testing.T) (dir, program string) {
	dir, err := os.MkdirTemp("/var/tmp", "rye-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "sandbox.test")
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, otherUser, otherUser); err != nil {
		t.Fatal("this test is root's: ", err)
	}
	return dir, program
}

// TestAsUser: all tests pass as an ordinary user too.
func TestAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // they do that now
	}
	dir, program := private(t)
	c := exec.Command(program, "-test.v", "-test.run",
		"^Test(Escapes|Given|AsGiven|Exit|Limits|Allocate|Written|Files|Daemon|Cancel|StageKilled|"+
			"FilesOfOurs|Program|Many|Hosts|View|Offers|Refusals|"+
			"NoStage|Terminal|AllNetwork|Most|Nested|DeniedFile|"+
			"Top|Keep|KeepCase|Meanwhile|Together|Ended|Flat|Unlaid|Killed)$")
	c.Dir = dir
	c.Env = []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	out, err := c.CombinedOutput()
	ran := strings.Count(string(out), "\n--- PASS: Test") + strings.Count(string(out), "\n--- FAIL: Test")
	if err != nil || ran < 12 {
		t.Errorf("%v, %d tests\n%s", err, ran, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

func TestThousand(t *testing.T) { many(t, 1000) }

// TestSetuid: setuid has no effect in a sandbox.
func TestSetuid(t *testing.T) {
	_, program := private(t)
	if err := os.Chown(program, otherUser, otherUser); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	m := machine(t)
	for l, want := range map[floor.Level]string{floor.None: "65534", floor.Limits: "65534", floor.Landlock: "0",
		floor.Namespace: "0"} {
		var out strings.Builder
		o, err := m.Run(t.Context(), sandbox.Spec{Level: l},
			proc.Command{Path: program, Args: []string{tryWord, "whoami"}, Stdout: &out})
		if err != nil || out.String() != want {
			t.Errorf("%s: %+v, %v, %q", l, o, err, out.String())
		}
	}
}

// Programs that read the machine's own settings find them: git ends if it may not.
func TestGit(t *testing.T) {
	path, err := exec.LookPath("git")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, dir := machine(t), realDir(t)
	for l := floor.None; l <= floor.Namespace; l++ {
		var out strings.Builder
		s := sandbox.Spec{Level: l, Write: []string{dir}}
		o, err := m.Run(t.Context(), s, proc.Command{
			Path: path, Args: []string{"config", "--list"}, Dir: dir, Env: []string{"HOME=" + dir}, Stdout: &out,
			Stderr: &out,
		})
		if err != nil || o.Exit.Code != 0 {
			t.Errorf("%s: %+v, %v, %s", l, o, err, out.String())
		}
	}
}
