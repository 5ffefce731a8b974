package canon

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// plain looks at eight bytes at once; here each byte is put at each place of a word, with neighbours that
// could carry into it.
func TestPlain(t *testing.T) {
	slow := func(b []byte, i int) int {
		for ; i < len(b); i++ {
			if c := b[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
				break
			}
		}
		return i
	}
	for _, filler := range []byte{'a', ' ', '!', '#', '[', ']', '~', '0'} {
		b := bytes.Repeat([]byte{filler}, 19)
		for at := range b {
			for c := range 256 {
				for _, second := range []byte{filler, 0, 0x1f, '"', '\\', 0x7f, 0xff} {
					b[at] = byte(c)
					b[18] = second
					for _, from := range []int{0, 3} {
						if got, want := plain(b, from), slow(b, from); got != want {
							t.Fatalf("plain(%q, %d) = %d, want %d", b, from, got, want)
						}
					}
				}
			}
			b[at] = filler
		}
	}
}

// Every code point has exactly one form, which is read back, or none; and the form is the one of the table
// in the package comment, spelled out here without the code under test.
func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		want := `"` + string(r) + `"`
		switch i := strings.IndexRune("\"\\\b\t\n\f\r", r); {
		case i >= 0:
			want = `"\` + `"\btnfr`[i:i+1] + `"`
		case r < 0x20, r >= 0x7f && r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff, r >= 0xfdd0 && r <= 0xfdef,
			r == 0xfffe, r == 0xffff:
			want = fmt.Sprintf(`"\u%04x"`, r)
		case r > 0xffff && (r&0xffff == 0xfffe || r&0xffff == 0xffff):
			want = ""
		}
		got, err := appendQuoted(nil, []byte(string(r)))
		if want == "" {
			if err == nil {
				t.Fatalf("%U is written as %q", r, got)
			}
			got = []byte(`"` + string(r) + `"`)
		} else if err != nil || string(got) != want {
			t.Fatalf("%U is written as %s (%v), want %s", r, got, err, want)
		}
		back, at, wrong := unquote(nil, slices.Concat(got, []byte("\n")), 1)
		if (wrong == "") != (want != "") || wrong == "" && (string(back) != string(r) || at != len(got)-1) {
			t.Fatalf("%U: %s is read as %q up to %d: %s", r, got, back, at, wrong)
		}
	}
}

// Of all 65,536 escapes only those are accepted that the encoder writes.
func TestEveryEscape(t *testing.T) {
	accepted := 0
	for r := rune(0); r <= 0xffff; r++ {
		in := fmt.Appendf(nil, "\"\\u%04x\"\n", r)
		back, _, wrong := unquote(nil, in, 1)
		if wrong != "" {
			continue
		}
		accepted++
		if again, err := appendQuoted(nil, back); err != nil || !bytes.Equal(again, in[:len(in)-1]) {
			t.Errorf("%q is read and written as %q", in, again)
		}
	}
	if want := (32 - 5) + (0x9f - 0x7f + 1) + 3 + 32 + 2; accepted != want {
		t.Errorf("%d escapes are accepted, want %d", accepted, want)
	}
}

func TestInvalidUTF8(t *testing.T) {
	for _, v := range []string{"\x80", "a\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xb8", "ok\xe4"} {
		if got, err := appendQuoted(nil, []byte(v)); err == nil {
			t.Errorf("%q is written as %s", v, got)
		}
		if got, _, wrong := unquote(nil, []byte(`"`+v+"\"\n"), 1); wrong == "" {
			t.Errorf("%q is read as %q", v, got)
		}
	}
	// The replacement character itself is a character like others.
	if got, err := appendQuoted(nil, []byte("\ufffd")); err != nil || string(got) != "\"\ufffd\"" {
		t.Errorf("U+FFFD is written as %s, %v", got, err)
	}
}
