package proc_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/rye-build/rye/exec/proc"
)

// TestKillTree: a process ends with those below it; one that isn't the one that was meant is left alone.
func TestKillTree(t *testing.T) {
	c := exec.Command(self(t), word, "children", "stay")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	pid, start := c.Process.Pid, proc.Start(c.Process.Pid)
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if _, err := io.ReadFull(out, make([]byte, 3*len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]string{"another": start + "1", "none": ""} {
		if err := proc.KillTree(pid, other); !errors.Is(err, os.ErrProcessDone) || proc.Start(pid) != start {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := proc.KillTree(pid, start); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 1)); n != 0 || err == nil { // it ends when none of them holds it
		t.Error("something goes on")
	}
	c.Wait()
	if err := proc.KillTree(pid, start); !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}
