package v1

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// Keys are the trusted keys.
type Keys []key.Public

// candidates returns the keys with an id of rye 1.
func (k Keys) candidates(id string) (found []key.Public) {
	for _, p := range k {
		if p.V1ID() == id {
			found = append(found, p)
		}
	}
	return found
}

var base64v1 = base64.URLEncoding.Strict()

// signer returns the trusted key that signed hexadecimal digits.
func (k Keys) signer(id, digits, sig string) (key.Public, error) {
	found := k.candidates(id)
	if len(found) == 0 {
		return key.Public{}, fault.New(fault.UntrustedKey,
			"signed by the untrusted key %.16s", id)
	}
	b, err := base64v1.DecodeString(sig)
	for _, p := range found {
		if err == nil && p.Verify([]byte(digits), b) {
			return p, nil
		}
	}
	return key.Public{}, fault.New(fault.SignatureInvalid, "invalid signature by the key %s", id)
}

// Verify reads a transcript and checks its checkpoints. A problem is in the report; the error is for unreadable
// input. The status comes from the last event, which no checkpoint proves.
func Verify(ctx context.Context, from io.Reader, keys Keys) (*transcript.Report, error) {
	verifier := &verifier{keys: keys, r: NewReader(from), models: map[string]int64{}, tools: map[string]int64{},
		report: transcript.Report{
			Format: Format, Status: transcript.StatusUnfinished, Machines: []transcript.Machine{}}}
	var err error
	for err == nil {
		var e *Event
		if e, err = verifier.r.Next(); err == nil {
			err = errors.Join(verifier.event(e), context.Cause(ctx))
		}
	}
	if err == io.EOF {
		err = verifier.atEnd()
	}
	verifier.report.Torn, verifier.report.Thread = verifier.r.Torn, verifier.r.thread
	verifier.lists()
	if p, ok := errors.AsType[*transcript.Problem](err); ok {
		verifier.report.Problem, err = p, nil
	}
	return &verifier.report, err
}

type verifier struct {
	keys          Keys
	r             *Reader
	report        transcript.Report
	models, tools map[string]int64
	pending       []func() // counts since the last checkpoint
	turns         int64
}

// maxNames bounds the distinct names of a report.
const maxNames = 1000

func count(m map[string]int64, name string) {
	if _, ok := m[name]; !ok && len(m) >= maxNames {
		name = "others"
	}
	m[name]++
}

func (v *verifier) event(event *Event) error {
	report := &v.report
	if report.Lines++; report.Lines == 1 {
		report.Began = event.Time
	}
	report.Ended = event.Time
	report.Unsigned++
	switch event.Type {
	case "checkpoint":
		return v.checkpoint(event)
	case "cognition_in":
		v.turns++
	case "cognition_out":
		v.later(func(name string) { count(v.models, name) }, event.text("model"))
	case "tool_call_start":
		v.later(func(name string) { report.Calls++; count(v.tools, name) }, event.text("tool"))
	case "thread_completed":
		report.Status = transcript.StatusCompleted
	case "thread_error":
		report.Status = transcript.StatusError
	case "thread_cancelled":
		report.Status = transcript.StatusCancelled
	case "thread_continued":
		report.Status = transcript.StatusContinued
	}
	return nil
}

// later delays a count until a checkpoint proves it. Unproven events aren't counted.
func (v *verifier) later(do func(string), name string) {
	if len(v.pending) < 1<<16 {
		name = strings.Clone(strings.ToValidUTF8(name[:min(len(name), 200)], ""))
		v.pending = append(v.pending, func() { do(name) })
	}
}

