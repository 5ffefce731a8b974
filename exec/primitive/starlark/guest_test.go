package starlark

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// guest runs the child in this process, and gives its process the limits back that it had.
func guest(t *testing.T, in io.Reader, out io.Writer) (status int, errs string) {
	memory := debug.SetMemoryLimit(-1)
	stack := debug.SetMaxStack(maxStack)
	defer func() {
		debug.SetMaxStack(stack)
		debug.SetMemoryLimit(memory)
	}()
	var said bytes.Buffer
	status = Guest(in, out, &said)
	return status, said.String()
}

// asking is a request for a script.
func asking(t *testing.T, text, params string) *bytes.Reader {
	file := filepath.Join(t.TempDir(), "tool.star")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(request{File: file, Function: "main", Params: json.RawMessage(params), Steps: 1000, Memory: 4 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b)
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestGuest(t *testing.T) {
	for _, test := range []struct {
		text, params, out, errs string
	}{
		{"def main(p):\n    print('x', p)\n    return p\n", `{"a": [1, 2.5, true, null, "ä", {}]}`, `{"value":{"a":[1,2.5,true,null,"ä",{}]}}`, "x {\"a\": [1, 2.5, True, None, \"ä\", {}]}\n"},
		{"def main(p):\n    fail('no')\n", `{}`, `{"ended":"","reason":"no"}`, ""},
		{"def main(p):\n    for i in range(10000):\n        pass\n", `{}`, `{"ended":"steps","reason":""}`, ""},
		{"def main(p):\n    return ('x' * (1 << 24)).replace('x', 'y' * (1 << 25))\n", `{}`, `{"ended":"memory","reason":""}`, ""},
		{"def main(p):\n    return 'x' * (1 << 40)\n", `{}`, `{"ended":"memory","reason":""}`, ""},
		{"def main(p):\n    return [1] * (1 << 31 - 1)\n", `{}`, `{"ended":"memory","reason":""}`, ""},
		{"def main(p):\n    return p\n", `{"a": 1, "a": 2}`, `{"ended":"","reason":"json: byte 7: the name \"a\" is there twice"}`, ""},
		{"def main(p):\n    return set([1])\n", `{}`, `{"ended":"","reason":"the result has a set in it, which is none of JSON's values"}`, ""},
	} {
		var out bytes.Buffer
		status, errs := guest(t, asking(t, test.text, test.params), &out)
		if status != 0 || out.String() != test.out || errs != test.errs {
			t.Errorf("%s: status %d, %s, %q; want %s, %q", test.text, status, out.String(), errs, test.out, test.errs)
		}
	}
	if status, errs := guest(t, strings.NewReader("{"), io.Discard); status != 2 || !strings.Contains(errs, "the request can't be read") {
		t.Errorf("half a request: %d, %s", status, errs)
	}
	if status, errs := guest(t, asking(t, "def main(p):\n    pass\n", "{}"), closed{}); status != 2 || errs != "nobody reads\n" {
		t.Errorf("nobody reads: %d, %s", status, errs)
	}
	if a := (&request{File: filepath.Join(t.TempDir(), "none", "a.star"), Params: json.RawMessage("{}")}).run(io.Discard); a.reason == "" {
		t.Errorf("%+v", a)
	}
}

// The watch tells of what is too much, once, and ends with what it watches.
func TestWatch(t *testing.T) {
	over := 0
	watch(nil, 1, func() { over++ })
	if over != 1 {
		t.Errorf("%d times", over)
	}
	ended := make(chan struct{})
	close(ended)
	watch(ended, math.MaxInt64, func() { t.Error("over nothing") })
}

func TestValues(t *testing.T) {
	if v, err := given(int64(7)); err != nil || v.String() != "7" {
		t.Errorf("%v, %v", v, err)
	}
	for _, bad := range []any{struct{}{}, []any{struct{}{}}, map[string]any{"a": struct{}{}}} {
		if v, err := given(bad); err == nil {
			t.Errorf("%v", v)
		}
	}
	// What can't be written down is a reason.
	if got := string((&end{value: math.Inf(1)}).bytes()); !strings.Contains(got, `"reason"`) {
		t.Error(got)
	}
	for v, want := range map[any]uint64{int64(3): 3, int64(-3): 0, 3.0: 3, 3.5: 0, "3": 0, 1e300: 0} {
		if got := whole(v); got != want {
			t.Errorf("%v is %d", v, got)
		}
	}
	for mode, want := range map[os.FileMode]string{os.ModeDir: "directory", 0: "file", os.ModeSymlink: "link", os.ModeSocket: "other"} {
		if got := typeOf(mode); got != want {
			t.Errorf("%v is a %s", mode, got)
		}
	}
}

// FuzzAnswer: whatever the child writes makes a result, and what it says of failures holds together.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"value":1}`, `{"value":{"success":false,"error":"x"}}`, `{"reason":"x","ended":"steps"}`, `{"reason":1}`, `{}`, `[]`, `{"stderr":"runtime: out of memory"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		r := resultOf(v)
		if r.Ended != "" && !r.Failed || r.Failure != "" && !r.Failed {
			t.Errorf("%s: %+v", text, r)
		}
	})
}
