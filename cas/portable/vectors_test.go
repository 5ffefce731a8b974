package portable

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rye-build/rye/cas/goldentest"
)

const vectorsFile = "../../testdata/vectors/portable.json"

// A vector is one question and its answer. Exactly one of path, hex, paths and id is set.
type vector struct {
	Path  *string  `json:"path,omitempty"`
	Hex   string   `json:"hex,omitempty"` // a path that is not UTF-8
	Paths []string `json:"paths,omitzero"`
	ID    *string  `json:"id,omitempty"`
	OK    bool     `json:"ok"`
	Rule  string   `json:"rule,omitempty"`
	Case  string   `json:"case,omitempty"`
}

type foldVector struct {
	Name string `json:"name"`
	Fold string `json:"fold"`
}

type vectors struct {
	Unicode string       `json:"unicode"`
	Paths   []vector     `json:"paths"`
	Sets    []vector     `json:"sets"`
	IDs     []vector     `json:"ids"`
	Folds   []foldVector `json:"folds"`
}

func (v *vector) check(t *testing.T) error {
	switch {
	case v.Path != nil:
		return Check(*v.Path)
	case v.Hex != "":
		b, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatal(err)
		}
		return Check(string(b))
	case v.ID != nil:
		return CheckID(*v.ID)
	}
	return CheckSet(slices.Values(v.Paths))
}

func TestVectors(t *testing.T) {
	data, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexFunc(data, func(r rune) bool { return r >= 0x7f }); i >= 0 {
		t.Errorf("%s is not plain ASCII at byte %d", vectorsFile, i)
	}
	var all vectors
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	for _, section := range [][]vector{all.Paths, all.Sets, all.IDs} {
		if len(section) == 0 {
			t.Error("a section of the vectors is empty")
		}
		for i := range section {
			v := &section[i]
			rule := ruleOf(t, v.check(t))
			if goldentest.Update() {
				v.OK, v.Rule = rule == "", rule
			}
			if (rule == "") != v.OK || rule != v.Rule {
				t.Errorf("%s: got rule %q, expected %q", encode(t, v), rule, v.Rule)
			}
		}
	}
	for i := range all.Folds {
		v := &all.Folds[i]
		if goldentest.Update() {
			v.Fold = Fold(v.Name)
		}
		if got := Fold(v.Name); got != v.Fold {
			t.Errorf("Fold(%+q) = %+q, expected %+q", v.Name, got, v.Fold)
		}
	}
	if goldentest.Update() {
		all.Unicode = Unicode
	}
	if all.Unicode != Unicode {
		t.Errorf("vectors are of Unicode %s, tables of %s", all.Unicode, Unicode)
	}
	goldentest.File(t, vectorsFile, format(t, &all))
}

// ruleOf returns "" for no error, and checks that an error says what it is about.
func ruleOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) || e.Rule == "" || e.Detail == "" {
		t.Fatalf("error %#v doesn't tell a rule and a detail", err)
	}
	msg := e.Error()
	if i := strings.IndexFunc(msg, func(r rune) bool { return r != '…' && (r < ' ' || r >= 0x7f) }); i >= 0 {
		t.Errorf("message %q has a raw character of the operand", msg)
	}
	return e.Rule
}

func format(t *testing.T, all *vectors) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n\"unicode\": %s,\n", encode(t, all.Unicode))
	section(t, &b, "paths", all.Paths, ",")
	section(t, &b, "sets", all.Sets, ",")
	section(t, &b, "ids", all.IDs, ",")
	section(t, &b, "folds", all.Folds, "")
	b.WriteString("}\n")
	return b.Bytes()
}

func section[T any](t *testing.T, b *bytes.Buffer, name string, entries []T, comma string) {
	lines := make([]string, len(entries))
	for i := range entries {
		lines[i] = encode(t, &entries[i])
	}
	fmt.Fprintf(b, "%q: [\n%s\n]%s\n", name, strings.Join(lines, ",\n"), comma)
}

// encode returns v as one line of JSON in ASCII.
func encode(t *testing.T, v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch r1, r2 := utf16.EncodeRune(r); {
		case r < 0x7f:
			out.WriteRune(r)
		case r1 == 0xFFFD:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x\u%04x`, r1, r2)
		}
	}
	return out.String()
}
