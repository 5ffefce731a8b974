package sandbox_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const lameWord = "__lame"

// counted adds a byte to a file, which counts stages.
func counted(count string) error {
	f, err := os.OpenFile(count, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("x")
	return cmp.Or(err, f.Close())
}

// lameStage is the second stage of a machine on which namespaces can be made, but mounting in them is denied.
func lameStage(count string) int {
	err := counted(count)
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err = cmp.Or(err, unix.Capget(&header, &data[0]))
	data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	if cmp.Or(err, unix.Capset(&header, &data[0])) != nil {
		return 9
	}
	return sandbox.Stage(nil)
}

// bytesIn returns the size of a file; 0 for a missing one.
func bytesIn(t *testing.T, path string) int {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(data)
}

// TestMost: the highest level that works is enforced, a missing one is tried once, and the program starts once, with
// all its input.
func TestMost(t *testing.T) {
	var lameStages string
	lame := func() *sandbox.Machine {
		lameStages = filepath.Join(realDir(t), "count")
		return sandbox.New(sandbox.Options{Self: []string{self(t), lameWord, coverDir(), lameStages}})
	}
	hosts := sandbox.Network{Hosts: []string{"example.com"}}
	for _, c := range []struct {
		name    string
		machine func() *sandbox.Machine
		spec    sandbox.Spec
		want    floor.Level // Unset: none
		stages  int         // for two runs
	}{
		{"all there is", func() *sandbox.Machine { return machine(t) }, sandbox.Spec{}, floor.Namespace, 0},
		{"all there is, with hosts", func() *sandbox.Machine {
			return machine(t)
		}, sandbox.Spec{Network: hosts}, floor.Namespace, 0},
		{"no mounts", lame, sandbox.Spec{}, floor.Landlock, 3},
		{"no mounts, with a network", lame, sandbox.Spec{Network: sandbox.Network{All: true}}, floor.Landlock, 3},
		{"no mounts, and no less than landlock", lame, sandbox.Spec{Level: floor.Landlock}, floor.Landlock, 3},
		{"no mounts, and no less than namespace", lame, sandbox.Spec{Level: floor.Namespace}, floor.Unset, 1},
		{"no mounts, with hosts", lame, sandbox.Spec{Network: hosts}, floor.Limits, 3},
		{"no mounts, and no less than hosts", lame, sandbox.Spec{Level: floor.Landlock, Network: hosts}, floor.Unset,
			1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, input, dir := c.machine(), strings.Repeat("0123456789", 50_000), realDir(t)
			c.spec.Most, c.spec.Write = true, []string{dir}
			for run := 1; run <= 2; run++ {
				var out bytes.Buffer
				o, err := m.Run(t.Context(), c.spec, proc.Command{
					Path: self(t), Args: []string{tryWord, "consume", dir + "/started"},
					Stdin: strings.NewReader(input), Stdout: &out,
				})
				if c.want == floor.Unset {
					if e, ok := errors.AsType[*sandbox.UnavailableError](err); !ok ||
						!strings.Contains(e.Error(), "mounts private: operation not permitted") {
						t.Errorf("%+v, %v", o, err)
					}
					if n := bytesIn(t, dir+"/started"); n != 0 {
						t.Errorf("started %d times", n)
					}
					break
				}
				if err != nil || o.Level != c.want || o.Exit.Code != 0 || out.String() != input {
					t.Errorf("run %d: %+v, %v, %d bytes", run, o, err, out.Len())
				}
				if n := bytesIn(t, dir+"/started"); n != run {
					t.Errorf("started %d times in %d runs", n, run)
				}
			}
			if c.stages > 0 {
				if n := bytesIn(t, lameStages); n != c.stages {
					t.Errorf("%d stages", n)
				}
			}
		})
	}
	// The probe says the same.
	if o := lame().Offers(); o.Best != floor.Landlock || o.Hosts {
		t.Errorf("%+v", o)
	}
}

// nested runs a program in a sandbox inside this one, where namespaces and control groups are denied.
func nested(a []string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	m := sandbox.New(sandbox.Options{Self: []string{path, stageWord, a[0]}})
	s := sandbox.Spec{Most: true}
	if a[1] == "linger" {
		s.Limits.Wall = time.Second
	}
	o, err := m.Run(context.Background(), s, proc.Command{Path: path, Args: append([]string{tryWord}, a[1:]...),
		Stdout: os.Stdout})
	if err != nil {
		return err
	}
	fmt.Print(" ", o.Level, " ", o.Exit.Code, o.Ended)
	return nil
}

// TestNested: a sandbox inside a sandbox has Landlock twice.
func TestNested(t *testing.T) {
	m := machine(t)
	for l := floor.Landlock; l <= floor.Namespace; l++ {
		s := sandbox.Spec{Level: l}
		if dir := coverDir(); dir != "" {
			dir, err := filepath.EvalSymlinks(dir)
			if err != nil {
				t.Fatal(err)
			}
			s.Write = []string{dir}
		}
		for try, want := range map[string]string{
			"nothing": " landlock 0", "file-3": "bad file descriptor landlock 1",
			"file-4":         "bad file descriptor landlock 1",
			"linger":         " landlock -1timeout",
			"capabilities":   "[{0 0 0} {0 0 0}] landlock 0",
			"user-namespace": "fork/exec /proc/self/exe: operation not permitted landlock 1",
		} {
			if o, said := attempt(t, m, s, "nested", coverDir(), try); o.Exit.Code != 0 || said != want {
				t.Errorf("%s: %s: %+v, %s", l, try, o, said)
			}
		}
	}
}

// TestDeniedFile: a denied file can't be read, the others in its directory can.
func TestDeniedFile(t *testing.T) {
	m := machine(t)
	dir := realDir(t)
	open, denied := put(t, dir+"/open"), put(t, dir+"/denied")
	for l := floor.Landlock; l <= floor.Namespace; l++ {
		s := sandbox.Spec{Level: l, Read: []string{dir}, Deny: []string{denied}}
		if o, said := attempt(t, m, s, "show", open); o.Exit.Code != 0 || said != "secret" {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
		if o, said := attempt(t, m, s, "show", denied); strings.Contains(said, "secret") {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
	}
}
