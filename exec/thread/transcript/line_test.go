package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// all has a payload of each type.
func all() []Payload {
	f := &Fault{Code: "TIMEOUT", Message: "late"}
	return []Payload{started(), Driver{Epoch: 2, Key: own.Public(), Voucher: json.RawMessage(`{"a":1}`)},
		turns()[0][0], turns()[2][0], turns()[1][0], turns()[2][1],
		CallResult{Call: "c", Status: CallUnknown, Error: f},
		Artifact{Call: "c", Digest: sum("x"), Media: "text/plain", Content: "x"},
		Hook{ID: "h", Event: "error", Error: f},
		Limit{Code: "context", Current: 0.95, Max: 1, Action: "handoff"},
		Waiting{State: "interrupted", Reason: "budget", On: "a-1", Call: "c",
			Until: "2026-11-20T13:00:00.000Z", Error: f},
		Continued{Principal: "ann", Message: "Go on.",
			Limits: &Limits{Turns: new(int64(40)), Tokens: new(int64(1)), Spawns: new(int64(0)),
				Duration: new(int64(3))}}, Checkpoint{Turn: 1,
			Sig: sigPlaceholder}, completed(), Failed{Error: *f, Cost: Cost{}},
		Cancelled{By: "ann", Reason: "enough", Killed: true, Cost: Cost{Below: 1, Elapsed: 2}},
		HandedOff{Next: "acme/x-1-abcde", Reason: "context", Cost: Cost{}},
		NodeStarted{Step: 1, Node: "fetch", Kind: "action", Attempt: 2},
		NodeResult{Step: 1, Node: "fetch", Status: "error", Next: "mend", Calls: 2, Error: f, Cause: "expired"},
		State{Step: 1, Next: "mend", Digest: sum("x"), State: map[string]any{"a": 1.0}, Same: true},
		Returned{Step: 2, Node: "done", Digest: sum("x")}}
}

func TestTypes(t *testing.T) {
	var types []Type
	for _, p := range all() {
		types = append(types, p.Type())
		if s, ok := p.(Started); ok {
			s.Format = Format
			p = s
		}
		e, err := encode(p)
		if err != nil {
			t.Errorf("%s: %v", p.Type(), err)
			continue
		}
		e.Seq, e.Thread, e.Time = 1, thread, noon
		again, err := parseLine(e.appendLine(nil))
		if err != nil {
			t.Errorf("%s: %v", p.Type(), err)
			continue
		}
		says, err := again.Says()
		if err != nil {
			t.Errorf("%s: %v", p.Type(), err)
		}
		second, err := encode(says)
		if err != nil || !bytes.Equal(second.Payload, e.Payload) || reflect.TypeOf(says) != reflect.TypeOf(p) {
			t.Errorf("%s: %s becomes %s, %v", p.Type(), e.Payload, second.Payload, err)
		}
		// No member is unknown to the schema, and none may be more.
		v := map[string]any{"surprise": 1}
		if err := CheckSchema(string(p.Type()), v); err == nil || !strings.Contains(err.Error(), "surprise") {
			t.Errorf("%s: %v", p.Type(), err)
		}
	}
	if want := len(SchemaTypes()); len(types) != want {
		t.Errorf("%d of %d types", len(types), want)
	}
	if !json.Valid(SchemaText()) {
		t.Error("schema.json is no JSON")
	}
}

// TestExamples: every type has an example in the package comment, in canonical form, that its schema allows.
func TestExamples(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	must(t, err)
	digest := "blake3:" + strings.Repeat("0", 64)
	full := strings.NewReplacer("blake3:…", digest, `"cost":{…}`,
		`"cost":{"input_tokens":1,"output_tokens":2,"spend":3,"turns":4}`, "{…}", "{}",
		`"11qY…"`, `"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"`)
	heading := regexp.MustCompile(`^((thread_)?[a-z_]+(, thread_[a-z]+)*)  +[a-z]`)
	var kinds []string
	example, n := "", 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "//\t"), "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			kinds = strings.Split(m[1], ", ")
		}
		if len(kinds) == 0 || example == "" && !strings.HasPrefix(line, "  {") {
			continue
		}
		example += strings.TrimSpace(line)
		text := full.Replace(example)
		if !json.Valid([]byte(text)) {
			continue
		}
		e := &Event{Type: Type(kinds[0])}
		if err := e.setPayload([]byte(text)); err != nil {
			t.Errorf("%s: %v: %s", e.Type, err, text)
		}
		example, kinds = "", kinds[1:]
		n++
	}
	if n != len(SchemaTypes()) || example != "" {
		t.Errorf("%d examples of %d types, %s", n, len(SchemaTypes()), example)
	}
}

