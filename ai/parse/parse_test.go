package parse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/goldentest"
)

// parserOf returns the parser that the vectors of a folder are for.
func parserOf(t testing.TB, name string) Parser {
	t.Helper()
	if name == "pattern" {
		return queryPattern(t)
	}
	p, ok := ByName(name)
	if !ok {
		t.Fatalf("no parser %q", name)
	}
	return p
}

func queryPattern(t testing.TB) Parser {
	t.Helper()
	spec, problems := YAML([]byte("fields:\n"+
		"  version: '^-- version: (.*)$'\n"+
		"  title: '^--\\s+titel:(.*)$'\n"+
		"  empty: '^-- empty:(.*)$'\n"+
		"  absent: '^-- absent:(.*)$'\n"+
		"lines: 10\nbody: rest\n"), value.Pos{})
	p, more := Pattern(spec)
	if len(problems)+len(more) > 0 {
		t.Fatal(problems, more)
	}
	return p
}

type vector struct {
	parser, path string
	content      []byte
}

func vectors(t testing.TB) []vector {
	t.Helper()
	var list []vector
	for _, name := range append(Names(), "pattern") {
		paths, err := filepath.Glob(filepath.Join("testdata", "vectors", name, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if filepath.Ext(path) == ".json" {
				continue
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, vector{name, path, content})
		}
	}
	if len(list) < 30 {
		t.Fatalf("only %d vectors", len(list))
	}
	return list
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(filepath.ToSlash(v.path), func(t *testing.T) {
			got := dump(parserOf(t, v.parser).Parse(v.content))
			if !json.Valid(got) {
				t.Fatalf("the dump is no JSON:\n%s", got)
			}
			goldentest.File(t, v.path+".json", got)
		})
	}
}

// Line ends and a byte order mark change neither values nor places.
func TestLineEnds(t *testing.T) {
	for _, v := range vectors(t) {
		p := parserOf(t, v.parser)
		want := p.Parse(v.content)
		for _, end := range []string{"\r\n", "\r"} {
			changed := bytes.ReplaceAll(v.content, []byte("\n"), []byte(end))
			if got := p.Parse(changed); !reflect.DeepEqual(got, want) {
				t.Errorf("%s with %q: got\n%s\nwant\n%s", v.path, end, dump(got), dump(want))
			}
		}
		if got := p.Parse(append([]byte("\ufeff"), v.content...)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s with a byte order mark: got\n%s\nwant\n%s", v.path, dump(got), dump(want))
		}
	}
}

// dump writes a Doc as JSON. A value is "line:column kind text"; keys have their places behind them.
func dump(d *Doc) []byte {
	var b bytes.Buffer
	b.WriteString("{\n \"fields\": ")
	dumpValue(&b, d.Fields, "  ")
	fmt.Fprintf(&b, ",\n \"body\": %s,\n \"problems\": [", quoted(place(d.BodyAt)+" "+d.Body))
	for i, p := range d.Problems {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  " + quoted(told(p)))
	}
	b.WriteString("\n ]\n}\n")
	return b.Bytes()
}

func told(p *value.Problem) string {
	s := place(p.At) + " " + p.Message
	if p.Field != "" {
		s += " [" + p.Field + "]"
	}
	if p.Warning {
		s += " (warning)"
	}
	return s
}

func dumpValue(b *bytes.Buffer, v *value.Value, indent string) {
	head := place(v.At) + " " + v.Kind.String()
	switch v.Kind {
	case value.Map:
		fmt.Fprintf(b, "{\"\": %s", quoted(head))
		for _, e := range v.Map {
			fmt.Fprintf(b, ",\n%s%s: ", indent, quoted(e.Key+" @"+place(e.At)))
			dumpValue(b, e.Value, indent+" ")
		}
		b.WriteByte('}')
	case value.List:
		b.WriteString("[" + quoted(head))
		for _, item := range v.Items {
			b.WriteString(",\n" + indent)
			dumpValue(b, item, indent+" ")
		}
		b.WriteByte(']')
	default:
		b.WriteString(quoted(strings.TrimSpace(head + " " + v.Text)))
	}
}

func place(p value.Pos) string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
