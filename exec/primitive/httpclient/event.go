package httpclient

import (
	"bytes"
	"strings"
)

// An event is one event of a stream.
type event struct{ name, id, data string }

// A parser parses server-sent events as the HTML standard defines them. The bytes may be cut anywhere.
type parser struct {
	line  []byte // incomplete
	data  []byte // of the event, each with its end
	name  string
	id    string // also of later events without their own
	begun bool   // the first line was read
	cr    bool   // the previous byte was a carriage return, perhaps half of an end of line
}

// feed parses more bytes, and calls tell with each complete event.
func (p *parser) feed(data []byte, tell func(event) error) error {
	for len(data) > 0 {
		if p.cr && data[0] == '\n' {
			data = data[1:]
		}
		p.cr = false
		end := bytes.IndexAny(data, "\r\n")
		part := data
		if end >= 0 {
			part, p.cr = data[:end], data[end] == '\r'
		}
		if len(p.line)+len(part)+len(p.data) > MaxEvent {
			return &sizeError{"an event", MaxEvent}
		}
		p.line = append(p.line, part...)
		if end < 0 {
			return nil
		}
		data = data[end+1:]
		e, whole := p.take()
		p.line = p.line[:0]
		if !whole {
			continue
		}
		if err := tell(e); err != nil {
			return err
		}
	}
	return nil
}

// take parses a line, and returns the event that it ends.
func (p *parser) take() (event, bool) {
	line := p.line
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if len(line) == 0 {
		e := event{p.name, p.id, strings.TrimSuffix(string(p.data), "\n")}
		whole := len(p.data) > 0
		p.name, p.data = "", p.data[:0]
		return e, whole
	}
	// A line that begins with a colon is a comment: a field without a name.
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		p.data = append(append(p.data, value...), '\n')
	case "event":
		p.name = string(value)
	case "id":
		if !bytes.Contains(value, []byte{0}) {
			p.id = string(value)
		}
	}
	return event{}, false
}
