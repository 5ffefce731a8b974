package sandbox_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/stage"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// keep are the names that no program may create.
var keep = []string{".ai", ".git", "rye.lock", "rye.yaml"}

// project makes a directory with some entries, and returns a Spec that may write it, but not the names in keep.
func project(t testing.TB, level floor.Level, entries ...string) (dir string, spec sandbox.Spec) {
	dir = realDir(t)
	for _, e := range entries {
		if name, isDir := strings.CutSuffix(e, "/"); isDir {
			if err := os.MkdirAll(dir+"/"+name, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		put(t, dir+"/"+e)
	}
	spec = sandbox.Spec{Level: level, Write: []string{dir}}
	for _, name := range keep {
		spec.Keep = append(spec.Keep, dir+"/"+name)
	}
	return dir, spec
}

// entries lists a directory: a directory with /, a link with @.
func entries(t testing.TB, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		name := e.Name()
		switch {
		case e.IsDir():
			name += "/"
		case e.Type()&os.ModeSymlink != 0:
			name += "@"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// steps does several tries in one program; each step is one argument, "!" before one that must fail.
func steps(a []string) error {
	for _, step := range a {
		step, bad := strings.CutPrefix(step, "!")
		args := strings.Fields(step)
		err := tries[args[0]](args[1:])
		if bad && err == nil {
			return fmt.Errorf("%s: succeeded", step)
		}
		if !bad && err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}

// inDir runs a program in its project.
func inDir(t testing.TB, m *sandbox.Machine, s sandbox.Spec, steps ...string) (*sandbox.Ending, string) {
	t.Helper()
	var out bytes.Buffer
	c := proc.Command{Path: self(t), Args: append([]string{tryWord, "steps"}, steps...), Dir: s.Write[0],
		Env: []string{mark(t)}, Stdout: &out, Stderr: &out}
	o, err := m.Run(t.Context(), s, c)
	if err != nil {
		t.Fatalf("%q: %v", steps, err)
	}
	return o, out.String()
}

// TestTop: where names to keep are missing, a program creates, replaces, renames and removes what it likes beside
// them, and finds everything where it was.
func TestTop(t *testing.T) {
	m := machine(t)
	dir, s := project(t, floor.Namespace, "src/a", "b", "c", "d", "rye.yaml", "sub/")
	if err := errors.Join(os.Symlink("b", dir+"/link"), os.Link(dir+"/d", dir+"/src/hard")); err != nil {
		t.Fatal(err)
	}
	s.Write = append(s.Write, dir+"/src")
	before, _ := os.Stat(dir)
	o, said := inDir(t, m, s,
		"write out.txt", "read out.txt", "append out.txt", "mkdir build", "write build/x", "rename out.txt build/y",
		"link build/y build/z", "link build/y top", "write new", "rename new b", "rename c moved", "remove d",
		"read src/a",
		"write src/new", "!rename build/x src/x", "read link", "!append rye.yaml", "chmod build/y", "mkdir deep",
		"mkdir deep/er",
		"!rename src other", "!remove src", "!list .git", "!read rye.lock", "absent .git", "absent rye.lock",
		"absent .ai/x")
	if o.Exit.Code != 0 || o.Asides != nil || o.Closed != "" {
		t.Fatalf("%+v %s", o, said)
	}
	if got, want := entries(t, dir), "b build/ deep/ link@ moved rye.yaml src/ sub/ top"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := entries(t, dir+"/src")+" "+entries(t, dir+"/build"), "a hard new x y z"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	one, _ := os.Stat(dir + "/build/y")
	if two, _ := os.Stat(dir + "/top"); !os.SameFile(one, two) {
		t.Error("a hard link is another file")
	}
	if data, _ := os.ReadFile(dir + "/b"); string(data) != "x" {
		t.Errorf("the replaced file has %q", data)
	}
	if after, _ := os.Stat(dir); after.Mode() != before.Mode() {
		t.Errorf("the mode is %v", after.Mode())
	}
}

// makers are the ways to create a name.
var makers = []string{"write NAME", "mkdir NAME", "symlink NAME", "mkfifo NAME", "rename f NAME", "rename d NAME",
	"exchange f NAME", "link f NAME", "bind-socket NAME", "unlinked-file NAME", "btrfs NAME", "mount NAME"}

// TestKeep: a program creates none of the names to keep, however it tries, and nothing in them.
func TestKeep(t *testing.T) {
	m := machine(t)
	for _, name := range keep {
		for level := floor.Landlock; level <= floor.Namespace; level++ {
			for _, present := range []bool{false, true} { // of the others
				dir, s := project(t, level, "f", "d/")
				if present {
					for _, other := range keep {
						if other != name {
							put(t, dir+"/"+other)
						}
					}
				}
				before := entries(t, dir)
				var list []string
				for _, maker := range makers {
					maker = strings.ReplaceAll(maker, "NAME", name)
					list = append(list, "!"+maker, "!"+strings.ReplaceAll(maker, name, dir+"/d/../"+name))
				}
				list = append(list, "!remove "+name, "!rename "+name+" g", "!write "+name+"/x", "!mkdir "+name+"/x",
					"!append "+name, "!truncate "+name)
				o, said := inDir(t, m, s, list...)
				if o.Exit.Code != 0 || o.Asides != nil {
					t.Errorf("%s, %s, %v: %+v %s", name, level, present, o, said)
				}
				if after := entries(t, dir); after != before {
					t.Errorf("%s, %s: %s, before %s", name, level, after, before)
				}
			}
		}
	}
}

// TestKeepCase: a name that differs only in its case isn't brought into the project.
func TestKeepCase(t *testing.T) {
	dir, s := project(t, floor.Namespace)
	o, said := inDir(t, machine(t), s, "mkdir .GIT", "write Rye.Lock", "write fine")
	if o.Exit.Code != 0 || len(o.Asides) != 2 || entries(t, dir) != ".GIT.rye-new/ Rye.Lock.rye-new fine" {
		t.Errorf("%+v %s: %s", o, said, entries(t, dir))
	}
}

// paused runs a program that does some steps, waits, and does the others; meanwhile is called while it waits.
func paused(t *testing.T, m *sandbox.Machine, s sandbox.Spec, first, then []string, meanwhile func()) *sandbox.Ending {
	t.Helper()
	in, more, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	var other sync.WaitGroup
	other.Go(func() {
		defer more.Close()
		said.Read(make([]byte, 1))
		meanwhile()
	})
	var errs bytes.Buffer
	o, err := m.Run(t.Context(), s, proc.Command{Path: self(t), Dir: s.Write[0], Stdin: in, Stdout: out, Stderr: &errs,
		Args: slices.Concat([]string{tryWord, "steps"}, first, []string{"await"}, then)})
	out.Close()
	other.Wait()
	if err != nil || o.Exit.Code != 0 {
		t.Fatalf("%+v, %v, %s", o, err, errs.String())
	}
	return o
}

// TestMeanwhile: what others do in the project while a program runs is never replaced or removed. Both versions are
// there, and the Ending says where.
func TestMeanwhile(t *testing.T) {
	m := machine(t)
	dir, s := project(t, floor.Namespace, "edited", "replaced", "removed", "same", "cut")
	text := func(name, content string) {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o600); err != nil {
			t.Error(err)
		}
	}
	o := paused(t, m, s, []string{"write out", "write fresh", "rename fresh edited", "write fresh",
		"rename fresh replaced",
		"write fresh", "rename fresh removed", "mkdir build", "write build/tool", "write build/both", "remove cut",
		"write made"}, nil,
		func() {
			text("out", "user")
			text("edited", "user")
			text("cut", "user")
			text("tmp", "user")
			later := time.Now().Add(time.Second) // a file system's clock may be slower than this test
			err := cmp.Or(os.Chtimes(dir+"/edited", later, later), os.Rename(dir+"/tmp", dir+"/replaced"),
				os.Remove(dir+"/removed"), os.Mkdir(dir+"/build", 0o755),
				os.Mkdir(dir+"/.git", 0o755), os.Mkdir(dir+"/made", 0o755))
			if err != nil {
				t.Error(err)
			}
			text("build/user", "user")
			text("build/both", "user")
			text(".git/config", "user")
		})
	const want = ".git/ build/ cut edited edited.rye-new made/ made.rye-new out out.rye-new removed replaced " +
		"replaced.rye-new same"
	if got := entries(t, dir); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := entries(t, dir+"/build"); got != "both both.rye-new tool user" {
		t.Error(got)
	}
	for name, want := range map[string]string{"out": "user", "edited": "user", "replaced": "user", "cut": "user",
		"build/both": "user", "removed": "x", "out.rye-new": "x", "edited.rye-new": "x", "replaced.rye-new": "x",
		"build/both.rye-new": "x", "same": "secret", ".git/config": "user"} {
		if data, err := os.ReadFile(dir + "/" + name); string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	wantAsides := `"build/both": the project has another one by now; the tool's is "build/both.rye-new"
"cut": it was written meanwhile, so it wasn't removed
"edited": the project has another one by now; the tool's is "edited.rye-new"
"made": the project has another one by now; the tool's is "made.rye-new"
"out": the project has another one by now; the tool's is "out.rye-new"
"replaced": the project has another one by now; the tool's is "replaced.rye-new"`
	if got := strings.Join(o.Asides, "\n"); got != wantAsides {
		t.Errorf("%s\nwant\n%s", got, wantAsides)
	}
}

// TestTogether: programs that run at the same time in one project see each other's changes of existing files, and what
// both create is merged.
func TestTogether(t *testing.T) {
	m := machine(t)
	dir, s := project(t, floor.Namespace, "log", "src/")
	var inner *sandbox.Ending
	outer := paused(t, m, s, []string{"mkdir build", "write build/a", "write a", "truncate log"},
		[]string{"read src/b"},
		func() {
			inner = paused(t, m, s, []string{"mkdir build", "write build/b", "write b", "write src/b"}, nil, func() {})
		})
	if got := entries(t, dir) + ", " + entries(t, dir+"/build"); got != "a b build/ log src/, a b" ||
		outer.Asides != nil || inner.Asides != nil {
		t.Errorf("%s: %q, %q", got, outer.Asides, inner.Asides)
	}
}

// TestEnded: a program that a limit ends leaves what it created, and so does one whose caller gives up.
func TestEnded(t *testing.T) {
	m := machine(t)
	dir, s := project(t, floor.Namespace)
	ctx, cancel := context.WithCancel(t.Context())
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	go func() { said.Read(make([]byte, 1)); cancel() }()
	in, more, _ := os.Pipe()
	defer more.Close()
	defer in.Close()
	o, err := m.Run(ctx, s, proc.Command{Path: self(t), Dir: dir, Stdout: out, Stdin: in,
		Args: []string{tryWord, "steps", "write out", "await"}})
	if err != nil || o.Ended != "cancelled" || entries(t, dir) != "out" {
		t.Errorf("%+v, %v: %s", o, err, entries(t, dir))
	}
}

// TestFlat: without mounts nothing is created beside a missing name, and the Ending says why; what exists can be
// changed.
func TestFlat(t *testing.T) {
	m := machine(t)
	for why, change := range map[string]func(*sandbox.Spec){
		"there are no namespaces":       func(s *sandbox.Spec) { s.Level = floor.Landlock },
		"the program serves many calls": func(s *sandbox.Spec) { s.Stays = true },
	} {
		dir, s := project(t, floor.Namespace, "d/", "f", "rye.yaml")
		change(&s)
		o, said := inDir(t, m, s, "!write out", "write d/out", "append f", "list .", "!append rye.yaml",
			"read rye.yaml")
		const missing = " itself while .ai, .git, rye.lock is missing, since "
		if o.Exit.Code != 0 || !strings.HasSuffix(o.Closed, missing+why) {
			t.Errorf("%s: %+v %s", why, o, said)
		}
		if got := entries(t, dir); got != "d/ f rye.yaml" {
			t.Error(got)
		}
	}
}

// TestUnlaid: a directory that can't be laid out is used as it is, with all of the program's input.
func TestUnlaid(t *testing.T) {
	dir, s := project(t, floor.Namespace, "d/")
	for n := 1; n <= 1000; n++ {
		if err := os.Mkdir(fmt.Sprintf("%s/.rye-new-%d", dir, n), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, fmt.Sprintf("%s/.rye-new-%d/user", dir, n))
	}
	o, said := inDir(t, machine(t), s, "!write out", "write d/out")
	if o.Exit.Code != 0 || !strings.Contains(o.Closed, "since lay out a directory: ") {
		t.Errorf("%+v %s", o, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "d/out")); err != nil {
		t.Error(err)
	}
}

// caller is a process that runs a program in a project, until it is killed.
func caller(a []string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	s := sandbox.Spec{Level: floor.Namespace, Write: []string{a[1]}}
	for _, name := range keep {
		s.Keep = append(s.Keep, a[1]+"/"+name)
	}
	m := sandbox.New(sandbox.Options{Self: []string{path, stageWord, a[0]}})
	_, err = m.Run(context.Background(), s, proc.Command{
		Path: path, Dir: a[1], Stdin: os.Stdin, Stdout: os.Stdout,
		Args: []string{tryWord, "steps", "write out", "write fresh", "rename fresh replaced", "remove removed",
			"mkdir build", "write build/x", "await"},
	})
	return err
}

// TestKilled: what a program created is in the project when rye is killed, as soon as its stage has ended, and when
// the stage is killed, from the next run on. Nothing of the project is lost.
func TestKilled(t *testing.T) {
	m := machine(t)
	for _, victim := range []string{"caller", "stage", "both"} {
		dir, s := project(t, floor.Namespace, "replaced", "removed", "same", "src/")
		in, more, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(self(t), tryWord, "caller", coverDir(), dir)
		c.Stdin = in
		said, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := said.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if got := entries(t, dir); got != ".rye-new-1/ removed replaced same src/" {
			t.Errorf("while it runs: %s", got)
		}
		kill := []int{c.Process.Pid}
		if victim != "caller" {
			kill = slices.Insert(kill, 0, stage.Below(c.Process.Pid)[0])
		}
		if victim == "stage" {
			kill = kill[:1]
		}
		for _, pid := range kill {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		more.Close()
		in.Close()
		_ = c.Wait()
		var asides []string
		want := "build/ out replaced same src/"
		if victim != "caller" {
			want = "build/ out removed replaced replaced.rye-new same src/"
			if got := entries(t, dir); got != ".rye-new-1/ removed replaced same src/" {
				t.Errorf("%s: %s", victim, got)
			}
			for end := time.Now().Add(time.Minute); asides == nil && time.Now().Before(end); {
				o, _ := inDir(t, m, s, "nothing") // an orphaned stage may still be dying
				asides = o.Asides
			}
		}
		for end := time.Now().Add(10 * time.Second); entries(t, dir) != want && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got := entries(t, dir); got != want || len(asides) != strings.Count(want, "rye-new") {
			t.Errorf("%s: %s, want %s; %q", victim, got, want, asides)
		}
		fresh, old := "replaced", "replaced"
		if victim != "caller" {
			fresh = "replaced.rye-new"
			if data, _ := os.ReadFile(dir + "/" + old); string(data) != "secret" {
				t.Errorf("%s: %q", victim, data)
			}
		}
		if data, _ := os.ReadFile(dir + "/" + fresh); string(data) != "x" {
			t.Errorf("%s: %q", victim, data)
		}
	}
}

// TestReplacedMeanwhile: where a name to keep is missing, a program can change no other one either, not even the file
// that another process puts in its place meanwhile.
func TestReplacedMeanwhile(t *testing.T) {
	dir, s := project(t, floor.Namespace, ".ai/", "rye.lock", "rye.yaml", "f")
	o := paused(t, machine(t), s, []string{"!append rye.lock"},
		[]string{"!append rye.lock", "!append rye.yaml", "!write .ai/x", "!mkdir .git", "append f"}, func() {
			for _, name := range []string{"rye.lock", "rye.yaml"} {
				put(t, dir+"/new")
				if err := os.Rename(dir+"/new", dir+"/"+name); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(os.Remove(dir+"/.ai"), os.Mkdir(dir+"/.ai", 0o755)); err != nil {
				t.Error(err)
			}
		})
	if got := entries(t, dir); got != ".ai/ f rye.lock rye.yaml" || o.Asides != nil {
		t.Errorf("%s, %q", got, o.Asides)
	}
}
