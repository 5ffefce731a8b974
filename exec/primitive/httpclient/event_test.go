package httpclient

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// parse reads a stream in pieces of n bytes.
func parse(stream string, n int) (list []event, err error) {
	var p parser
	for piece := range slices.Chunk([]byte(stream), n) {
		if err := p.feed(piece, func(e event) error { list = append(list, e); return nil }); err != nil {
			return list, err
		}
	}
	return list, nil
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   []event
	}{
		{"data: a\n\n", []event{{data: "a"}}},
		{"data:a\n\ndata:  b\n\n", []event{{data: "a"}, {data: " b"}}},
		{"data: a\rdata: b\r\r", []event{{data: "a\nb"}}},
		{"data: a\r\ndata: b\r\n\r\n", []event{{data: "a\nb"}}},
		{"data: a\r\n\rdata: b\n\n", []event{{data: "a"}, {data: "b"}}},
		{"data: YHOO\ndata: +2\ndata: 10\n\n", []event{{data: "YHOO\n+2\n10"}}},
		{": a comment\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n",
			[]event{{"", "1", "first"}, {"", "", "second"}, {"", "", " third"}}},
		{"data\n\ndata\ndata\n\ndata:", []event{{}, {data: "\n"}}},
		{"id: 7\nevent: step\ndata: a\n\ndata: b\n\n", []event{{"step", "7", "a"}, {"", "7", "b"}}},
		{"id: 7\n\nid: a\x00b\ndata: b\n\n", []event{{"", "7", "b"}}},
		{"\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []event{{data: "a"}}},
		{"event: nothing\n\ndata: a\n\n", []event{{data: "a"}}},
		{"retry: 10\nDATA: a\n data: b\nother: c\ndata: [DONE]\n\n", []event{{data: "[DONE]"}}},
		{"data: not ended\n", nil},
		{"data: not ended", nil},
		{"\n\n\r\r\r\n", nil},
		{"", nil},
	} {
		for _, n := range []int{1, 2, 3, 1000} {
			if got, err := parse(c.stream, n); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q by %d: %q, %v; want %q", c.stream, n, got, err, c.want)
			}
		}
	}
}

func TestLongEvent(t *testing.T) {
	long := strings.Repeat("x", MaxEvent-10)
	for stream, good := range map[string]bool{
		"data:" + long + "\n\n":                      true,
		"data:" + long + long[:20]:                   false,
		"data:" + long + "\ndata:1234567890":         false,
		":" + long + "\ndata:" + long + "\n\n":       true,
		"data:" + long + "\n\ndata:" + long + "\n\n": true,
	} {
		size := (*sizeError)(nil)
		if list, err := parse(stream, 4096); errors.As(err, &size) == good || good && (err != nil || len(list) == 0) {
			t.Errorf("%.20q, %d bytes: %d events, %v", stream, len(stream), len(list), err)
		}
	}
}

// FuzzEvents: where a stream is cut doesn't matter, and no event is larger than what was sent.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\r\ndata: b\r\r\nid: 1\n\n", "\uFEFFevent:x\ndata\n\n", ":\n\ndata:{\n\n\r",
		"data: \xff\n\n"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, stream string, n int) {
		all, err := parse(stream, max(1, len(stream)))
		cut, err2 := parse(stream, 1+int(uint(n)%16))
		if !slices.Equal(all, cut) || (err == nil) != (err2 == nil) {
			t.Errorf("%q: %q, %v; cut %q, %v", stream, all, err, cut, err2)
		}
		size := 0
		for _, e := range all {
			size += len(e.data) + len(e.name)
			if strings.ContainsAny(e.name+e.id, "\r\n") || strings.Contains(e.data, "\r") {
				t.Errorf("%q has an end of line in %q", stream, e)
			}
		}
		if size > len(stream) {
			t.Errorf("%d bytes of events in %d", size, len(stream))
		}
	})
}
