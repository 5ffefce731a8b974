package rollback

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/manifest"
)

// timeForm is the one form of a moment, whole seconds in UTC.
const timeForm = "2006-01-02T15:04:05Z"

// parseTime reads a moment in its one form.
func parseTime(text string) (time.Time, bool) {
	t, _ := time.Parse(timeForm, text) // zero for no time
	return t, t.Format(timeForm) == text
}

const (
	journalFamily = "rye journal rollback/"
	journalHeader = journalFamily + "2\n"

	opSeen   = "seen"   // a position has an id
	opMove   = "move"   // also, the name moves to it
	opForget = "forget" // the name is forgotten
)

// A sum is written as 16 hexadecimal digits. It only has to detect accidental damage.
type sum [8]byte

func sumOf(b []byte) (s sum) {
	d := cas.Sum(b)
	copy(s[:], d[:])
	return s
}

// A record is one line of a journal.
type record struct {
	prev sum // of the line before
	op   string
	Step
}

// append appends the line and returns its sum.
func (r record) append(data []byte) ([]byte, sum) {
	from := len(data)
	data = hex.AppendEncode(data, r.prev[:])
	data = append(append(data, ' '), r.op...)
	data = strconv.AppendQuoteToASCII(append(data, ' '), r.Source)
	data = strconv.AppendQuoteToASCII(append(data, ' '), r.Name)
	if r.op != opForget {
		data = append(append(data, ' '), r.Position...)
		data = r.ID.Append(append(data, ' '))
		data = r.At.AppendFormat(append(data, ' '), timeForm)
	}
	s := sumOf(data[from:])
	data = hex.AppendEncode(append(data, ' '), s[:])
	return append(data, '\n'), s
}

var errRecord = errors.New("not a record")

// parseRecord reads a line that append wrote, without its LF.
func parseRecord(line []byte) (record record, sum sum, err error) {
	rest := string(line)
	prev, rest, _ := strings.Cut(rest, " ")
	if n, err := hex.Decode(record.prev[:], limit(prev, 2*len(record.prev))); err != nil || n != len(record.prev) {
		return record, sum, errRecord
	}
	record.op, rest, _ = strings.Cut(rest, " ")
	for _, field := range []*string{&record.Source, &record.Name} {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return record, sum, errRecord
		}
		if *field, err = strconv.Unquote(quoted); err != nil {
			return record, sum, errRecord
		}
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	switch record.op {
	case opForget:
	case opSeen, opMove:
		var id, at string
		record.Position, rest, _ = strings.Cut(rest, " ")
		id, rest, _ = strings.Cut(rest, " ")
		at, _, _ = strings.Cut(rest, " ")
		var ok bool
		if record.ID, err = cas.ParseDigest(id); err != nil {
			return record, sum, errRecord
		}
		if record.At, ok = parseTime(at); !ok || record.check() != nil {
			return record, sum, errRecord
		}
	default:
		return record, sum, errRecord
	}
	// The checks above are loose. Only the bytes that append writes are accepted.
	again, sum := record.append(nil)
	if !bytes.Equal(again[:len(again)-1], line) {
		return record, sum, errRecord
	}
	return record, sum, nil
}

// limit returns s as bytes, or none if it isn't n bytes long.
func limit(s string, n int) []byte {
	if len(s) != n {
		return nil
	}
	return []byte(s)
}

// check returns nil if a journal can remember the step.
func (s *Step) check() error {
	switch {
	case len(s.Source) > maxSource || !utf8.ValidString(s.Source):
		return fmt.Errorf("%+q is not a source of signed documents", s.Source)
	case s.Name == "" || len(s.Name) > maxName || !utf8.ValidString(s.Name) ||
		strings.ContainsFunc(s.Name, unicode.IsControl):
		return fmt.Errorf("%+q is not a name of signed documents", s.Name)
	case !isPosition(s.Position):
		return fmt.Errorf("%+q is neither a version nor a counter", s.Position)
	case s.ID.IsZero():
		return fmt.Errorf("%q %s has no id", s.Name, s.Position)
	case s.At.Year() < 0 || s.At.Year() > 9999:
		return fmt.Errorf("%q %s: invalid time", s.Name, s.Position)
	}
	return nil
}

const (
	maxSource = 4096 + 100 // a source may be a path
	maxName   = 1000
)

func isPosition(s string) bool {
	_, ok := counter(s)
	return ok || manifest.CheckVersion(s) == nil
}

// counter reads a position that is a counter, not a version.
func counter(s string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// comparePositions orders two versions or two counters. ok is false for one of each.
func comparePositions(a, b string) (order int, ok bool) {
	m, isCounter := counter(a)
	n, both := counter(b)
	switch {
	case isCounter != both:
		return 0, false
	case both:
		return cmp.Compare(m, n), true
	}
	return manifest.CompareVersions(a, b), true
}

// checkHeader returns an error for the first line of a journal in another format.
func checkHeader(first []byte) error {
	if version, ok := bytes.CutPrefix(first, []byte(journalFamily)); ok && string(version) != "2" {
		if _, number := counter(string(version)); number {
			return fault.New(fault.VersionMismatch, "the journal has format %s, expected 2",
				version).Try("rye version")
		}
	}
	return nil
}

// isLine reports whether b is the header or a record.
func isLine(b []byte) bool {
	_, _, err := parseRecord(b)
	return err == nil || string(b)+"\n" == journalHeader
}

// read reads a journal to its end, which may be an incomplete write.
func (m *memory) read(path string, f io.ReaderAt) error {
	var (
		record record
		sum    sum
		format error
		lines  *journal.Reader
	)
	lines = journal.NewReader(f, 0, func(b []byte) bool {
		if lines.Offset == 0 {
			format = checkHeader(b)
			return string(b)+"\n" == journalHeader
		}
		var err error
		record, sum, err = parseRecord(b)
		return err == nil
	})
	for {
		at := lines.Offset
		_, err := lines.Next()
		switch {
		case format != nil:
			return format
		case err == io.EOF && at > 0 && !lines.Continues():
			return nil
		case err == io.EOF || err == journal.ErrDamaged:
			return &journal.DamagedError{Path: path, Offset: at, Reason: journal.ErrDamaged.Error()}
		case err != nil:
			return err
		case at == 0:
			continue
		case record.prev != m.last:
			return &journal.DamagedError{Path: path, Offset: at,
				Reason: "records before it are missing or out of order"}
		}
		m.take(record)
		m.last = sum
	}
}
