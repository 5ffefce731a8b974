package key_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func pem(label string, der []byte) []byte {
	return fmt.Appendf(nil, "-----BEGIN %s-----\n%s\n-----END %s-----\n", label,
		base64.StdEncoding.EncodeToString(der), label)
}

// A private key that is printed by mistake, even inside something else, says nothing.
func TestPrivateNeverPrinted(t *testing.T) {
	p := private(t, 0)
	seed := unhex(t, load(t).Good[0].Seed)
	j, _ := json.Marshal(map[string]any{"key": p})
	texts := []string{string(j)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
		texts = append(texts, fmt.Sprintf(verb, p), fmt.Sprintf(verb, &p), fmt.Sprintf(verb, []key.Private{p}),
			fmt.Sprintf(verb, struct{ k key.Private }{p}))
	}
	for _, text := range texts {
		for _, secret := range []string{string(seed[:8]), fmt.Sprintf("%x", seed[:8]), fmt.Sprintf("%X", seed[:8]),
			base64url(seed[:9]), fmt.Sprint(seed[:8])[1:20]} {
			if strings.Contains(text, secret) {
				t.Errorf("%q holds %q", text, secret)
			}
		}
	}
	if got := fmt.Sprint(p); got != "private key of "+p.Public().String() {
		t.Errorf("printed as %q", got)
	}
}

func TestZero(t *testing.T) {
	var p key.Private
	if !p.IsZero() || !p.Public().IsZero() || private(t, 0).IsZero() {
		t.Error("a zero key isn't")
	}
	if _, err := key.NewPublic(make([]byte, 32)); err == nil {
		t.Error("the zero Public is a key")
	}
	if !(key.Fingerprint{}).IsZero() || private(t, 0).Public().Fingerprint().IsZero() {
		t.Error("a zero fingerprint isn't")
	}
}

func TestGenerate(t *testing.T) {
	p, err := key.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	q, err := key.Generate(rand.Reader)
	if err != nil || p.Public() == q.Public() {
		t.Errorf("two keys are one: %v, %v", p, err)
	}
	if _, err := key.Generate(strings.NewReader("too short")); err == nil {
		t.Error("made a key of 9 random bytes")
	}
	boom := errors.New("boom")
	if _, err := key.Generate(iotest.ErrReader(boom)); !errors.Is(err, boom) {
		t.Errorf("made a key without random: %v", err)
	}
}

