//go:build peers && linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestBuildTwoUsers: what two users build, on two paths and two days, is one bundle.
func TestBuildTwoUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to become another user")
	}
	dir, err := os.MkdirTemp("", "rye-two")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err = errors.Join(err, os.Mkdir(filepath.Join(dir, "bin"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rye", "probe"} {
		if err := os.WriteFile(filepath.Join(dir, "bin", name), binary, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		"rye.yaml":  "",
		"src/a.txt": "one\n",
		"bundle.yaml": "id: acme/app\nversion: 1.0.0\ninclude: [\".ai/tools/**\"]\nbuild:\n" +
			"  join: {tool: \"tool:acme/join\", inputs: [\"src/**\"], outputs: [dist/all.txt]}\n" +
			"  python: {tool: \"tool:acme/zip\", inputs: [\"dist/**\", \"src/**\"], outputs: [app.zip]}\n",
		".ai/tools/acme/join.yaml": "version: 1.0.0\ntool_type: script\nexecutor_id: rye/core/primitives/subprocess\ncategory: acme\n" +
			"description: Joins files\nconfig: {command: probe, args: [concat, dist/all.txt, src]}\npure: true\n",
		".ai/tools/acme/zip.yaml": "version: 1.0.0\ntool_type: script\nexecutor_id: rye/core/primitives/subprocess\ncategory: acme\n" +
			"description: Packs files\nconfig: {command: python3, args: [-I, -m, zipfile, -c, app.zip, dist, src]}\npure: true\n",
	}
	// as is a user with a directory, who works in a project.
	as := func(user uint32, name, project, day string) func(args ...string) string {
		home := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Join(home, project), 0o755),
			os.MkdirAll(filepath.Join(home, "tmp"), 0o700)); err != nil {
			t.Fatal(err)
		}
		own := func() {
			err := filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
				return errors.Join(err, os.Lchown(path, int(user), int(user)))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return func(args ...string) string {
			t.Helper()
			own()
			cmd := exec.Command(filepath.Join(dir, "bin", "rye"), args...)
			cmd.Dir = filepath.Join(home, project)
			cmd.Env = []string{"HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"),
				"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin", "SOURCE_DATE_EPOCH=" + day,
				"TZ=" + map[bool]string{true: "UTC", false: "Asia/Tokyo"}[user == 0]}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: rye %s: %v\n%s%s", name, strings.Join(args, " "), err, out, said.String())
			}
			return string(out)
		}
	}
	put := func(at string, files map[string]string) {
		for path, text := range files {
			to := filepath.Join(at, filepath.FromSlash(path))
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755),
				os.WriteFile(to, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	released := func(rye func(...string) string) (manifest string, actions []string) {
		var build struct {
			Data struct {
				Steps []struct{ State, Action, Outputs string }
			}
		}
		var made struct{ Data struct{ Manifest string } }
		text := rye("build", "--json")
		if err := json.Unmarshal([]byte(text), &build); err != nil {
			t.Fatal(err)
		}
		for _, s := range build.Data.Steps {
			if s.State != "ran" {
				t.Fatalf("nothing ran: %s", text)
			}
			actions = append(actions, s.Action, s.Outputs)
		}
		if err := json.Unmarshal([]byte(rye("bundle", "create", "--json")), &made); err != nil ||
			made.Data.Manifest == "" {
			t.Fatal(made, err)
		}
		return made.Data.Manifest, actions
	}

	ann := as(0, "ann", "one", "1700000000")
	put(filepath.Join(dir, "ann", "one"), files)
	ann("key", "new", "--owner", "Ann", "-q")
	ann("sign", "--all", "-q")
	ann("lock", "-q")
	first, actions := released(ann)
	public := ann("key", "export", "default")

	bob := as(4242, "bob", "a/longer/path", "1893456000")
	place := filepath.Join(dir, "bob", "a", "longer", "path")
	put(place, files)
	for path := range files {
		b, err := os.ReadFile(filepath.Join(dir, "ann", "one", filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		put(place, map[string]string{path: string(b)})
	}
	put(filepath.Join(dir, "bob"), map[string]string{"ann.pem": public})
	bob("key", "new", "--owner", "Bob", "-q")
	bob("trust", "add", filepath.Join(dir, "bob", "ann.pem"), "--name", "ann", "--owner", "Ann", "--names",
		"tool:acme/**", "--yes", "-q")
	bob("lock", "-q")
	second, others := released(bob)
	if first != second || fmt.Sprint(actions) != fmt.Sprint(others) {
		t.Errorf("ann made %s of %q\nbob made %s of %q", first, actions, second, others)
	}
}
