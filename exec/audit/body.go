package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// The kinds of lines: first those of the head, then those of segments.
const (
	kindHead       = "head"       // the first line, with the format
	kindMachine    = "machine"    // a key that checkpoints are signed with, and who vouches for it
	kindOpen       = "open"       // a process begins a segment
	kindMark       = "mark"       // the segment has this many lines
	kindCheckpoint = "checkpoint" // a signed mark
	kindPrune      = "prune"      // segments are removed; signed

	kindSegment = "segment" // the first line, with the format
	kindBegin   = "begin"   // a call begins
	kindEnd     = "end"     // a call has ended
	kindAsk     = "ask"     // a request for an approval was made, answered or used
	kindQuery   = "query"   // an agent asks a registry
)

// headName names the head in lists of segments.
const headName = "head"

// format is the format in the first line of a journal.
const format = "rye audit/1"

// newerFormat returns the error for a journal in a format that this version doesn't read.
func newerFormat(found string) error {
	return fault.New(fault.VersionMismatch, "the audit log has the format %+q, expected %q", found,
		format).Try("rye version")
}

func isNewerFormat(err error) bool { return err != nil && fault.CodeOf(err) == fault.VersionMismatch }

// A body is the content of a line that isn't about a call. encoding/json writes it.
type body interface{ check() error }

// encode writes a body that check accepts, as JCS.
func encode(b body) []byte {
	text, err := json.Marshal(b)
	if err == nil {
		text, err = jcs.Canonical(nil, text)
	}
	if err != nil {
		return nil // equal to no line
	}
	return text
}

var errForm = errors.New("invalid line format")

// decode reads a body into b. It compares the bytes with their canonical form, since encoding/json accepts more
// spellings.
func decode(text []byte, b body) error {
	if err := json.Unmarshal(text, b); err != nil {
		return errForm
	}
	if err := b.check(); err != nil {
		return err
	}
	if !bytes.Equal(encode(b), text) {
		return errForm
	}
	return nil
}

// A firstBody is the content of a journal's first line.
type firstBody struct {
	Format  string `json:"format"`
	Program string `json:"program,omitempty"` // only in a segment
	Segment string `json:"segment,omitempty"`
}

func (f *firstBody) check() error {
	if f.Format != format {
		return newerFormat(f.Format)
	}
	if f.Segment == "" && f.Program == "" {
		return nil
	}
	if err := record.CheckText("program", f.Program); err != nil {
		return err
	}
	return checkSegment(f.Segment)
}

// first reads the first line of a journal.
func (f *firstBody) first(l *record.Line, kind string) error {
	if l.Kind != kind || l.N != 1 || !l.Prev.IsZero() || l.Call != "" {
		return fmt.Errorf("the first line must be of kind %q", kind)
	}
	return decode(l.Body, f)
}

// A machineBody has the key of the following checkpoints.
type machineBody struct {
	Key     key.Public      `json:"key"`
	Voucher json.RawMessage `json:"voucher,omitempty"`
}

// maxVoucher bounds a voucher, which every receipt repeats and which must fit into a line.
const maxVoucher = 16 << 10

func (m *machineBody) check() error {
	if m.Voucher == nil {
		return nil
	}
	v, err := jcs.Parse(m.Voucher)
	if _, ok := v.(map[string]any); err != nil || !ok || len(m.Voucher) > maxVoucher {
		return fmt.Errorf("the voucher must be a JSON object of at most %d bytes", maxVoucher)
	}
	return nil
}

// An openBody announces a segment that a process begins.
type openBody struct {
	First   cas.Digest `json:"first"` // the sum of its first line
	Segment string     `json:"segment"`
}

func (o *openBody) check() error { return checkSegment(o.Segment) }

// A markBody records the length of a segment. Checkpoints have it too.
type markBody struct {
	Closed  bool       `json:"closed,omitempty"` // nothing follows
	Last    cas.Digest `json:"last"`             // the sum of the last line
	Lines   int64      `json:"lines"`
	Segment string     `json:"segment"`
	Sig     string     `json:"sig,omitempty"` // only in a checkpoint
}

func (m *markBody) check() error {
	if m.Lines < 1 || m.Lines > 1<<53-1 {
		return fmt.Errorf("invalid line count %d", m.Lines)
	}
	return checkSegment(m.Segment)
}

// A segment is named after the second in which it began, and 16 random hexadecimal digits.
const (
	segmentTime = "20060102T150405Z"
	segmentSize = len(segmentTime) + 1 + 16
)

func checkSegment(s string) error {
	ok := len(s) == segmentSize && s[len(segmentTime)] == '-'
	if ok {
		_, err := time.Parse(segmentTime, s[:len(segmentTime)])
		ok = err == nil
		for _, c := range []byte(s[len(segmentTime)+1:]) {
			ok = ok && (c >= '0' && c <= '9' || c >= 'a' && c <= 'f')
		}
	}
	if !ok {
		return fmt.Errorf("%+q is not a segment name", s)
	}
	return nil
}