func TestParseRefuses(t *testing.T) {
	e, err := encode(Hook{ID: "h", Event: "error"})
	must(t, err)
	e.Seq, e.Thread, e.Time = 7, thread, noon
	good := string(e.appendLine(nil))
	e.Large = &Large{3, sum("x"), 5000}
	large := string(e.appendLine(nil))
	for _, c := range []struct{ of, from, to string }{
		{good, `"seq":7`, `"seq":07`}, {good, `"seq":7`, `"seq":-7`}, {good, `"seq":7`, `"seq":7.0`},
		{good, `"seq":7`, `"seq":+7`}, {good, `"seq":7`, `"sek":7`},
		{good, `"seq":7`, `"seq":99999999999999999999`}, {good, thread, ""}, {good, thread, "../x"},
		{good, thread, "a//b"}, {good, thread, "a b"},
		{good, thread, strings.Repeat("a", maxThread+1)}, {good, thread, `a\u0062`}, {good, "T12:", "T24:"},
		{good, ".123Z", "Z"}, {good, ".123Z", ".1234Z"}, {good, "Z\"", "+00:00\""},
		{good, `"type":"hook"`, `"type":"hock"`}, {good, `"type":"hook"`, `"kind":"hook"`},
		{good, `"time":`, `"tome":`}, {good, `"thread":`, `"throat":`}, {good, `"prev":`, `"prov":`},
		{good, "blake3:0", "blake3:g"}, {good, "blake3:0", "BLAKE3:0"}, {good, `{"payload":{`, `{"payload": {`},
		{good, `{"payload":`, `{"payloed":`}, {good, `"id":"h"`, `"id":"\u0068"`},
		{good, `"id":"h"`, `"id":1`}, {good, `"event":"error",`, ``},
		{good, `{"event":"error","id":"h"}`, `{"id":"h","event":"error"}`}, {good, `{"event":"error","id":"h"}`, `[]`},
		{good, `{"event":"error","id":"h"}`, `{}`}, {good, `"}`, `"} `}, {good, `"}`, `","x":1}`},
		{good, `"id":"h"`, `"id":"` + strings.Repeat("h", MaxInline) + `"`},
		{large, `"at":3`, `"at":-3`}, {large, `"at":3`, `"at":03`}, {large, `"at":3`, `"at":3.5`},
		{large, `"at":3`, `"at":9000000000`}, {large, `"size":5000`, `"size":4096`},
		{large, `"size":5000`, `"size":16777217`}, {large, `"size":5000`, `"size":"x"`},
		{large, `"digest":"blake3:`, `"digest":"sha256:`}, {large, `"at":3`, `"at":3,"b":1`},
		{large, `{"at"`, `["at"`},
	} {
		b := strings.Replace(c.of, c.from, c.to, 1)
		if b == c.of {
			t.Fatalf("%q isn't there", c.from)
		}
		if _, err := parseLine([]byte(b)); err == nil {
			t.Errorf("%s", b)
		}
	}
	for i := range good {
		if _, err := parseLine([]byte(good[:i])); err == nil {
			t.Error("half a line", i)
		}
	}
	for _, s := range []string{good, large} {
		if _, err := parseLine([]byte(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// What is read is what is written.
func FuzzParse(f *testing.F) {
	for _, p := range all() {
		if s, ok := p.(Started); ok {
			s.Format = Format
			p = s
		}
		e, err := encode(p)
		must(f, err)
		e.Seq, e.Thread, e.Time, e.Prev = 3, thread, noon, sum("x")
		if len(e.Payload) < 400 {
			f.Add(e.appendLine(nil))
		}
		e.Large = &Large{1, sum("x"), 5000}
		f.Add(e.appendLine(nil))
		e.Type = "\x8c" + e.Type
		f.Add(e.appendLine(nil))
	}
	f.Add([]byte(`{"payload":{"epoch":2,"key":"iojj3XQJ8ZX9UtstPLpAcspnCb8dlBIb83SIAbQPb1w"},"prev":"` + sum("x").
		String() +
		// no point on the curve
		`","seq":3,"thread":"` + thread + `","time":"2026-11-20T12:00:00.123Z","type":"driver"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseLine(b)
		if err != nil {
			return
		}
		if again := e.appendLine(nil); !bytes.Equal(again, b) || e.Digest != cas.Sum(b) {
			t.Fatalf("%q becomes %q", b, again)
		}
		if v, err := jcs.Canonical(nil, b); err != nil || !bytes.Equal(v, b) {
			t.Fatalf("%q isn't canonical: %v", b, err)
		}
		if e.Large == nil {
			if _, err := e.Says(); err != nil {
				t.Fatalf("%q: %v", b, err)
			}
		}
	})
}

// Whatever a file has, reading it ends with events that follow each other, and without a crash.
func FuzzReader(f *testing.F) {
	dir := write(f, thread, options())
	f.Add(read(f, dir, LinesFile), read(f, dir, PayloadsFile))
	f.Add([]byte("x\n"), []byte{})
	f.Add(make([]byte, 100), []byte{})
	f.Fuzz(func(t *testing.T, lines, payloads []byte) {
		r, err := VerifyReader(t.Context(), NewReader(bytes.NewReader(lines), bytes.NewReader(payloads)),
			Check{Keys: []key.Public{own.Public()}})
		if err != nil && fault.CodeOf(err) != fault.VersionMismatch {
			t.Fatal(err)
		}
		if err == nil && r.Problem == nil && (r.Checkpoints == 0 || r.Status == StatusUnfinished) {
			t.Fatalf("%+v", r)
		}
	})
}

func begun(t testing.TB, o Options) (*Writer, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t")
	w, err := Create(dir, thread, started(), driver(1, nil), o)
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w, dir
}

func TestRefused(t *testing.T) {
	w, dir := begun(t, options())
	before := w.Last()
	call := CallStarted{Call: "c1", Turn: 1, Name: "x", Input: nil}
	request := turns()[0][0].(Request)
	deep := any("x")
	for range 70 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name   string
		events []Payload
		code   fault.Code
		want   string
	}{
		{"a second beginning", []Payload{func() Started { s := started(); s.Format = Format; return s }()},
			fault.Validation, "thread_started is the first event"},
		{"the same epoch", []Payload{Driver{Epoch: 1, Key: own.Public()}}, fault.Validation, "epoch 1 after epoch 1"},
		{"no epoch", []Payload{Driver{Key: own.Public()}}, fault.Validation, "driver: epoch: must be >= 1"},
		{"an answer to nothing", []Payload{Answer{Turn: 1, Attempt: 1}}, fault.Validation,
			"answer without a request: turn 1, attempt 1"},
		{"an answer to another request", []Payload{request, Answer{Turn: 1, Attempt: 2}}, fault.Validation,
			"answer without a request"},
		{"a second answer", []Payload{request, Answer{Turn: 1, Attempt: 1}, Answer{Turn: 1, Attempt: 1}},
			fault.Validation, "answer without a request"},
		{"a call twice", []Payload{call, call}, fault.Validation, "call c1 begins twice"},
		{"an end without a beginning", []Payload{CallResult{Call: "c1", Status: CallOK}}, fault.Validation,
			"call c1 ends without having begun"},
		{"no status", []Payload{call, CallResult{Call: "c1", Status: "fine"}}, fault.Validation,
			"call_result: status: must be one of"},
		{"after the end", []Payload{completed(), call}, fault.Validation,
			"call_started can't follow thread_completed: the thread has ended"},
		{"two ends", []Payload{completed(), completed()}, fault.Validation, "the thread has ended"},
		{"too deep", []Payload{CallStarted{Call: "c1", Turn: 1, Name: "x", Input: deep}}, fault.Validation,
			"nested more than 64 deep"},
		{"too large", []Payload{Artifact{Call: "c1", Digest: sum("x"), Media: "text/plain",
			Content: strings.Repeat("x", MaxPayload)}}, fault.Limit,
			"more than the limit of 16777216"},
		{"a number too large", []Payload{request, Answer{Turn: 1, Attempt: 1, Cost: 1<<53 + 1}}, fault.Validation,
			"2^53"},
		{"what isn't JSON", []Payload{Hook{ID: "h", Event: "e", Result: func() {}}}, fault.Validation,
			"hook: json: unsupported type"},
		{"not an object", []Payload{notObject{}}, fault.Validation, "the payload is not an object"},
		{"an unknown type", []Payload{unknown{}}, fault.Validation, `unknown type of event "node_stopped"`},
	} {
		if _, err := w.Append(c.events...); err == nil || fault.CodeOf(err) != c.code ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if w.Last() != before {
			t.Fatalf("%s: appended", c.name)
		}
	}
	if _, err := w.Append(); err != nil {
		t.Error(err)
	}
	if events, err := w.Append(call); err != nil || events[0].Seq != 3 || len(w.order.open) != 1 {
		t.Error(events, err)
	}
	if _, err := Create(dir, thread, started(), driver(1, nil), options()); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if _, err := Create(filepath.Join(dir, "x"), "no id!", started(), driver(1, nil), options()); err == nil {
		t.Error("no id")
	}
	if _, err := Create(filepath.Join(dir, "y"), thread, Started{}, driver(1, nil), options()); err == nil ||
		!strings.Contains(err.Error(), "thread_started: ") {
		t.Error(err)
	}
}

type notObject []int

func (notObject) Type() Type { return TypeHook }

type unknown struct{}

func (unknown) Type() Type { return "node_stopped" }

// TestCalls: so many calls run at once, and no more.
func TestCalls(t *testing.T) {
	w, _ := begun(t, options())
	var events []Payload
	for i := range maxOpen {
		events = append(events, CallStarted{Call: fmt.Sprint("c", i), Turn: 1, Name: "x", Input: i})
	}
	_, err := w.Append(events...)
	must(t, err)
	if _, err := w.Append(CallStarted{Call: "more", Turn: 1, Name: "x"}); err == nil || !strings.Contains(err.Error(),
		"more than 1024 calls run in parallel") {
		t.Error(err)
	}
	_, err = w.Append(CallResult{Call: "c7", Status: CallOK}, CallStarted{Call: "more", Turn: 1, Name: "x"})
	must(t, err)
}

// TestFull: the last lines are kept for how a thread ends, and no file grows without bound.
func TestFull(t *testing.T) {
	w, _ := begun(t, options())
	w.last.Seq = MaxLines - endLines
	if _, err := w.Append(Hook{ID: "h", Event: "e"}); err == nil || fault.CodeOf(err) != fault.Limit {
		t.Error(err)
	}
	_, err := w.Append(completed(), Checkpoint{Turn: 1})
	must(t, err)
	w.last.Seq = MaxLines
	if _, err := w.Append(Checkpoint{Turn: 1}); err == nil || fault.CodeOf(err) != fault.Limit {
		t.Error(err)
	}
	w, _ = begun(t, options())
	w.large = MaxPayloads - 5000
	if _, err := w.Append(Artifact{Call: "c", Digest: sum("x"), Media: "text/plain",
		Content: strings.Repeat("x", 6000)}); err == nil ||
		fault.CodeOf(err) != fault.Limit {
		t.Error(err)
	}
}

// TestGuard: a driver that has lost the thread writes nothing.
func TestGuard(t *testing.T) {
	o := options()
	lost, held := false, 0
	o.Guard = func() (func(), error) {
		if lost {
			return nil, fault.New(fault.Conflict, "another process drives the thread")
		}
		held++
		return func() { held-- }, nil
	}
	o.Hook = func(string, string, []byte) error {
		if held != 1 && held != 0 {
			t.Error(held)
		}
		return nil
	}
	w, dir := begun(t, o)
	_, err := w.Append(Hook{ID: "h", Event: "e"})
	must(t, err)
	lost = true
	if _, err := w.Append(Hook{ID: "h", Event: "e"}); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if _, err := Open(dir, driver(2, nil), o); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if _, err := Create(filepath.Join(dir, "x"), thread, started(), driver(1, nil),
		o); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	lost = false
	if held != 0 || w.Last().Seq != 3 {
		t.Error(held, w.Last())
	}
	// Without one, what another has written is seen.
	other, err := Open(dir, driver(2, nil), options())
	must(t, err)
	defer other.Close()
	if _, err := w.Append(Hook{ID: "h", Event: "e"}); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	dir := write(t, thread, options())
	if _, err := Open(dir, driver(2, nil), options()); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(dir, "x"), driver(2, nil), options()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	w, dir := begun(t, options())
	checkpoint(t, w)
	must(t, w.Close())
	if _, err := Open(dir, driver(1, nil), options()); err == nil || !strings.Contains(err.Error(),
		"epoch 1 after epoch 1") {
		t.Error(err)
	}
	// A machine goes on with what another has signed only if a user it trusts vouches for that.
	o := options()
	o.Key = eve
	_, err := Open(dir, driver(2, nil), o)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Kind != Untrusted || p.Fault().Code != fault.UntrustedKey {
		t.Error(err)
	}
	vouched := filepath.Join(t.TempDir(), "v")
	w, err = Create(vouched, thread, started(), driver(1, voucherOf(t, own)), options())
	must(t, err)
	checkpoint(t, w)
	must(t, w.Close())
	o.Trust = []key.Public{user.Public()}
	w, err = Open(vouched, driver(2, voucherOf(t, eve)), o)
	must(t, err)
	_, err = w.Append(completed(), Checkpoint{Turn: 1})
	must(t, err)
	reports(t, w)
	must(t, w.Close())
	if r := verify(t, vouched, Check{Keys: o.Trust}); r.Problem != nil || len(r.Machines) != 2 {
		t.Errorf("%+v", r)
	}
}

// A reader goes on when the writer does.
func TestFollow(t *testing.T) {
	w, dir := begun(t, options())
	r, err := OpenReader(dir)
	must(t, err)
	defer r.Close()
	next := func() []Type {
		var types []Type
		for {
			e, err := r.Next()
			if err == io.EOF {
				return types
			}
			must(t, err)
			types = append(types, e.Type)
		}
	}
	if got := next(); len(got) != 2 {
		t.Error(got)
	}
	_, err = w.Append(Artifact{Call: "c", Digest: sum("x"), Media: "text/plain", Content: strings.Repeat("x", 1<<20)},
		Hook{ID: "h", Event: "e"})
	must(t, err)
	if got := fmt.Sprint(next()); got != "[artifact hook]" {
		t.Error(got)
	}
}

// Many goroutines append to one transcript.
func TestTogether(t *testing.T) {
	w, dir := begun(t, options())
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for n := range 5 {
				call := fmt.Sprintf("c%d-%d", i, n)
				if _, err := w.Append(CallStarted{Call: call, Turn: 1, Name: "x"}); err != nil {
					t.Error(err)
				}
				if _, err := w.Append(CallResult{Call: call, Status: CallOK}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	_, err := w.Append(completed(), Checkpoint{Turn: 1})
	must(t, err)
	if r := verify(t, dir, Check{Keys: []key.Public{own.Public()}}); r.Problem != nil || r.Calls != 100 ||
		r.Lines != 204 {
		t.Errorf("%+v", r)
	}
}

func TestFormats(t *testing.T) {
	dir := write(t, thread, options())
	b := bytes.Replace(read(t, dir, LinesFile), []byte(Format), []byte("rye transcript/3"), 1)
	must(t, os.WriteFile(filepath.Join(dir, LinesFile), b, 0o600))
	if _, err := Verify(t.Context(), dir, Check{}); fault.CodeOf(err) != fault.VersionMismatch {
		t.Error(err)
	}
	for _, err := range Read(dir) {
		if fault.CodeOf(err) != fault.VersionMismatch {
			t.Error(err)
		}
	}
	for _, err := range Read(filepath.Join(dir, "x")) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	for kind, code := range map[string]fault.Code{Forged: fault.SignatureInvalid, Unsigned: fault.Unsigned,
		Edited: fault.Integrity} {
		if f := (&Problem{3, kind, "x"}).Fault(); f.Code != code || f.Error() != "line 3: x" {
			t.Errorf("%+v", f)
		}
	}
}

// TestEnds: each way to end gives its status, once it is signed.
func TestEnds(t *testing.T) {
	for status, p := range map[string]Payload{StatusCompleted: completed(),
		StatusError: Failed{Error: Fault{Code: "TIMEOUT"}}, StatusCancelled: Cancelled{By: "ann"},
		StatusKilled: Cancelled{Killed: true}, StatusContinued: HandedOff{Next: "acme/x-1-abcde"}} {
		w, dir := begun(t, options())
		checkpoint(t, w)
		_, err := w.Append(p)
		must(t, err)
		c := Check{Keys: []key.Public{own.Public()}}
		if r := verify(t, dir, c); r.Problem == nil || r.Problem.Kind != Unfinished || r.Status != StatusUnfinished ||
			r.Unsigned != 1 {
			t.Errorf("%s, not signed: %+v", status, r)
		}
		checkpoint(t, w)
		if r := verify(t, dir, c); r.Problem != nil || r.Status != status {
			t.Errorf("%s: %+v", status, r)
		}
	}
}
