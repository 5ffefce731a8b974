package parse

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/value"
)

// An element is an XML element of a directive.
type element struct {
	name   string
	at     value.Pos
	attrs  []attribute
	text   []byte // without the text of child elements
	textAt value.Pos
	kids   []*element
}

type attribute struct {
	name    string
	at      value.Pos
	value   string
	valueAt value.Pos
}

func (e *element) attr(name string) *attribute {
	for i := range e.attrs {
		if e.attrs[i].name == name {
			return &e.attrs[i]
		}
	}
	return nil
}

func (e *element) kid(name string) *element {
	for _, kid := range e.kids {
		if kid.name == name {
			return kid
		}
	}
	return nil
}

// words returns an element's own text, without the space around it.
func (e *element) words() *value.Value {
	at := e.textAt
	if at == (value.Pos{}) {
		at = e.at
	}
	return text(at, strings.TrimSpace(string(e.text)))
}

// A xmlReader makes the tree. It takes single tokens from the decoder and matches tags itself. So it can report which
// tag is open where, continue after malformed XML, and skip content that isn't XML.
type xmlReader struct {
	*file
	bare      bool // text may follow the element
	d         *xml.Decoder
	base, to  int // offsets of the decoder's input
	stack     []*element
	root      *element
	end       int  // offset after the root element
	cut       bool // the text continues after the input
	failed    int  // offset of the last malformed XML
	count     int
	lost      bool // a tag was unreadable or unmatched, so further mismatches mean nothing
	templates *object
	opaque    map[string]int
}

func (f *file) readXML(from, to int, bare bool) *xmlReader {
	xmlReader := &xmlReader{file: f, bare: bare, to: to, end: to, failed: -1, templates: newObject(f.at(from)),
		opaque: map[string]int{}}
	if to-from > maxMeta {
		xmlReader.cut = true
		for xmlReader.to = from + maxMeta; !utf8.RuneStart(f.text[xmlReader.to]); xmlReader.to-- {
		}
	}
	xmlReader.restart(from)
	for len(f.problems) < maxProblems && xmlReader.next() {
	}
	if xmlReader.cut && (!bare || xmlReader.root == nil || len(xmlReader.stack) > 0) {
		f.problem(f.at(from), "", "the XML has more than the %d bytes that are read", maxMeta)
		xmlReader.lost = true
	}
	if n := len(xmlReader.stack); n > 0 && !xmlReader.lost {
		open := xmlReader.stack[n-1]
		xmlReader.problem(open.at, "", "<%s> has no end tag </%s>", clip(open.name), clip(open.name))
	}
	return xmlReader
}

// restart continues at an offset, with the same open elements.
func (x *xmlReader) restart(off int) {
	x.base = off
	x.d = xml.NewDecoder(strings.NewReader(x.text[off:x.to]))
}

func (x *xmlReader) offset() int { return x.base + int(x.d.InputOffset()) }

// next reads a token, and reports whether more may follow.
func (x *xmlReader) next() bool {
	start := x.offset()
	token, err := x.d.RawToken()
	if err == io.EOF {
		return false
	}
	if err != nil {
		return x.resume(start, err)
	}
	switch t := token.(type) {
	case xml.StartElement:
		return x.begin(start, t)
	case xml.EndElement:
		return x.finish(start, t)
	case xml.CharData:
		x.characters(start, t)
	case xml.Directive:
		x.problem(x.at(start), "", "document types aren't read")
	}
	return true
}

// resume reports malformed XML and continues at the next tag.
func (x *xmlReader) resume(start int, err error) bool {
	x.lost = x.lost || x.text[start] == '<'
	stop := max(x.offset()-1, start)
	message := clip(strings.TrimPrefix(err.Error(), "xml: "))
	if syntax := (*xml.SyntaxError)(nil); errors.As(err, &syntax) {
		message = clip(syntax.Msg)
	}
	at := stop
	switch {
	case message == "unexpected EOF" && x.cut:
		return false
	case message == "unexpected EOF":
		x.problem(x.at(start), "", "the XML ends within what begins here")
		return false
	case strings.Contains(message, "CharsetReader"):
		at, message = start, "XML is read in UTF-8 only"
	case strings.Contains(message, "entity"):
		at = start + max(strings.LastIndexByte(x.text[start:stop+1], '&'), 0)
		message = `"&" doesn't begin an entity of XML here: write &amp; for the character`
	}
	if at != x.failed {
		x.problem(x.at(at), "", "%s", message)
	}
	x.failed = at
	if stop == start {
		stop++
	}
	i := strings.IndexByte(x.text[stop:x.to], '<')
	if i < 0 {
		return false
	}
	x.restart(stop + i)
	return true
}

