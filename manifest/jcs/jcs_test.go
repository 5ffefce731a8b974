package jcs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rye-build/rye/manifest/jcs"
)

// vectors is jcs.json. The numbers are those of RFC 8785, Appendix B; among the good texts are its examples.
type vectors struct {
	Numbers []struct{ Bits, Text string } `json:"numbers"`
	Good    []struct{ In, Out string }    `json:"good"`
	Bad     []struct {
		In     string
		Offset int
		Error  string
	} `json:"bad"`
}

func load(t testing.TB) (v vectors) {
	b, err := os.ReadFile("../../testdata/vectors/manifest/doc/jcs.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil || len(v.Numbers) < 20 || len(v.Good) < 10 || len(v.Bad) < 30 {
		t.Fatal(err, len(v.Numbers), len(v.Good), len(v.Bad))
	}
	return v
}

func TestNumbers(t *testing.T) {
	for _, n := range load(t).Numbers {
		bits, err := strconv.ParseUint(n.Bits, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		f := math.Float64frombits(bits)
		got, err := jcs.Append(nil, f)
		if err != nil || string(got) != n.Text {
			t.Errorf("%s: %s, %v; want %s", n.Bits, got, err, n.Text)
		}
		if v, err := jcs.Parse(got); err != nil || v.(float64) != f {
			t.Errorf("%s reads back as %v, %v", got, v, err)
		}
	}
	for _, f := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if got, err := jcs.Append([]byte("x"), f); err == nil || string(got) != "x" {
			t.Errorf("%v: %q, %v", f, got, err)
		}
	}
}

func TestGood(t *testing.T) {
	for _, g := range load(t).Good {
		got, err := jcs.Canonical([]byte("x"), []byte(g.In))
		if err != nil || string(got) != "x"+g.Out {
			t.Errorf("%s:\ngot  %s, %v\nwant x%s", g.In, got, err, g.Out)
		}
		if got, err := jcs.Canonical(nil, []byte(g.Out)); err != nil || string(got) != g.Out {
			t.Errorf("%s again: %s, %v", g.Out, got, err)
		}
	}
}

func TestBad(t *testing.T) {
	for _, b := range load(t).Bad {
		in := strings.NewReplacer("<FF>", "\xff", "<SURR>", "\xed\xa0\x80", "<NUL>", "\x00", "<BOM>",
			"\ufeff").Replace(b.In)
		v, err := jcs.Parse([]byte(in))
		e, ok := errors.AsType[*jcs.SyntaxError](err)
		if !ok || v != nil || e.Offset != b.Offset || !strings.Contains(e.Msg, b.Error) {
			t.Errorf("%q: %v, %v; want byte %d: %s", in, v, err, b.Offset, b.Error)
		}
	}
}

func TestDepth(t *testing.T) {
	for _, pair := range []string{"[]", `{"a":}`} {
		open, end := pair[:len(pair)-1], pair[len(pair)-1:]
		deep := func(n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
		v, err := jcs.Parse([]byte(deep(jcs.MaxDepth)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := jcs.Append(nil, v); err != nil || string(got) != deep(jcs.MaxDepth) {
			t.Errorf("%s, %v", got, err)
		}
		if _, err := jcs.Append(nil, []any{v}); err == nil {
			t.Error("written too deep")
		}
		if _, err := jcs.Append(nil, map[string]any{"": v}); err == nil {
			t.Error("written too deep")
		}
		for _, n := range []int{jcs.MaxDepth + 1, 1 << 20} {
			if _, err := jcs.Parse([]byte(deep(n))); err == nil {
				t.Errorf("%d deep is read", n)
			}
		}
	}
}

func TestMany(t *testing.T) {
	many := func(n int) []byte { return []byte("[" + strings.Repeat("1,", n-2) + "1]") }
	if v, err := jcs.Parse(many(jcs.MaxValues)); err != nil || len(v.([]any)) != jcs.MaxValues-1 {
		t.Error(err)
	}
	if _, err := jcs.Parse(many(jcs.MaxValues + 1)); err == nil {
		t.Error("too many values are read")
	}
}

func TestValues(t *testing.T) {
	got, err := jcs.Append(nil, map[string]any{"a": []any{1, int64(-1 << 53), 0.5, nil, true, false, "x"},
		"b": []any{}, "c": map[string]any{}})
	if want := `{"a":[1,-9007199254740992,0.5,null,true,false,"x"],"b":[],"c":{}}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, v := range []any{1<<53 + 1, int64(-1<<53 - 1), "\xff", map[string]any{"\xff": 1}, []any{struct{}{}},
		uint8(1), float32(1), map[string]any{"a": math.NaN()}} {
		got, err := jcs.Append([]byte("x"), v)
		if err == nil || string(got) != "x" {
			t.Errorf("%v: %q, %v", v, got, err)
		}
	}
}

// Names are in the order of their UTF-16 units, whatever they are.
func TestOrder(t *testing.T) {
	alphabet := []rune{'a', 'b', 0x7f, 0xe9, 0xd7ff, 0xe000, 0xfb33, 0xffff, 0x10000, 0x103ff, 0x1f600, 0x10ffff}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		obj := map[string]any{}
		for range 6 {
			name := []rune{}
			for range rnd.IntN(4) {
				name = append(name, alphabet[rnd.IntN(len(alphabet))])
			}
			obj[string(name)] = true
		}
		b, err := jcs.Append(nil, obj)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.Token()
		var last []uint16
		for first := true; d.More(); first = false {
			name, err := d.Token()
			d.Token()
			units := utf16.Encode([]rune(name.(string)))
			if err != nil || !first && compareUnits(last, units) >= 0 {
				t.Fatalf("%s: %x before %x (%v)", b, last, units, err)
			}
			last = units
		}
	}
}

func compareUnits(a, b []uint16) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

// What is accepted has one canonical form, which is a fixed point and which the standard library reads alike.
func FuzzCanonical(f *testing.F) {
	v := load(f)
	for _, g := range v.Good {
		f.Add([]byte(g.In))
	}
	for _, b := range v.Bad {
		f.Add([]byte(b.In))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := jcs.Canonical(nil, in)
		if err != nil {
			return
		}
		again, err := jcs.Canonical(nil, out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q: %q, then %q, %v", in, out, again, err)
		}
		var a, b any
		if err := errors.Join(json.Unmarshal(in, &a), json.Unmarshal(out, &b)); err != nil {
			t.Fatalf("%q, %q: %v", in, out, err)
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if !bytes.Equal(bytes.ReplaceAll(x, []byte("-0"), []byte("0")),
			bytes.ReplaceAll(y, []byte("-0"), []byte("0"))) {
			t.Fatalf("%q became %q: %s, %s", in, out, x, y)
		}
	})
}
