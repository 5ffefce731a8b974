package redact

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/manifest/jcs"
)

// TestEnded finds every end of every form.
func TestEnded(t *testing.T) {
	f := New("s3cr3t/+val?", strings.Repeat("0123456789+", 40), "short").forms
	for _, form := range f.sorted {
		for from := range len(form) - Shortest + 1 {
			if n := f.ended(form[from:] + "\x00"); n < len(form)-from {
				t.Fatalf("of %q the last %d: %d", form, len(form)-from, n)
			}
		}
	}
	for _, s := range []string{"", "short", "nothing of it", "s3cr3t and"} {
		if n := f.ended(s); n != 0 {
			t.Errorf("%q: %d", s, n)
		}
	}
	if n := New().forms.ended("nothing"); n != 0 {
		t.Error(n)
	}
}

// BenchmarkText looks through short texts for a secret of many lines, as through those of a result.
func BenchmarkText(b *testing.B) {
	line := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/", 27)
	var lines strings.Builder
	for n := range 27 {
		lines.WriteString(line[n:n+64] + "\n")
	}
	r := New(lines.String())
	for b.Loop() {
		r.Text("some text that is usual")
	}
}

func TestText(t *testing.T) {
	r := New("s3cr3t/+val?", "short", "s3cr3t/+val?-and-more", "", "kéy-of-the-house")
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"nothing", "nothing"},
		{"a s3cr3t/+val? b", "a ***REDACTED*** b"},
		{"s3cr3t/+val?-and-more", "***REDACTED***"},
		{"x=s3cr3t%2F%2Bval%3F&", "x=***REDACTED***&"},
		{"/s3cr3t%2F+val%3F/", "/***REDACTED***/"},
		{"Basic czNjcjN0Lyt2YWw/", "Basic ***REDACTED***"},
		{"7333637233742f2b76616c3f", "***REDACTED***"},
		{"7333637233742F2B76616C3F", "***REDACTED***"},
		{"short", "***REDACTED***"},
		{"a short story", "a short story"},
		{"kéy-of-the-house!", "***REDACTED***!"},
	} {
		if got := r.Text(c.in); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
	for form, want := range map[string]string{ // of a"b/c+d<é
		"a\"b/c+d<é": Mask, `a\"b/c+d<é`: Mask, `a\"b\/c+d<é`: Mask, `a\"b/c+d\u003cé`: Mask, `a\"b/c+d<\u00e9`: Mask,
		`a\"b/c+d\u003c\u00e9`:             Mask,
		`{"a":"{\"b\":\"a\\\"b/c+d<é\"}"}`: `{"a":"{\"b\":\"` + Mask + `\"}"}`,
		"YSJiL2MrZDzDqQ==":                 Mask + "==", "YSJiL2MrZDzDqQ": Mask,
		"eGEiYi9jK2Q8w6l4": "eG" + Mask + "l4", "eHhhImIvYytkPMOpeHg=": "eHh" + Mask + "eHg=",
		"a%22b/c+d%3C%C3%A9": Mask, "a%22b/c%2Bd%3C%C3%A9": Mask, "a%22b%2Fc+d%3C%C3%A9": Mask,
		"a%22b%2fc%2bd%3c%c3%a9": Mask, "a%22b%2Fc%2Bd%3C%C3%A9": Mask, "%61%22%62%2f%63%2b%64%3c%c3%a9": Mask,
		"%61%22%62%2F%63%2B%64%3C%C3%A9": Mask,
	} {
		if got := New("a\"b/c+d<é").Text(form); got != want {
			t.Errorf("%q becomes %q, want %q", form, got, want)
		}
	}
	for _, form := range []string{ // as Python, JavaScript and our HTTP client write it
		"p%40ss/w%21rd%20%7Bx%7D", "p%40ss%2Fw!rd%20%7Bx%7D", "p@ss/w!rd%20%7Bx%7D",
	} {
		if got := New("p@ss/w!rd {x}").Text(form); got != Mask {
			t.Errorf("%q becomes %q", form, got)
		}
	}
	// In lines, as base64, openssl and mail write it, wherever in what is encoded it begins. What it doesn't decide
	// alone stays.
	for _, length := range []int{Shortest, 20, 40, 93, 200, Wrapped + 1} {
		secret := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz+", 60)[:length-1] + "?"
		r := New(secret)
		for _, width := range []int{64, 76} {
			for before := range 2 * width {
				if before > 0 && length > Wrapped {
					break
				}
				for _, ends := range []string{"\n", "\r\n", `\n`} {
					text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", before) + secret + "~~"))
					from, to := (8*before+5)/6, 8*(before+length)/6
					var lines, want []string
					for at := 0; at < len(text); at += width {
						line := text[at:min(at+width, len(text))]
						lines = append(lines, line)
						want = append(want, line[:min(max(from-at, 0), len(line))]+line[min(max(to-at, 0),
							len(line)):])
					}
					whole := strings.NewReplacer(ends, "")
					got := whole.Replace(strings.ReplaceAll(r.Text(strings.Join(lines, ends)), Mask, ""))
					if got != strings.Join(want, "") {
						t.Fatalf("%d bytes after %d in lines of %d that end in %q: %q is left", length, before, width,
							ends, got)
					}
				}
			}
		}
	}
	if in := "dXNlcjpz\nMDEyMzQ1\nand more"; New("0123456789abcdef").Text(in) != in {
		t.Error("too little of it is taken out")
	}
	if got := New().Text("anything"); got != "anything" {
		t.Error(got)
	}
}

