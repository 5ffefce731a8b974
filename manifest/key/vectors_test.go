package key_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key"
)

const vectorFile = "../../testdata/vectors/manifest/key/vectors.json"

// vectors is vectors.json. All of it was made by other programs; updating rewrites the messages of errors.
type vectors struct {
	Good []struct {
		Seed        string `json:"seed"`
		Raw         string `json:"raw"`
		Text        string `json:"text"`
		Fingerprint string `json:"fingerprint"`
		V1          string `json:"v1"`
		Public      string `json:"public"`
		Private     string `json:"private"`
	} `json:"good"`
	Lenient []string `json:"lenient"` // ways to write the PEM of the first that are read as well
	Refused []struct {
		Name   string `json:"name"`
		Raw    string `json:"raw"`
		Reason string `json:"reason"`
	} `json:"refused"`
	RefusedText       []refusedText `json:"refusedText"`
	RefusedPublicPEM  []refusedText `json:"refusedPublicPEM"`
	RefusedPrivatePEM []refusedText `json:"refusedPrivatePEM"`
	Verify            []struct {
		Name      string `json:"name"`
		Key       string `json:"key"`
		Message   string `json:"message"`
		Signature string `json:"signature"`
		OK        bool   `json:"ok"`
	} `json:"verify"`
}

type refusedText struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Error string `json:"error"`
}

func load(t testing.TB) (v vectors) {
	t.Helper()
	b, err := os.ReadFile(vectorFile)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// private returns the key of a good vector.
func private(t testing.TB, i int) key.Private {
	t.Helper()
	p, err := key.Generate(bytes.NewReader(unhex(t, load(t).Good[i].Seed)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestVectorsGood(t *testing.T) {
	for _, c := range load(t).Good {
		p, err := key.Generate(bytes.NewReader(unhex(t, c.Seed)))
		if err != nil {
			t.Fatal(err)
		}
		pub := p.Public()
		raw := pub.Bytes()
		if hex.EncodeToString(raw[:]) != c.Raw || pub.String() != c.Text ||
			pub.Fingerprint().String() != c.Fingerprint ||
			pub.V1ID() != c.V1 || string(pub.PEM()) != c.Public || string(p.PEM()) != c.Private ||
			key.V1ID([]byte(c.Public)) != c.V1 {
			t.Errorf("%s: got %x %s %s %s %s", c.Raw, raw, pub, pub.Fingerprint(), pub.V1ID(), pub.PEM())
		}
		a, err1 := key.ParsePublic(c.Text)
		b, err2 := key.ParsePublicPEM([]byte(c.Public))
		d, err3 := key.NewPublic(unhex(t, c.Raw))
		e, err4 := key.ParsePrivatePEM([]byte(c.Private))
		if err := errors.Join(err1, err2, err3, err4); err != nil || a != pub || b != pub || d != pub ||
			e.Public() != pub {
			t.Errorf("%s: read %v %v %v %v, %v", c.Raw, a, b, d, e, err)
		}
		f, err := key.ParseFingerprint(c.Fingerprint)
		if err != nil || f != pub.Fingerprint() {
			t.Errorf("%s: fingerprint %v, %v", c.Raw, f, err)
		}
	}
}

func TestVectorsLenientPEM(t *testing.T) {
	v := load(t)
	for _, text := range v.Lenient {
		p, err := key.ParsePublicPEM([]byte(text))
		if err != nil || string(p.PEM()) != v.Good[0].Public {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

// What is no key worth trusting is refused at every door.
func TestVectorsRefused(t *testing.T) {
	const der = "302a300506032b6570032100"
	for _, c := range load(t).Refused {
		raw := unhex(t, c.Raw)
		_, err1 := key.NewPublic(raw)
		_, err2 := key.ParsePublic(base64url(raw))
		_, err3 := key.ParsePublicPEM(pem("PUBLIC KEY", append(unhex(t, der), raw...)))
		var p key.Public
		err4 := p.UnmarshalText([]byte(base64url(raw)))
		for _, err := range []error{err1, err2, err3, err4} {
			if err == nil || fault.CodeOf(err) != fault.Validation || !strings.Contains(err.Error(), c.Reason) {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
		if !p.IsZero() {
			t.Errorf("%s: left %v", c.Name, p)
		}
	}
}

func TestVectorsRefusedText(t *testing.T) {
	v := load(t)
	check := func(list []refusedText, parse func(string) error) {
		for i := range list {
			c := &list[i]
			err := parse(c.Text)
			if err == nil {
				t.Errorf("%s: accepted", c.Name)
				continue
			}
			if fault.CodeOf(err) != fault.Validation && !errors.Is(err, key.ErrLocked) {
				t.Errorf("%s: %T", c.Name, err)
			}
			if goldentest.Update() {
				c.Error = err.Error()
			}
			if err.Error() != c.Error {
				t.Errorf("%s: got %q, want %q", c.Name, err, c.Error)
			}
		}
	}
	check(v.RefusedText, func(s string) error { _, err := key.ParsePublic(s); return err })
	check(v.RefusedPublicPEM, func(s string) error { _, err := key.ParsePublicPEM([]byte(s)); return err })
	check(v.RefusedPrivatePEM, func(s string) error { _, err := key.ParsePrivatePEM([]byte(s)); return err })
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, vectorFile, append(b, '\n'))
}

func TestVectorsVerify(t *testing.T) {
	for _, c := range load(t).Verify {
		p, err := key.ParsePublic(c.Key)
		if err != nil {
			t.Fatal(err)
		}
		if ok := p.Verify(unhex(t, c.Message), unhex(t, c.Signature)); ok != c.OK {
			t.Errorf("%s: verify says %v", c.Name, ok)
		}
		if (key.Public{}).Verify(unhex(t, c.Message), unhex(t, c.Signature)) {
			t.Errorf("%s: holds under no key", c.Name)
		}
	}
}

// The example of the package comment is the first vector.
func TestDocExample(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(doc), "//", "")), " ")
	c := load(t).Good[0]
	for _, want := range []string{"text " + c.Text, "fingerprint " + c.Fingerprint, "v1 " + c.V1, "PEM " + c.Public,
		c.Private} {
		if want = strings.Join(strings.Fields(want), " "); !strings.Contains(text,
			strings.ReplaceAll(want, "//", "")) {
			t.Errorf("doc.go doesn't say %q", want)
		}
	}
}
