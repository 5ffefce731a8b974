package toolcall_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

// TestMain lets this program be the one that Start starts: what it does is its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	if what, ok := strings.CutPrefix(os.Args[1], "bound-"); ok {
		bounded(what)
	}
	switch os.Args[1] {
	case "silent":
		os.Stderr.WriteString("no such directory\n")
		os.Exit(3)
	case "hang":
		time.Sleep(time.Hour)
	case "child":
		job, err := io.ReadAll(os.Stdin)
		if err == nil {
			_, err = os.Stderr.Write(job)
		}
		j, _ := toolcall.ParseJob(job)
		if err == nil && j != nil && others(j.Child.Tokens) {
			os.Exit(5)
		}
		if err != nil || j == nil || toolcall.Tell(os.Stdout,
			&toolcall.Word{Thread: j.Thread, Process: os.Getpid()}) != nil {
			os.Exit(4)
		}
		os.Exit(0)
	}
	job, err := toolcall.ReceiveJob(os.Stdin)
	word := &toolcall.Word{Process: os.Getpid()}
	switch {
	case err != nil:
		o := fault.Of(err).Object()
		word.Error = &o
	case os.Args[1] == "refuse":
		o := fault.New(fault.Limit, "no more").On("limit", "x").Because("it is full").Try("rye thread list",
			"rye docs").Object()
		word.Error = &o
	default:
		word.Thread = job.Thread
	}
	os.Stderr.WriteString("it runs: " + job.Stdin + "\n")
	if err := toolcall.Tell(os.Stdout, word); err != nil {
		os.Exit(4)
	}
	os.Exit(0)
}

// others reports whether other processes can see a token: among the arguments or in the environment of this one.
func others(tokens []string) bool {
	said := strings.Join(append(os.Args, os.Environ()...), "\n")
	return slices.ContainsFunc(tokens, func(text string) bool {
		signature, _, _ := strings.Cut(text, "\n")
		return strings.Contains(said, signature)
	})
}

func command(t *testing.T, what string) proc.Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return proc.Command{Path: self, Args: []string{what}, Dir: t.TempDir()}
}

// TestStart: a process gets its job and says its word, and what it writes is in the thread's log.
func TestStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "acme", "plan-1-a")
	word, err := toolcall.StartDetached(t.Context(), command(t, "run"), dir,
		&toolcall.Job{Thread: "acme/plan-1-a", Stdin: "hello"})
	if err != nil || word.Thread != "acme/plan-1-a" || word.Process == 0 || word.Process == os.Getpid() {
		t.Fatalf("%+v, %v", word, err)
	}
	info, err := os.Stat(filepath.Join(dir, toolcall.LogFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, toolcall.LogFile)); err != nil ||
		string(text) != "it runs: hello\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := toolcall.StartDetached(t.Context(), command(t, "run"), dir,
		&toolcall.Job{Thread: "acme/plan-1-a"}); !errors.Is(err, os.ErrExist) {
		t.Errorf("two threads in one directory: %v", err)
	}
}

// TestStartFails: what goes wrong before a thread begins is an error, and leaves nothing behind.
func TestStartFails(t *testing.T) {
	soon, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not any more"))
	missing := command(t, "run")
	missing.Path += "-missing"
	for what, c := range map[string]struct {
		ctx  context.Context
		with proc.Command
		code fault.Code
		text string
	}{
		"refuse":  {t.Context(), command(t, "refuse"), fault.Limit, "no more"},
		"silent":  {t.Context(), command(t, "silent"), fault.Failed, "the process ended before its thread began"},
		"hang":    {soon, command(t, "hang"), fault.Unknown, "not any more"},
		"missing": {t.Context(), missing, fault.NotFound, ""},
	} {
		dir := filepath.Join(t.TempDir(), "acme", what)
		_, err := toolcall.StartDetached(c.ctx, c.with, dir, &toolcall.Job{Thread: "acme/" + what})
		if err == nil || !strings.Contains(err.Error(), c.text) || c.code != fault.NotFound &&
			fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its directory is left", what)
		}
		f := fault.Of(err)
		if what == "refuse" && (!reflect.DeepEqual(f.Why, []string{"it is full"}) || len(f.Hint) != 2 ||
			f.Details["limit"] != "x" || f.Details["why"] != nil) {
			t.Errorf("%+v", f)
		}
		if what == "silent" && !strings.Contains(strings.Join(f.Why, ""), "no such directory") {
			t.Errorf("%+v", f)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := toolcall.StartDetached(t.Context(), command(t, "run"), filepath.Join(file, "x", "y"),
		&toolcall.Job{Thread: "x"}); err == nil {
		t.Error("a thread below a file")
	}
	dir := filepath.Join(t.TempDir(), "acme", "odd")
	odd := &toolcall.Job{Thread: "acme/odd", Child: &toolcall.DetachedChild{Inputs: map[string]any{"n": math.NaN()}}}
	if _, err := toolcall.StartDetached(t.Context(), command(t, "run"), dir, odd); err == nil {
		t.Error("a job that can't be written")
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory of a job that can't be written is left")
	}
}

// TestReceive: a process whose standard input can't be read, or has too much, has no job.
func TestReceive(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := toolcall.ReceiveJob(dir); err == nil {
		t.Error("a directory is a job")
	}
	long := io.MultiReader(strings.NewReader(`{"thread":"acme/a"}`), strings.NewReader(strings.Repeat(" ", 32<<20)))
	if _, err := toolcall.ReceiveJob(long); fault.CodeOf(err) != fault.Validation {
		t.Errorf("a job of more than 32 MiB: %v", err)
	}
}

// FuzzDetachParse: a job that is read is one that would be written.
func FuzzDetachParse(f *testing.F) {
	f.Add([]byte(`{"thread":"acme/plan-1-a"}`))
	f.Add([]byte(
		`{"thread":"a","stdin":"x","child":{"parent":"b","inputs":{"n":12345678901234567890},"limits":["turns=1"],"tokens":["x"]}}`))
	f.Add([]byte(`{"thread":"a"}{}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := toolcall.ParseJob(b)
		if err != nil {
			if fault.CodeOf(err) != fault.Validation {
				t.Errorf("%v", err)
			}
			return
		}
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := toolcall.ParseJob(text); err != nil || !reflect.DeepEqual(again, j) {
			t.Errorf("%s: %+v, %v", text, again, err)
		}
	})
}