// TestTogether: what overlaps or touches is one, and what is cut off at an end is found.
func TestTogether(t *testing.T) {
	r := New("abcdefgh", "efghijkl", "0123456789", "multi-line-line-one\nshort\nmulti-line-line-two\n")
	for in, want := range map[string]string{
		"-abcdefghijkl-": "-" + Mask + "-", "abcdefghabcdefgh": Mask, "abcdefgh abcdefgh": Mask + " " + Mask,
		"3456789 and 0123456": Mask + " and " + Mask, "…\ufffd3456789, 012345…": Mask + ", " + Mask + "…",
		"456789": Mask, "56789 and 01234": "56789 and 01234",
		"a 3456789 b": "a 3456789 b", "multi-line-line-one\r\nshort\r\n  multi-line-line-two": Mask +
			"\r\nshort\r\n  " + Mask,
		`multi-line-line-one\nshort\nmulti-line-line-two\n`: Mask,
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// TestStream: nothing is kept back that can't become a secret, and pieces are as good as the whole.
func TestStream(t *testing.T) {
	r := New("abcdefgh", "abcdefXYZ", "0123456789")
	for _, c := range []struct {
		in   []string
		want string // what is handed on at once, "|" between the calls, and behind the last what is only at the end
	}{
		{[]string{"plain", " text"}, "plain| text|"},
		{[]string{"x abc", "def", "gh y"}, "x ||" + Mask + " y|"},
		{[]string{"x abc", "dez"}, "x |abcdez|"},
		{[]string{"abcdef"}, "|" + Mask},
		{[]string{"abcde"}, "|abcde"},
		{[]string{"abcdefgh", "abcdefXYZ", "!"}, Mask + "||!|"},
	} {
		var got strings.Builder
		s := r.Stream(func(b []byte) error { got.Write(b); return nil })
		for _, piece := range c.in {
			if n, err := s.Write([]byte(piece)); err != nil || n != len(piece) {
				t.Error(n, err)
			}
			got.WriteByte('|')
		}
		if err := s.Flush(); err != nil || got.String() != c.want {
			t.Errorf("%q: %q, %v; want %q", c.in, got.String(), err, c.want)
		}
	}
	full := errors.New("full")
	s := r.Stream(func([]byte) error { return full })
	if _, err := s.Write([]byte("x abcdefgh")); err != full {
		t.Error(err)
	}
	if _, err := s.Write([]byte("x")); err != full {
		t.Error(err)
	}
}

// What comes in pieces is handed on as it would be in one, and no secret with it.
func FuzzStream(f *testing.F) {
	f.Add("secret-value", "before secret-value, secret-valsecret-value and c2VjcmV0LXZhbHVl", uint8(3))
	f.Add("aaaaaa", "aaaaaaaaabaaaaaaaaaaaaaa", uint8(1))
	f.Add("abcabcabd", "abcabcabcabdabcabcab", uint8(2))
	f.Fuzz(func(t *testing.T, secret, text string, step uint8) {
		if len(secret) < Shortest || strings.Contains(Mask, secret) {
			return
		}
		r := New(secret)
		all := func(step int) string {
			var out strings.Builder
			s := r.Stream(func(b []byte) error { out.Write(b); return nil })
			for rest := text; rest != ""; {
				n := min(step, len(rest))
				s.Write([]byte(rest[:n]))
				rest = rest[n:]
				if len(s.m.held) >= r.forms.longest {
					t.Fatalf("%d bytes are kept back", len(s.m.held))
				}
			}
			s.Flush()
			return out.String()
		}
		one := all(len(text) + 1)
		if pieces := all(int(step) + 1); pieces != one {
			t.Errorf("in pieces %q, in one %q", pieces, one)
		}
		for part := range strings.SplitSeq(one, Mask) {
			if strings.Contains(part, secret) {
				t.Errorf("%q is in %q", secret, one)
			}
		}
	})
}

func TestValue(t *testing.T) {
	v, err := jcs.Parse(
		[]byte(
			`{"a":["hunter22",1,true,null,{"x":"hunter22 y"}],"API_KEY":"k","auth":{"Token":["q",7,{"z":"w"}]},"hunter22":"key","max_tokens":5,"n":"plain"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := jcs.Append(nil, New("hunter22").Value(v))
	const want = `{"***REDACTED***":"key","API_KEY":"***REDACTED***","a":["***REDACTED***",1,true,null,{"x":"***REDACTED*** y"}],"auth":{"Token":["***REDACTED***",7,{"z":"***REDACTED***"}]},"max_tokens":5,"n":"plain"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	v, err = jcs.Parse([]byte(`{"n":[123456789,1234,12345678.5,1e300],"token":"plain hunter22"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err = jcs.Append(nil, New("hunter22", "12345678").Result(v))
	if want := `{"n":["***REDACTED***",1234,"***REDACTED***",1e+300],"token":"plain ***REDACTED***"}`; err != nil ||
		string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	again, _ := jcs.Parse([]byte(`{"n":"hunter22"}`))
	New("hunter22").Value(again)
	if !reflect.DeepEqual(again, map[string]any{"n": "hunter22"}) {
		t.Error("Value changed its argument")
	}
	var deep any = "hunter22"
	for range 10000 {
		deep = []any{deep}
	}
	if s := fmt.Sprint(New("hunter22").Value(deep)); strings.Contains(s, "hunter22") {
		t.Error("a deep secret")
	}
}

func TestDigest(t *testing.T) {
	digest := func(secret string, v any) string {
		d, err := New(secret).Digest(v)
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	one := digest("first-secret", map[string]any{"a": "first-secret", "b": 1})
	if two := digest("other-secret", map[string]any{"b": 1, "a": "other-secret"}); one != two {
		t.Error("the digest tells secrets apart")
	}
	if two := digest("first-secret", map[string]any{"a": "first-secret", "b": 2}); one == two {
		t.Error("the digest doesn't tell parameters apart")
	}
	if _, err := New().Digest(map[string]any{"a": struct{}{}}); err == nil {
		t.Error("no JSON")
	}
}

// No secret of some length survives, wherever it stands.
func FuzzText(f *testing.F) {
	f.Add("secret-value", "before ", " after")
	f.Add("***REDACTED***", "*", "*")
	f.Add("aaaaaa", "a", "aaaaaaa")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < Shortest || strings.Contains(Mask, secret) {
			return
		}
		// A mask that stands within a secret keeps it from being one.
		for part := range strings.SplitSeq(New(secret).Text(before+secret+after), Mask) {
			if strings.Contains(part, secret) {
				t.Errorf("%q is in %q", secret, part)
			}
		}
	})
}

// TestArgs: what is called a secret isn't said again, and everything else is.
func TestArgs(t *testing.T) {
	given := []string{"exec", "tool:acme/x", "-p", "token=abcd", "-p", "text=a=b", "-papi_key=x", "--params",
		`{"password": "p", "n": 1}`, `--params={"a":{"secret":"p"}}`, "token=", "{", "secret"}
	want := []string{"exec", "tool:acme/x", "-p", "token=" + Mask, "-p", "text=a=b", "-papi_key=" + Mask, "--params",
		`{"n":1,"password":"` + Mask + `"}`,
		`--params={"a":{"secret":"` + Mask + `"}}`, "token=", "{", "secret"}
	if got := Args(given); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
