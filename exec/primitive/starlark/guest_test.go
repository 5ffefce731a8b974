package starlark

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/primitive/worker"
)

// inProcess runs the guest in this process, and restores the limits that it sets for all of it.
func inProcess(in io.Reader, out io.Writer) int {
	memory := debug.SetMemoryLimit(-1)
	stack := debug.SetMaxStack(maxStack)
	defer func() {
		debug.SetMaxStack(stack)
		debug.SetMemoryLimit(memory)
	}()
	return Guest(in, out)
}

// asking returns a request to run a script, as the guest reads it.
func asking(t *testing.T, text, params string) io.Reader {
	file := filepath.Join(t.TempDir(), "tool.star")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(request{File: file, Function: "main", Params: json.RawMessage(params), Steps: 1000,
		Memory: 4 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
}

// frame returns a frame as the guest writes it.
func frame(kind byte, text string) string {
	if text == "" {
		return ""
	}
	return string(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(text))), text...))
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestGuest(t *testing.T) {
	for _, test := range []struct {
		text, params, out, errs string
	}{
		{"def main(p):\n    print('x', p)\n    return p\n", `{"a": [1, 2.5, true, null, "ä", {}]}`,
			`{"value":{"a":[1,2.5,true,null,"ä",{}]}}`, "x {\"a\": [1, 2.5, True, None, \"ä\", {}]}\n"},
		{"def main(p):\n    fail('no')\n", `{}`, `{"ended":"","reason":"no"}`, ""},
		{"def main(p):\n    for i in range(10000):\n        pass\n", `{}`, `{"ended":"steps","reason":""}`, ""},
		{"def main(p):\n    return ('x' * (1 << 24)).replace('x', 'y' * (1 << 25))\n", `{}`,
			`{"ended":"memory","reason":""}`, ""},
		{"def main(p):\n    return 'x' * (1 << 40)\n", `{}`, `{"ended":"memory","reason":""}`, ""},
		{"def main(p):\n    return [1] * (1 << 31 - 1)\n", `{}`, `{"ended":"memory","reason":""}`, ""},
		{"def main(p):\n    return p\n", `{"a": 1, "a": 2}`,
			`{"ended":"","reason":"json: byte 7: duplicate name \"a\""}`, ""},
		{"def main(p):\n    return set([1])\n", `{}`,
			`{"ended":"","reason":"the result contains a set, which is not a JSON value"}`, ""},
	} {
		var out bytes.Buffer
		status := inProcess(asking(t, test.text, test.params), &out)
		used := frame(worker.Used, strings.Repeat("x", 16))
		before, after, _ := strings.Cut(out.String(), used[:5])
		if got, want := before+after[min(16, len(after)):],
			frame(worker.Err, test.errs)+frame(worker.Value, test.out); status != 0 || got != want {
			t.Errorf("%s: status %d, %q; want %q", test.text, status, got, want)
		}
	}
	var out bytes.Buffer
	if status := inProcess(strings.NewReader("\x00\x00\x00\x01{"), &out); status != 2 ||
		out.Bytes()[0] != worker.Refused {
		t.Errorf("half a request: %d, %q", status, out.String())
	}
	if status := inProcess(asking(t, "def main(p):\n    pass\n", "{}"), closed{}); status != 2 {
		t.Errorf("a closed pipe: %d", status)
	}
	if a := (&request{File: filepath.Join(t.TempDir(), "none", "a.star"),
		Params: json.RawMessage("{}")}).run(io.Discard); a.reason == "" {
		t.Errorf("%+v", a)
	}
}

func TestValues(t *testing.T) {
	if v, err := FromJSON(int64(7)); err != nil || v.String() != "7" {
		t.Errorf("%v, %v", v, err)
	}
	for _, bad := range []any{struct{}{}, []any{struct{}{}}, map[string]any{"a": struct{}{}}} {
		if v, err := FromJSON(bad); err == nil {
			t.Errorf("%v", v)
		}
	}
	// A value that JSON can't hold is a failure.
	if got := string((&end{value: math.Inf(1)}).bytes()); !strings.Contains(got, `"reason"`) {
		t.Error(got)
	}
	for v, want := range map[any]uint64{int64(3): 3, int64(-3): 0, 3.0: 3, 3.5: 0, "3": 0, 1e300: 0} {
		if got := whole(v); got != want {
			t.Errorf("%v is %d", v, got)
		}
	}
	for mode, want := range map[os.FileMode]string{os.ModeDir: "directory", 0: "file", os.ModeSymlink: "link",
		os.ModeSocket: "other"} {
		if got := typeOf(mode); got != want {
			t.Errorf("%v is a %s", mode, got)
		}
	}
}

// FuzzAnswer: every answer of a guest makes a result, and a result with a reason has failed.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"value":1}`, `{"value":{"success":false,"error":"x"}}`,
		`{"reason":"x","ended":"steps"}`, `{"reason":1}`, `{}`, `[]`, `{`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := resultOf([]byte(text))
		if r.Ended != "" && !r.Failed || r.Failure != "" && !r.Failed {
			t.Errorf("%s: %+v", text, r)
		}
	})
}