func fullName(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

func (x *xmlReader) begin(start int, startElement xml.StartElement) bool {
	element := &element{name: fullName(startElement.Name), at: x.at(start)}
	if x.count++; x.count > maxElements {
		x.problem(element.at, "", "the XML has more than %d elements", maxElements)
		x.lost = true
		return false
	}
	if len(x.stack) >= maxDepth {
		x.problem(element.at, "", "elements stand in each other more than %d deep", maxDepth)
		x.lost = true
		return false
	}
	end := x.offset()
	x.attributes(element, start, x.text[start:end], startElement.Attr)
	switch n := len(x.stack); {
	case n > 0:
		up := x.stack[n-1]
		up.kids = append(up.kids, element)
	case x.root == nil:
		x.root = element
	default:
		x.problem(element.at, "", "a second element <%s> follows <%s>", clip(element.name), clip(x.root.name))
	}
	x.stack = append(x.stack, element)
	switch element.name {
	case "template", "example", "raw":
		if x.text[end-2] != '/' {
			return x.skip(element, end)
		}
	}
	return true
}

// skip stores the text up to an end tag unchanged.
func (x *xmlReader) skip(element *element, from int) bool {
	n := x.opaque[element.name]
	x.opaque[element.name]++
	for off := from; ; {
		i := strings.Index(x.text[off:x.to], "</"+element.name)
		if i < 0 {
			x.problem(element.at, "", "<%s> has no end tag </%s>", element.name, element.name)
			x.lost = true
			return false
		}
		off += i
		rest := strings.TrimLeftFunc(x.text[off+2+len(element.name):x.to], unicode.IsSpace)
		if strings.HasPrefix(rest, ">") {
			x.templates.put(&x.report, "templates", "__opaque_"+element.name+"_"+itoa(n)+"__", element.at,
				text(x.at(from), x.text[from:off]))
			x.restart(off)
			return true
		}
		off++
	}
}

// attributes fills in an element's attributes. The decoder has checked them but doesn't report their places.
func (x *xmlReader) attributes(element *element, start int, tag string, attrs []xml.Attr) {
	seen := map[string]bool(nil)
	if len(attrs) > fewKeys {
		seen = make(map[string]bool, len(attrs))
	}
	off := 1 + strings.IndexFunc(tag[1:], func(r rune) bool { return unicode.IsSpace(r) || r == '/' || r == '>' })
	for _, a := range attrs {
		off += leadingSpace(tag[off:])
		made := attribute{name: fullName(a.Name), at: x.at(start + off), value: a.Value}
		off += strings.IndexByte(tag[off:], '=') + 1
		off += leadingSpace(tag[off:])
		made.valueAt = x.at(start + off)
		end := off + 2 + strings.IndexByte(tag[off+1:], tag[off])
		if strings.ContainsAny(a.Value, "\n\t") {
			made.value = oneLine(a.Value, tag[off:end])
		}
		off = end
		if seen[made.name] || seen == nil && element.attr(made.name) != nil {
			x.problem(made.at, "", "the attribute %s stands in <%s> a second time", clip(made.name),
				clip(element.name))
			continue
		}
		if seen != nil {
			seen[made.name] = true
		}
		element.attrs = append(element.attrs, made)
	}
}

// oneLine replaces line ends and tabs in an attribute's value by spaces, as XML requires, except those written as
// &#10; and the like.
func oneLine(value, quoted string) string {
	space := strings.NewReplacer("\n", " ", "\t", " ")
	if !strings.Contains(quoted, "&#") {
		return space.Replace(value)
	}
	t, err := xml.NewDecoder(strings.NewReader("<a b=" + space.Replace(quoted) + "/>")).RawToken()
	if e, ok := t.(xml.StartElement); ok && err == nil && len(e.Attr) == 1 {
		return e.Attr[0].Value
	}
	return value
}

func (x *xmlReader) finish(start int, t xml.EndElement) bool {
	name := fullName(t.Name)
	i := len(x.stack) - 1
	for i >= 0 && x.stack[i].name != name {
		i--
	}
	top := len(x.stack) - 1
	if (i != top || top < 0) && !x.lost {
		if top < 0 || i < 0 && top == 0 {
			x.problem(x.at(start), "", "</%s> ends no element that is open", clip(name))
		} else {
			open := x.stack[top]
			x.problem(x.at(start), "", "</%s> stands where </%s> is missing, for <%s> in line %d", clip(name),
				clip(open.name), clip(open.name), open.at.Line)
		}
	}
	if i < 0 {
		// More likely one of the two tags is misspelt than that this one is superfluous.
		if i = top; i < 1 {
			return true
		}
	}
	closed := x.stack[i]
	x.stack = x.stack[:i]
	if closed == x.root {
		x.end = x.offset()
		return !x.bare
	}
	return true
}

func (x *xmlReader) characters(start int, data xml.CharData) {
	space := len(bytes.Trim(data, " \n\t")) == 0
	n := len(x.stack)
	if n == 0 {
		if !space && !x.lost {
			x.problem(x.at(start+leadingSpace(x.text[start:x.offset()])), "", "text stands outside the element")
		}
		return
	}
	e := x.stack[n-1]
	if !space && e.textAt == (value.Pos{}) {
		e.textAt = x.at(start + leadingSpace(x.text[start:x.offset()]))
	}
	e.text = append(e.text, data...)
}