func TestFingerprint(t *testing.T) {
	f := private(t, 0).Public().Fingerprint()
	g := private(t, 1).Public().Fingerprint()
	if f.Compare(g) != -g.Compare(f) || f.Compare(f) != 0 || f.Compare(g) != strings.Compare(f.String(), g.String()) {
		t.Error("order isn't that of the text")
	}
	if f.Short() != f.String()[:12] {
		t.Errorf("short form is %q", f.Short())
	}
	text := f.String()
	for _, bad := range []string{"", text[:63], text + "0", strings.ToUpper(text), "g" + text[1:], " " + text[1:],
		"blake3:" + text} {
		if _, err := key.ParseFingerprint(bad); err == nil || !strings.HasPrefix(err.Error(), "not a fingerprint: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	var back struct {
		F key.Fingerprint
		P key.Public
	}
	b, err := json.Marshal(map[string]any{"F": f, "P": private(t, 0).Public()})
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || back.F != f || back.P != private(t, 0).Public() {
		t.Errorf("%s: %v, %v", b, back, err)
	}
}

func TestLock(t *testing.T) {
	p := private(t, 0)
	b, err := p.Lock("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if !key.IsLocked(b) || key.IsLocked(p.PEM()) {
		t.Error("IsLocked is wrong")
	}
	if bytes.Contains(b, []byte("PRIVATE")) {
		t.Errorf("%s", b)
	}
	got, err := key.Unlock(append([]byte("\r\n"), bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))...),
		"correct horse")
	if err != nil || got.Public() != p.Public() {
		t.Errorf("unlocked %v, %v", got, err)
	}
	if b, err = p.LockCheaply("correct horse"); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"", "correct horse "} {
		if _, err := key.Unlock(b, wrong); fault.CodeOf(err) != fault.AuthFailed {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := p.Lock(""); err == nil {
		t.Error("locked with nothing")
	}
	if _, err := key.Unlock(p.PEM(), "x"); err == nil || fault.CodeOf(err) != fault.Validation {
		t.Errorf("unlocked what isn't locked: %v", err)
	}
	asked := 0
	ask := func() (string, error) { asked++; return "correct horse", nil }
	if got, err := key.ParsePrivate(b, ask); err != nil || got.Public() != p.Public() || asked != 1 {
		t.Errorf("%v, %v, asked %d times", got, err, asked)
	}
	if got, err := key.ParsePrivate(p.PEM(), ask); err != nil || got.Public() != p.Public() || asked != 1 {
		t.Errorf("%v, %v, asked %d times", got, err, asked)
	}
	if _, err := key.ParsePrivate(b, nil); err != key.ErrLocked {
		t.Errorf("without a way to ask: %v", err)
	}
	boom := errors.New("no terminal")
	if _, err := key.ParsePrivate(b, func() (string, error) { return "", boom }); err != boom {
		t.Errorf("without an answer: %v", err)
	}
}

// Every byte of a key in each of its forms is changed to several others: it is refused, or it is still the same
// key, or, of those forms that have no redundancy, another one whose text is the changed text.
func TestMutation(t *testing.T) {
	p := private(t, 0)
	mutate := func(b []byte, f func([]byte)) {
		for i := range b {
			for _, x := range []byte{1, 2, 4, 8, 16, 32, 64, 128, b[i] ^ '\n', b[i] ^ ' ', b[i] ^ '='} {
				m := bytes.Clone(b)
				if m[i] ^= x; m[i] != b[i] {
					f(m)
				}
			}
			f(append(bytes.Clone(b[:i]), b[i+1:]...))
			f(append(bytes.Clone(b[:i+1]), b[i:]...))
		}
	}
	normal := func(b []byte) string {
		return strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
	}
	mutate([]byte(p.Public().String()), func(m []byte) {
		if q, err := key.ParsePublic(string(m)); err == nil && q.String() != string(m) {
			t.Errorf("%q was read as %s", m, q)
		}
	})
	mutate(p.Public().PEM(), func(m []byte) {
		if q, err := key.ParsePublicPEM(m); err == nil && normal(q.PEM()) != normal(m) {
			t.Errorf("%q was read as %s", m, q)
		}
	})
	mutate(p.PEM(), func(m []byte) {
		if q, err := key.ParsePrivatePEM(m); err == nil && normal(q.PEM()) != normal(m) {
			t.Errorf("%q was read as %s", m, q.PEM())
		}
	})
	msg := []byte("message")
	sig := p.Sign(msg)
	mutate(sig[:], func(m []byte) {
		if p.Public().Verify(msg, m) {
			t.Errorf("signature %x holds", m)
		}
	})
}

func FuzzPublic(f *testing.F) {
	for _, c := range load(f).RefusedText {
		f.Add(c.Text)
	}
	f.Add(load(f).Good[0].Text)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := key.ParsePublic(text)
		if err == nil && p.String() != text || err != nil && !p.IsZero() {
			t.Errorf("%q was read as %s, %v", text, p, err)
		}
		if g, err := key.ParseFingerprint(text); err == nil && g.String() != text {
			t.Errorf("%q was read as %s", text, g)
		}
	})
}

func FuzzPEM(f *testing.F) {
	v := load(f)
	for _, c := range append(v.RefusedPublicPEM, v.RefusedPrivatePEM...) {
		f.Add([]byte(c.Text))
	}
	for _, c := range v.Lenient {
		f.Add([]byte(c))
	}
	f.Add([]byte(v.Good[0].Private))
	f.Fuzz(func(t *testing.T, b []byte) {
		normal := strings.Trim(strings.ReplaceAll(string(b), "\r\n", "\n"), " \t\r\n") + "\n"
		if p, err := key.ParsePublicPEM(b); err == nil && string(p.PEM()) != normal {
			t.Errorf("%q was read as %s", b, p)
		}
		if p, err := key.ParsePrivatePEM(b); err == nil && string(p.PEM()) != normal {
			t.Errorf("%q was read as %s", b, p)
		}
	})
}

// An age file with a huge work factor is refused before it is tried; other rubbish is refused as well.
func FuzzUnlock(f *testing.F) {
	b, err := private(f, 0).LockCheaply("x")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(bytes.Replace(b, []byte("\n"), []byte("\n "), 1))
	f.Add([]byte(
		"-----BEGIN AGE ENCRYPTED FILE-----\nYWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBhYWFhYWFhYWFhYWFhYWFhYWFhYWFhIDMwCg==\n-----END AGE ENCRYPTED FILE-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := key.Unlock(b, "y"); err == nil {
			t.Errorf("opened %v", p)
		}
	})
}

func BenchmarkParsePublic(b *testing.B) {
	text := load(b).Good[0].Text
	for b.Loop() {
		if _, err := key.ParsePublic(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	p := private(b, 0)
	msg := make([]byte, 256)
	sig := p.Sign(msg)
	for b.Loop() {
		if !p.Public().Verify(msg, sig[:]) {
			b.Fatal("doesn't hold")
		}
	}
}
