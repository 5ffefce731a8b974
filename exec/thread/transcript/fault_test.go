package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("RYE_TEST_TRANSCRIPT"); dir != "" {
		at, _ := strconv.Atoi(os.Getenv("RYE_TEST_AT"))
		child(dir, at, os.Getenv("RYE_TEST_TORN") != "")
	}
	os.Exit(m.Run())
}

var errBroken = errors.New("broken")

// A breaker is a hook that fails at one change, and perhaps at all after it.
type breaker struct {
	at, count int
	torn      bool   // half of a write is done
	dead      bool   // nothing works afterwards
	broke     string // where
}

func (k *breaker) hook(op, path string, b []byte) error {
	k.count++
	switch {
	case k.broke != "" && k.dead:
		return errBroken
	case k.broke != "" || k.count <= k.at:
		return nil
	}
	k.broke = op
	if op == "write" && k.torn && filepath.Ext(path) != "" || op == "write" && k.torn &&
		filepath.Base(path) == PayloadsFile {
		tear(path, b)
	}
	return errBroken
}

// tear does half of a write at the end of a file, if it is there.
func tear(path string, b []byte) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return
	}
	f.Write(b[:len(b)/2])
	f.Close()
}

// begin begins a transcript, or goes on with one, and writes turns until one fails. It returns what was acknowledged.
func begin(dir string, o Options, ack func(Position)) error {
	w, err := Create(dir, thread, started(), driver(1, nil), o)
	if err != nil {
		return err
	}
	defer w.Close()
	ack(w.Last())
	for _, events := range turns() {
		if _, err := w.Append(events...); err != nil {
			return err
		}
		ack(w.Last())
	}
	return nil
}

// finish goes on with what was left, whatever that is, and ends the thread.
func finish(t *testing.T, dir string) {
	t.Helper()
	w, err := Open(dir, driver(2, nil), options())
	if errors.Is(err, fs.ErrNotExist) {
		w, err = Create(dir, thread, started(), driver(2, nil), options())
	}
	must(t, err)
	for _, call := range slices.Sorted(maps.Keys(w.order.open)) {
		_, err := w.Append(CallResult{Call: call, Status: CallUnknown})
		must(t, err)
	}
	_, err = w.Append(Artifact{Call: "z", Media: "text/plain", Content: string(make([]byte, 5000)), Digest: sum("z")})
	must(t, err)
	_, err = w.Append(completed(), Checkpoint{Turn: 2})
	must(t, err)
	must(t, w.Close())
}

func sound(t *testing.T, name, dir string, acked []Position) {
	t.Helper()
	finish(t, dir)
	if r := verify(t, dir, Check{Keys: []key.Public{own.Public()}, Thread: thread, Seen: acked}); r.Problem != nil ||
		r.Torn || r.Status != StatusCompleted {
		t.Fatalf("%s: %v %+v", name, r.Problem, r)
	}
}

// TestPayloadsSynced: the name of the file of payloads is durable before a line names what is in it: after a power
// failure the record of a thread would have lost what its lines prove.
func TestPayloadsSynced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "threads", thread)
	o := options()
	var did []string
	o.Hook = func(op, path string, _ []byte) error {
		did = append(did, op+" "+filepath.Base(path))
		return nil
	}
	must(t, begin(dir, o, func(Position) {}))
	created := slices.Index(did, "create "+PayloadsFile)
	if created < 0 {
		t.Fatalf("no payloads: %q", did)
	}
	want := []string{"create " + PayloadsFile, "write " + PayloadsFile, "sync " + PayloadsFile,
		"syncdir " + filepath.Base(dir), "write " + LinesFile}
	if got := did[created:min(created+len(want), len(did))]; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}

// TestFaults: each change fails in turn, with nothing or half of a write done, and with the process going on or as
// good as dead. Whatever was acknowledged is there, and the next process goes on.
func TestFaults(t *testing.T) {
	for _, k := range []breaker{{}, {torn: true}, {dead: true}, {torn: true, dead: true}} {
		for at := 0; ; at++ {
			k := k
			k.at = at
			dir := filepath.Join(t.TempDir(), "threads", thread)
			o := options()
			o.Hook = k.hook
			var acked []Position
			err := begin(dir, o, func(p Position) { acked = append(acked, p) })
			if (err != nil) != (k.broke != "") || err != nil && !errors.Is(err, errBroken) {
				t.Fatalf("%+v: %v", k, err)
			}
			sound(t, fmt.Sprintf("%+v", k), dir, acked)
			if k.broke == "" {
				if at < 20 {
					t.Errorf("only %d changes", at)
				}
				break
			}
		}
	}
}

// TestGoesOn: after a write that failed and was taken back the same writer goes on; after a sync that failed it
// doesn't.
func TestGoesOn(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		for _, large := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "t")
			o := options()
			fails := ""
			o.Hook = func(did, path string, b []byte) error {
				if did == fails && (filepath.Base(path) == PayloadsFile) == large {
					fails = ""
					return errBroken
				}
				return nil
			}
			w, err := Create(dir, thread, started(), driver(1, nil), o)
			must(t, err)
			p := Artifact{Call: "a", Media: "text/plain", Content: string(make([]byte, 5000)), Digest: sum("a")}
			_, err = w.Append(p)
			must(t, err)
			fails = op
			if _, err := w.Append(p); !errors.Is(err, errBroken) {
				t.Error(err)
			}
			_, err = w.Append(p)
			if (err == nil) != (op == "write") {
				t.Errorf("after a failed %s: %v", op, err)
			}
			must(t, w.Close())
			if _, err := w.Append(p); !errors.Is(err, fs.ErrClosed) {
				t.Error(err)
			}
			finish(t, dir)
		}
	}
}

