//go:build peers

package parse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/value"
)

const peer = "/usr/bin/python3"

// A reading is what testdata/peers.py says about a text.
type reading struct {
	Found []any
	Error string
}

// ask asks Python about texts of a format.
func ask(t *testing.T, format string, texts []string) []reading {
	t.Helper()
	var in bytes.Buffer
	for _, text := range texts {
		if err := json.NewEncoder(&in).Encode(map[string]string{format: text}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(peer, "-I", "-B", "-X", "utf8", "testdata/peers.py")
	cmd.Stdin = &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	all := make([]reading, len(texts))
	for i := range all {
		if err := dec.Decode(&all[i]); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	return all
}

// disputed are plain scalars that readers of YAML 1.1 and 1.2 read differently; the package comment and
// package scalar say.
var disputed = regexp.MustCompile(`^[-+]?(0o[0-7]+|[0-9._]*[eE][-+]?[0-9]+|.*_.*|\.[0-9]+|0[0-9]+|[0-9]+\.)$`)

// same reports whether a value is what PyYAML found.
func same(v *value.Value, found []any) bool {
	kind := found[0].(string)
	switch kind {
	case "map":
		pairs := found[1].([]any)
		if v.Kind != value.Map || len(v.Map) != len(pairs) {
			return false
		}
		for i, p := range pairs {
			pair := p.([]any)
			if v.Map[i].Key != pair[0] || !same(v.Map[i].Value, pair[1].([]any)) {
				return false
			}
		}
		return true
	case "list":
		items := found[1].([]any)
		if v.Kind != value.List || len(v.Items) != len(items) {
			return false
		}
		for i, item := range items {
			if !same(v.Items[i], item.([]any)) {
				return false
			}
		}
		return true
	}
	text := found[1].(string)
	switch {
	case kind == "str" && v.Kind == value.Text || kind == "timestamp":
		return v.Kind == value.Text && v.Text == text
	case kind == "int" && v.Kind == value.Int:
		return v.Text == found[2]
	case kind == "float" && v.Kind == value.Float:
		a, err := strconv.ParseFloat(v.Text, 64)
		b, err2 := strconv.ParseFloat(found[2].(string), 64)
		return err == nil && err2 == nil && a == b
	case kind == "bool" && v.Kind == value.Bool:
		return v.Text == strings.ToLower(found[2].(string))
	case kind == "null" && v.Kind == value.Null:
		return true
	}
	return disputed.MatchString(text)
}

// A writer makes documents at random.
type writer struct{ *rand.Rand }

var words = []string{"a", "executor_id", "key with space", "x: y", "x #y", "#", "- a", "'", "\"", "\\n", "é", "日本", "",
	" lead", "trail ",
	"true", "no", "null", "~", "12", "-7", "0x1F", "1.5", "12:30", "2026-02-18", "2026-02-18T00:00:00Z", "{a", "[b]",
	"a, b", "a]", "*x", "&x", "!x",
	"%x", "@x", "`x", "|", ">", "line\nline", "line\n\nline\n", "  in\n out", "a\tb", "\ttab", "\u00a0", "=", "<<",
	"?", "? x", ":", ":x", "x:", "-", "---", "..."}

func (w writer) word() string { return words[w.IntN(len(words))] }

func (w writer) scalar(indent string, flow bool) string {
	s := w.word()
	switch w.IntN(6) {
	case 0:
		return "'" + strings.ReplaceAll(strings.ReplaceAll(s, "'", "''"), "\n", "\n\n"+indent+" ") + "'"
	case 1:
		if !flow && s != "" {
			head := []string{"|", "|-", "|+", ">", ">-", ">+", "|2", ">2-"}[w.IntN(8)]
			if strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\t") {
				head = "|2"
			}
			return head + "\n" + indent + "  " + strings.ReplaceAll(s, "\n", "\n"+indent+"  ")
		}
	case 2:
		return w.word()
	}
	b, _ := json.Marshal(s)
	return string(b)
}

func (w writer) value(indent string, depth int, flow bool) string {
	var b strings.Builder
	switch n := w.IntN(5); {
	case depth == 0 || n < 2:
		return " " + w.scalar(indent, flow)
	case n == 2 || flow:
		b.WriteString(" [")
		for range w.IntN(4) {
			if w.IntN(3) == 0 {
				b.WriteString("{" + w.scalar(indent, true) + ":" + w.value(indent, 0, true) + "}, ")
			} else {
				b.WriteString(w.value(indent, depth-1, true) + ",")
			}
		}
		return b.String() + "]"
	case n == 3:
		for range 1 + w.IntN(3) {
			b.WriteString("\n" + indent + "-" + w.value(indent+"  ", depth-1, false))
		}
	default:
		for i := range 1 + w.IntN(3) {
			fmt.Fprintf(&b, "\n%sk%d:%s", indent, i, w.value(indent+"  ", depth-1, false))
			if w.IntN(6) == 0 {
				b.WriteString(" # a comment")
			}
		}
	}
	return b.String()
}

// mutate changes a few bytes.
func (w writer) mutate(s string, with string) string {
	b := []byte(s)
	for range w.IntN(3) {
		i := w.IntN(len(b) + 1)
		c := with[w.IntN(len(with))]
		if w.IntN(2) == 0 || i == len(b) {
			b = append(b[:i:i], append([]byte{c}, b[i:]...)...)
		} else {
			b[i] = c
		}
	}
	return strings.ToValidUTF8(string(b), "?")
}

// TestYAMLPeer holds YAML to PyYAML: what both read, they read alike.
func TestYAMLPeer(t *testing.T) {
	w := writer{rand.New(rand.NewPCG(1, 2))}
	texts := make([]string, 8000)
	for i := range texts {
		text := ""
		for j := range 1 + w.IntN(4) {
			text += fmt.Sprintf("f%d:%s\n", j, w.value("  ", 3, false))
		}
		texts[i] = w.mutate(text, " \n:-#'\"[]{},|>&*!?%@a1\t\\")
	}
	both := 0
	for i, r := range ask(t, "yaml", texts) {
		v, problems := YAML([]byte(texts[i]), value.Pos{})
		if r.Error != "" || len(problems) > 0 || r.Found == nil {
			continue
		}
		both++
		if !same(v, r.Found) {
			j, _ := v.JSON()
			t.Errorf("%q\nis   %#v\nthey %q", texts[i], j, r.Found)
		}
	}
	if both < 1000 {
		t.Errorf("both read %d documents", both)
	}
	t.Logf("both read %d of %d documents", both, len(texts))
}

func (w writer) xml(depth int) string {
	texts := []string{"", " ", "text", "a &amp; b", "&lt;&gt;&quot;&apos;", "&#65;&#x42;", "é", "\n  ", "]]",
		"<!-- c -->", "<![CDATA[<a>&amp;]]>", "<?pi x?>", "\u00a0", "\t"}
	name := []string{"a", "metadata", "b-c", "d.e", "_f", "é", "param", "execute"}[w.IntN(8)]
	var b strings.Builder
	b.WriteString("<" + name)
	for i := range w.IntN(3) {
		quote := []string{"'", "\""}[w.IntN(2)]
		value := []string{"", "v", "&amp;", "a b", "é", "&#10;", "x\ny", "x\ty", ">", "/"}[w.IntN(10)]
		fmt.Fprintf(&b, "%s%c%s=%s%s%s%s", []string{" ", "\n", "  "}[w.IntN(3)], 'p'+i, []string{"", " "}[w.IntN(2)],
			[]string{"", " "}[w.IntN(2)], quote, value, quote)
	}
	if w.IntN(4) == 0 {
		return b.String() + []string{"/>", " />"}[w.IntN(2)]
	}
	b.WriteString(">")
	for range w.IntN(4) {
		b.WriteString(texts[w.IntN(len(texts))])
		if depth > 0 {
			b.WriteString(w.xml(depth - 1))
		}
	}
	return b.String() + texts[w.IntN(len(texts))] + "</" + name + []string{"", " "}[w.IntN(2)] + ">"
}

// shown writes an element as testdata/peers.py does.
func shown(e *element) []any {
	attrs, kids := []any{}, []any{}
	for _, a := range e.attrs {
		attrs = append(attrs, []any{a.name, a.value})
	}
	for _, kid := range e.kids {
		kids = append(kids, shown(kid))
	}
	return []any{e.name, attrs, string(e.text), kids}
}

// TestXMLPeer holds the XML of directives to xml.etree: what that reads is read alike.
func TestXMLPeer(t *testing.T) {
	w := writer{rand.New(rand.NewPCG(3, 4))}
	texts := make([]string, 8000)
	for i := range texts {
		text := "<directive name=\"d\">" + w.xml(3) + "</directive>"
		if texts[i] = text; i%2 == 1 {
			texts[i] = w.mutate(text, " \n<>/&;'\"=a1-?!]")
		}
	}
	both, only := 0, 0
	for i, r := range ask(t, "xml", texts) {
		f := newFile([]byte(texts[i]), true)
		x := f.readXML(0, len(f.text), false)
		switch well := r.Error == ""; {
		case well && len(f.problems) > 0:
			t.Errorf("%q has the problem %v", texts[i], f.problems[0])
		case well:
			both++
			if got := shown(x.root); !reflect.DeepEqual(got, r.Found) {
				t.Errorf("%q\nis   %q\nthey %q", texts[i], got, r.Found)
			}
		case len(f.problems) == 0:
			only++ // such as <?p> x?>, which means nothing to either
		}
	}
	if both < 4000 {
		t.Errorf("both read %d documents", both)
	}
	t.Logf("both read %d of %d, and %d are malformed to them alone", both, len(texts), only)
}
