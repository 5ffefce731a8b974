package redact

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/manifest/jcs"
)

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
	if got := New().Text("anything"); got != "anything" {
		t.Error(got)
	}
}

func TestValue(t *testing.T) {
	v, err := jcs.Parse([]byte(`{"a":["hunter22",1,true,null,{"x":"hunter22 y"}],"API_KEY":"k","auth":{"Token":["q",7,{"z":"w"}]},"hunter22":"key","max_tokens":5,"n":"plain"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := jcs.Append(nil, New("hunter22").Value(v))
	const want = `{"***REDACTED***":"key","API_KEY":"***REDACTED***","a":["***REDACTED***",1,true,null,{"x":"***REDACTED*** y"}],"auth":{"Token":["***REDACTED***",7,{"z":"***REDACTED***"}]},"max_tokens":5,"n":"plain"}`
	if err != nil || string(got) != want {
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
		if len(secret) < shortest || strings.Contains(Mask, secret) {
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