// child writes until it has made so many changes of files, then kills itself, perhaps in the middle of a write.
func child(dir string, at int, torn bool) {
	k := breaker{at: at, torn: torn}
	o := options()
	o.Hook = func(op, path string, b []byte) error {
		if err := k.hook(op, path, b); err != nil {
			p, _ := os.FindProcess(os.Getpid())
			p.Kill()
			select {}
		}
		return nil
	}
	err := begin(dir, o, func(p Position) { fmt.Println(p.Seq, p.Digest) })
	if err != nil {
		fmt.Println("error", err)
	}
	fmt.Println("done")
	os.Exit(0)
}

// TestKilled kills a process at each change of a file.
func TestKilled(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	must(t, err)
	step := 1
	if testing.Short() { // the process has one goroutine: with the race detector every third change is enough
		step = 3
	}
	for _, torn := range []string{"", "1"} {
		for at, done := 0, false; !done; at += step {
			dir := filepath.Join(t.TempDir(), "threads", thread)
			c := exec.Command(program)
			c.Env = []string{"RYE_TEST_TRANSCRIPT=" + dir, fmt.Sprintf("RYE_TEST_AT=%d", at), "RYE_TEST_TORN=" + torn}
			out, _ := c.Output()
			var acked []Position
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				var p Position
				var digest string
				if lines.Text() == "done" {
					done = true
				} else if _, err := fmt.Sscan(lines.Text(), &p.Seq, &digest); err != nil {
					t.Fatalf("%s", out)
				} else if p.Digest, err = cas.ParseDigest(digest); err != nil {
					t.Fatal(err)
				}
				if !done {
					acked = append(acked, p)
				}
			}
			sound(t, fmt.Sprintf("killed at %d, torn %q", at, torn), dir, acked)
			if done && at < 20 {
				t.Errorf("only %d changes", at)
			}
		}
	}
}

// What a machine that died leaves is cut; what can't be its doing isn't continued.
func TestTails(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "t")
	must(t, begin(whole, options(), func(Position) {}))
	lines, payloads := read(t, whole, LinesFile), read(t, whole, PayloadsFile)
	zeros := string(make([]byte, 3*MaxLine))
	all := bytes.SplitAfter(lines, []byte("\n"))
	last := string(all[len(all)-2])
	for _, c := range []struct {
		name, lines, payloads string
		kind                  string // "": it goes on
	}{
		{"half a line", `{"payload":{"a`, "", ""},
		{"a line without LF", last[:len(last)-1], "", ""},
		{"NUL", zeros[:100], "", ""},
		{"much NUL", zeros, "", ""},
		{"half a line and NUL", `{"payload":` + zeros[:5000] + "\n" + zeros[:20], "", ""},
		{"much NUL, LF", zeros + "\n", "", ""},
		{"payloads of no line", "", "{}\n", ""},
		{"NUL in payloads", "", zeros, ""},
		{"a few NUL and LF", zeros[:8] + "\n", "", Edited},
		{"text and LF", "x\n", "", Edited},
		{"an empty line", "\n", "", Edited},
		{"a long line", string(bytes.Repeat([]byte("x"), 3*MaxLine)), "", Edited},
		{"a long line with its end", string(bytes.Repeat([]byte("x"), MaxLine)) + "\n", "", Edited},
		{"NUL and a line", zeros[:100] + "\n" + last, "", Edited},
		{"much NUL and a line", zeros + "\n" + last, "", Edited},
		{"the last line again", last, "", Reordered},
	} {
		dir := filepath.Join(t.TempDir(), "t")
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, LinesFile), append(bytes.Clone(lines), c.lines...), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, PayloadsFile), append(bytes.Clone(payloads), c.payloads...), 0o600))
		if c.kind == "" {
			n := 0
			for _, err := range Read(dir) {
				must(t, err)
				n++
			}
			if r := verify(t, dir, Check{Keys: []key.Public{own.Public()}, Unfinished: true}); n != len(all)-1 ||
				r.Problem != nil || !r.Torn {
				t.Errorf("%s: %d events, %v %v", c.name, n, r.Problem, r.Torn)
			}
			sound(t, c.name, dir, nil)
			continue
		}
		_, err := Open(dir, driver(2, nil), options())
		if p, ok := errors.AsType[*Problem](err); !ok || p.Kind != c.kind || p.Line != int64(len(all)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !bytes.Equal(read(t, dir, LinesFile), append(bytes.Clone(lines), c.lines...)) {
			t.Errorf("%s: changed", c.name)
		}
	}
	// Acknowledged payloads that are gone aren't a torn end.
	must(t, os.Truncate(filepath.Join(whole, PayloadsFile), 100))
	if _, err := Open(whole, driver(2, nil), options()); err == nil || fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
}