func (v *verifier) checkpoint(e *Event) error {
	digits := hex.EncodeToString(v.r.before.Sum(nil))
	switch at, ok := e.Payload["byte_offset"].(float64); {
	case !ok || int64(at) != v.r.offset:
		return v.r.problem(transcript.Edited, "the checkpoint covers %v bytes, but follows %d",
			e.Payload["byte_offset"], v.r.offset)
	case e.text("hash") != digits:
		return v.r.problem(transcript.Edited,
			"the lines before it don't match the checkpoint: sha256:%s, found sha256:%s", e.text("hash"), digits)
	}
	public, err := v.keys.signer(e.text("fp"), digits, e.text("sig"))
	if err != nil {
		kind := transcript.Forged
		if fault.CodeOf(err) == fault.UntrustedKey {
			kind = transcript.Untrusted
		}
		return v.r.problem(kind, "%v", err)
	}
	for _, do := range v.pending {
		do()
	}
	r := &v.report
	v.pending, r.Turns, r.Unsigned = nil, v.turns, 0
	r.Checkpoints++
	i := slices.IndexFunc(r.Machines, func(m transcript.Machine) bool { return m.Key == public })
	if i < 0 {
		i = len(r.Machines)
		r.Machines = append(r.Machines, transcript.Machine{Key: public, By: public})
	}
	r.Machines[i].Checkpoints++
	return nil
}

func (v *verifier) atEnd() error {
	switch {
	case v.report.Lines == 0:
		return v.r.problem(transcript.Unsigned, "the transcript is empty")
	case v.report.Checkpoints == 0 && v.turns > 0:
		return v.r.problem(transcript.Unsigned, "no checkpoint: nothing of it is signed")
	}
	return nil
}

func (v *verifier) lists() {
	v.report.Models, v.report.Tools = []transcript.ModelUse{}, []transcript.ToolUse{}
	for _, name := range sorted(v.models) {
		v.report.Models = append(v.report.Models, transcript.ModelUse{Model: name, Calls: v.models[name]})
	}
	for _, name := range sorted(v.tools) {
		v.report.Tools = append(v.report.Tools, transcript.ToolUse{Item: transcript.Item{Ref: name},
			Calls: v.tools[name]})
	}
}

var signature = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^rye:signed:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z:([a-f0-9]{64}):([A-Za-z0-9_-]{86}==):([a-f0-9]{16})$`)
})

// VerifyThread checks the signature of a thread.json, and returns the thread's status in it and the signer.
func VerifyThread(b []byte, keys Keys) (status string, by key.Public, err error) {
	if _, err := jcs.Parse(b); err != nil {
		return "", key.Public{}, fault.New(fault.Parsing, "%v", err).From(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return "", key.Public{}, fault.New(fault.Parsing, "%v", err).From(err)
	}
	text, _ := object["_signature"].(string)
	match := signature().FindStringSubmatch(text)
	if match == nil {
		return "", key.Public{}, fault.New(fault.Unsigned, "no signature of rye 1")
	}
	delete(object, "_signature")
	sum := sha256.Sum256(appendPython(nil, object))
	digits := hex.EncodeToString(sum[:])
	if digits != match[1] {
		return "", key.Public{}, fault.New(fault.Integrity,
			"changed after it was signed: expected sha256:%s, found sha256:%s", match[1], digits)
	}
	status, _ = object["status"].(string)
	by, err = keys.signer(match[3], digits, match[2])
	return status, by, err
}

// appendPython writes a value like Python's json.dumps with sorted keys, the shortest separators and ASCII only.
func appendPython(data []byte, given any) []byte {
	switch val := given.(type) {
	case nil:
		return append(data, "null"...)
	case bool:
		return strconv.AppendBool(data, val)
	case json.Number:
		return append(data, val...)
	case string:
		return appendText(data, val)
	case []any:
		data = append(data, '[')
		for i, e := range val {
			if i > 0 {
				data = append(data, ',')
			}
			data = appendPython(data, e)
		}
		return append(data, ']')
	}
	data = append(data, '{')
	m := given.(map[string]any)
	for i, name := range sorted(m) {
		if i > 0 {
			data = append(data, ',')
		}
		data = appendPython(append(appendText(data, name), ':'), m[name])
	}
	return append(data, '}')
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func appendText(data []byte, s string) []byte {
	const digits = "0123456789abcdef"
	data = append(data, '"')
	for _, r := range s {
		switch i := bytes.IndexByte([]byte("\"\\\b\t\n\f\r"), byte(r)); {
		case r < 0x80 && i >= 0:
			data = append(data, '\\', `"\btnfr`[i])
		case ' ' <= r && r < 0x7f:
			data = append(data, byte(r))
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				data = append(data, '\\', 'u', digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
			}
		}
	}
	return append(data, '"')
}
