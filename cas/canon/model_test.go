package canon_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/rye-build/rye/cas/canon"
)

// document is what a document says, without its bytes: the tests read bytes into it and write it again.
type document struct {
	comments []string
	header   []any // nil, string, int64 or []string
	entries  []entry
}

type entry struct {
	section int
	key     string
	fields  []any
}

func texts(in [][]byte) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = string(in[i])
	}
	return out
}

func read(s *canon.Scanner, spec *canon.Spec) (document, error) {
	var d document
	if s.Header() {
		d.comments = texts(s.Comments())
		for i, f := range spec.Header {
			var v any
			switch {
			case !s.HeaderHas(i):
			case f.Type == canon.String:
				v = string(s.HeaderStr(i))
			case f.Type == canon.Int:
				v = s.HeaderInt(i)
			default:
				v = texts(s.HeaderStrs(i))
			}
			d.header = append(d.header, v)
		}
	}
	for s.Scan() {
		e := entry{section: s.Section(), key: string(s.Key())}
		for i, f := range spec.Sections[e.section].Fields {
			var v any
			switch {
			case !s.Has(i):
			case f.Type == canon.String:
				v = string(s.Str(i))
			case f.Type == canon.Int:
				v = s.Int(i)
			default:
				v = texts(s.Strs(i))
			}
			e.fields = append(e.fields, v)
		}
		d.entries = append(d.entries, e)
	}
	return d, s.Err()
}

func readBytes(b []byte, spec *canon.Spec) (document, error) {
	return read(canon.NewScannerBytes(b, spec), spec)
}

func write(e *canon.Encoder, d document) error {
	for i, v := range d.header {
		switch v := v.(type) {
		case string:
			e.HeaderStr(i, v)
		case int64:
			e.HeaderInt(i, v)
		case []string:
			e.HeaderStrs(i, v)
		}
	}
	for _, x := range d.entries {
		e.Begin(x.section, x.key)
		for i, v := range x.fields {
			switch v := v.(type) {
			case string:
				e.Str(i, v)
			case int64:
				e.Int(i, v)
			case []string:
				e.Strs(i, v)
			}
		}
		e.End()
	}
	return e.Close()
}

func writeBytes(d document, spec *canon.Spec) ([]byte, error) {
	var head []byte
	for _, c := range d.comments {
		head = append(append(head, c...), '\n')
	}
	e := canon.NewEncoderBytes(head, spec)
	err := write(e, d)
	return e.Bytes(), err
}

// chunks reads a few bytes at a time, as many as step says, so that lines are cut everywhere.
type chunks struct {
	b    []byte
	step int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(c.step, len(c.b))])
	c.b = c.b[n:]
	return n, nil
}

// mustRewrite fails unless d, written again, is b.
func mustRewrite(t *testing.T, d document, spec *canon.Spec, b []byte) {
	t.Helper()
	got, err := writeBytes(d, spec)
	if err != nil || !bytes.Equal(got, b) {
		t.Fatalf("encoded again:\n%s\n(%v), from\n%s", got, err, b)
	}
}
