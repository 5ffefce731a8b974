package record

import (
	"bytes"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas"
)

// A Line is one line of a journal.
type Line struct {
	At   time.Time // UTC; milliseconds are kept
	Body []byte    // a JSON object, as JCS
	Call string    // the call that it is about; may be empty
	Kind string    // a name
	N    int64     // from 1
	Prev cas.Digest
	Sum  cas.Digest // of the line without this member
}

const (
	digestText = len(`blake3:`) + 2*cas.Size
	sumMember  = `,"sum":"`
	prevMember = `,"prev":"`
	lineMember = `,"line":`
	kindMember = `,"kind":"`
	callMember = `,"call":"`
	atMember   = `{"at":"`
	bodyMember = `","body":`
	sumSuffix  = len(sumMember) + digestText + len(`"}`)
)

// Append appends the line with its LF, and sets Sum.
func (l *Line) Append(b []byte) []byte {
	from := len(b)
	b = l.AppendOpen(b)
	l.Sum = cas.Sum(b[from:])
	b = append(b[:len(b)-1], sumMember...)
	b = l.Sum.Append(b)
	return append(b, '"', '}', '\n')
}

// AppendOpen appends the line without its sum and LF. These bytes are hashed for the sum and by checkpoints.
func (l *Line) AppendOpen(b []byte) []byte {
	b = l.At.AppendFormat(append(b, atMember...), timeForm)
	b = append(append(b, bodyMember...), l.Body...)
	if l.Call != "" {
		b = append(append(append(b, callMember...), l.Call...), '"')
	}
	b = append(append(append(b, kindMember...), l.Kind...), '"')
	b = strconv.AppendInt(append(b, lineMember...), l.N, 10)
	b = l.Prev.Append(append(b, prevMember...))
	return append(b, '"', '}')
}

// Scan reads a line that Append wrote, without LF. l keeps the body, which is part of data. Everything around the body
// has a fixed length or is cut off from the end, so that following a chain needs no JSON parser; Scan doesn't parse
// the body. It changes data temporarily.
func (l *Line) Scan(data []byte) bool {
	open := len(data) - sumSuffix
	if open < 0 || string(data[open:open+len(sumMember)]) != sumMember || string(data[len(data)-2:]) != `"}` {
		return false
	}
	var err error
	if l.Sum, err = cas.ParseDigest(data[open+len(sumMember) : len(data)-2]); err != nil {
		return false
	}
	data[open] = '}'
	found := cas.Sum(data[:open+1])
	data[open] = ','
	rest := data[:open]
	if found != l.Sum || len(rest) < digestText+1 || rest[len(rest)-1] != '"' {
		return false
	}
	rest = rest[:len(rest)-1]
	if l.Prev, err = cas.ParseDigest(rest[len(rest)-digestText:]); err != nil {
		return false
	}
	rest, ok := bytes.CutSuffix(rest[:len(rest)-digestText], []byte(prevMember))
	if !ok || !l.scanNumber(&rest) || !cutText(&rest, kindMember, &l.Kind) {
		return false
	}
	if len(rest) == 0 || rest[len(rest)-1] != '"' {
		l.Call = ""
	} else if !cutText(&rest, callMember, &l.Call) {
		return false
	}
	return l.scanFront(rest)
}

// isName reports whether s can be a kind or a call.
func isName(s []byte) bool {
	for _, c := range s {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 128
}

func (l *Line) scanNumber(rest *[]byte) bool {
	data := *rest
	i := len(data)
	for i > 0 && data[i-1] >= '0' && data[i-1] <= '9' {
		i--
	}
	if len(data)-i == 0 || len(data)-i > 15 || data[i] == '0' {
		return false
	}
	l.N = 0
	for _, c := range data[i:] {
		l.N = 10*l.N + int64(c-'0')
	}
	var ok bool
	*rest, ok = bytes.CutSuffix(data[:i], []byte(lineMember))
	return ok
}

// cutText cuts a member whose value is a name off the end of rest.
func cutText(rest *[]byte, member string, to *string) bool {
	b, ok := bytes.CutSuffix(*rest, []byte{'"'})
	i := bytes.LastIndexByte(b, '"') + 1
	if !ok || !isName(b[i:]) || !bytes.HasSuffix(b[:i], []byte(member)) {
		return false
	}
	*rest = b[:i-len(member)]
	if *to != string(b[i:]) { // often equal to the line before: avoid the copy
		*to = string(b[i:])
	}
	return true
}

func (l *Line) scanFront(b []byte) bool {
	b, ok := bytes.CutPrefix(b, []byte(atMember))
	if !ok || len(b) < len(timeForm)+len(bodyMember)+2 ||
		string(b[len(timeForm):len(timeForm)+len(bodyMember)]) != bodyMember {
		return false
	}
	if l.At, ok = parseTime(b[:len(timeForm)]); !ok {
		return false
	}
	l.Body = b[len(timeForm)+len(bodyMember):]
	return l.Body[0] == '{' && l.Body[len(l.Body)-1] == '}'
}

// parseTime reads a time in timeForm without allocating.
func parseTime(data []byte) (time.Time, bool) {
	field := func(from, to int) (n int) {
		for _, c := range data[from:to] {
			if c < '0' || c > '9' {
				return -1 << 40
			}
			n = 10*n + int(c-'0')
		}
		return n
	}
	year, month, day := field(0, 4), field(5, 7), field(8, 10)
	hour, minute, second, milli := field(11, 13), field(14, 16), field(17, 19), field(20, 23)
	if year < 0 || month < 0 || day < 0 || hour < 0 || minute < 0 || second < 0 || milli < 0 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, milli*1e6, time.UTC)
	// time.Date normalises dates that don't exist, so compare.
	var again [len(timeForm)]byte
	return t, bytes.Equal(t.AppendFormat(again[:0], timeForm), data)
}
