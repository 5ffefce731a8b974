package attest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

const vectorDir = "../../testdata/vectors/manifest/attest"

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join(vectorDir, name), got)
}

const samplePredicate = "https://slsa.dev/provenance/v1"

func sampleStatement() *Statement {
	return &Statement{
		Subjects: []Subject{
			{"bundle:acme/deploy@1.4.0", DigestsOf(cas.Sum([]byte("manifest")))},
			{"", Digests{"sha256": strings.Repeat("a", 64), "blake3": strings.Repeat("b", 64)}},
		},
		PredicateType: samplePredicate,
		Predicate: []byte(
			`{ "runDetails": {"builder": {"id": "https://ci.example"}}, "buildDefinition": {"n": 1.0} }`),
	}
}

func sealed(t testing.TB, payloadType string, payload []byte, keys ...key.Private) []byte {
	t.Helper()
	e, err := NewEnvelope(payloadType, payload)
	if err == nil {
		err = e.Sign(keys...)
	}
	b, err2 := e.Append(nil)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return b
}

func publics(keys ...key.Private) (out []key.Public) {
	for _, k := range keys {
		out = append(out, k.Public())
	}
	return out
}

func TestEnvelope(t *testing.T) {
	a, b, stranger := keytest.Seeded(1), keytest.Seeded(2), keytest.Seeded(9)
	payload, err := sampleStatement().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "statement.json", append(bytes.Clone(payload), '\n'))
	env := sealed(t, StatementPayload, payload, b, a)
	golden(t, "envelope.json", append(bytes.Clone(env), '\n'))
	if again := sealed(t, StatementPayload, payload, a, a, b); !bytes.Equal(again, env) {
		t.Errorf("in another order: %s", again)
	}
	about := DigestsOf(cas.Sum([]byte("manifest")))
	for threshold, keys := range [][]key.Public{1: publics(a), 2: publics(stranger, b, a)} {
		if keys == nil {
			continue
		}
		s, signers, err := VerifyStatement(env, keys, threshold, samplePredicate, about)
		if err != nil || len(signers) != threshold || !reflect.DeepEqual(s.Subjects, sampleStatement().Subjects) ||
			string(s.Predicate) != `{"buildDefinition":{"n":1},"runDetails":{"builder":{"id":"https://ci.example"}}}` {
			t.Errorf("%+v, %v, %v", s, signers, err)
		}
	}
	// Good signatures about something else are no help.
	if err := third(VerifyStatement(env, publics(a), 1, samplePredicate,
		DigestsOf(cas.Sum(nil)))); fault.CodeOf(err) != fault.Integrity {
		t.Error("a statement about something else counts")
	}
	if err := third(VerifyStatement(env, publics(a), 1, samplePredicate+"x", about)); err == nil {
		t.Error("a statement of another type counts")
	}
	if err := third(VerifyStatement(sealed(t, "text/plain", payload, a), publics(a), 1, samplePredicate,
		about)); err == nil {
		t.Error("another payload type counts")
	}
	e, err := ParseEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys      []key.Public
		threshold int
		want      string
	}{
		{publics(stranger), 1, "signed by 0"}, {publics(a, stranger), 2, "signed by 1"},
		{publics(a, b), 0, "threshold of 0"},
		{publics(a, b), -1, "threshold of -1"}, {publics(a, b), 3, "threshold of 3"},
		{publics(a, a), 2, "threshold of 2 with 1"},
		{nil, 1, "threshold"}, {[]key.Public{{}}, 1, "no key"},
	} {
		if _, p, s, err := e.Verify(c.keys, c.threshold); err == nil || !strings.Contains(err.Error(), c.want) ||
			p != nil || s != nil {
			t.Errorf("%d of %d keys: %v", c.threshold, len(c.keys), err)
		}
	}
	if typ, p := e.Unverified(); typ != StatementPayload || !bytes.Equal(p, payload) {
		t.Errorf("unverified %q %q", typ, p)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

// What is signed is the text that DSSE says, and who says nothing of the key is taken at his signature.
func TestEnvelopeOfOthers(t *testing.T) {
	k := keytest.Seeded(1)
	sig := k.Sign([]byte("DSSEv1 1 t 1 p"))
	text := base64.StdEncoding.EncodeToString(sig[:])
	want := fmt.Sprintf(`{"payload":"cA==","payloadType":"t","signatures":[{"keyid":%q,"sig":%q}]}`,
		k.Public().Fingerprint(), text)
	if got := sealed(t, "t", []byte("p"), k); string(got) != want {
		t.Errorf("%s\n%s", got, want)
	}
	// Others may leave the key's name out, or write it in a way of their own.
	for _, c := range []struct {
		id   string
		good bool
	}{{"", true}, {`"keyid":"",`, true}, {`"keyid":"SHA256:abc",`, false}, {`"keyid":null,`, false},
		{`"keyid":1,`, false}} {
		e, err := ParseEnvelope([]byte(`{ "payloadType": "t", "payload": "cA==", "signatures": [{` + c.id + `"sig":"` +
			text + `"}] }`))
		if err == nil {
			_, _, _, err = e.Verify(publics(keytest.Seeded(3), k), 1)
		}
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.id, err)
		}
	}
}

func TestEnvelopeBad(t *testing.T) {
	a := keytest.Seeded(1)
	good := string(sealed(t, "t", []byte("payload?>"), a))
	id := a.Public().Fingerprint().String()
	i := strings.Index(good, `"sig":"`) + 7
	sig := good[i : i+88]
	one := `{"keyid":"` + id + `","sig":"` + sig + `"}`
	for name, bad := range map[string]string{
		"unknown member":   strings.Replace(good, `{"payload"`, `{"x":1,"payload"`, 1),
		"twice":            strings.Replace(good, `{"payload"`, `{"payload":"","payload"`, 1),
		"case":             strings.Replace(good, `"payload"`, `"Payload"`, 1),
		"long s":           strings.Replace(good, `"sig"`, `"ſig"`, 1),
		"no payload":       strings.Replace(good, `"payload":"cGF5bG9hZD8+",`, ``, 1),
		"null payload":     strings.Replace(good, `"cGF5bG9hZD8+"`, `null`, 1),
		"no type":          strings.Replace(good, `"t"`, `""`, 1),
		"type of two":      strings.Replace(good, `"t"`, `"t t"`, 1),
		"no signatures":    good[:strings.Index(good, `[`)] + `[]}`,
		"signature object": good[:strings.Index(good, `[`)] + one + `}`,
		"by one key twice": strings.Replace(good, one, one+","+one, 1),
		"17": strings.Replace(good, one,
			strings.TrimSuffix(strings.Repeat(`{"sig":"`+sig+`"},`, 17), ","), 1),
		"url base64":     strings.Replace(good, "+", "-", 1),
		"no padding":     strings.Replace(good, `==`, ``, 1),
		"line break":     strings.Replace(good, `"cGF5`, `"cG\nF5`, 1),
		"pad bits":       strings.Replace(good, sig, sig[:85]+"B==", 1),
		"long key id":    strings.Replace(good, id, strings.Repeat("i", 1001), 1),
		"63 bytes":       strings.Replace(good, sig, base64.StdEncoding.EncodeToString(make([]byte, 63)), 1),
		"65 bytes":       strings.Replace(good, sig, base64.StdEncoding.EncodeToString(make([]byte, 65)), 1),
		"unknown in sig": strings.Replace(good, `"sig"`, `"cert":"","sig"`, 1),
		"two values":     good + good,
		"not JSON":       "payload: cA==",
		"array":          "[" + good + "]",
		"empty":          "",
		"too large":      good + strings.Repeat(" ", MaxEnvelope),
	} {
		e, err := ParseEnvelope([]byte(bad))
		if err == nil || fault.CodeOf(err) != fault.Parsing || e != nil {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	// A bad signature that names a known key spoils the rest.
	b := keytest.Seeded(2)
	two := string(sealed(t, "t", []byte("payload?>"), a, b))
	other := string(sealed(t, "u", []byte("payload?>"), b))
	j := strings.Index(other, `"sig":"`) + 7
	right := two[strings.LastIndex(two, `"sig":"`)+7:][:88]
	if strings.Index(two, b.Public().Fingerprint().String()) < strings.Index(two, id) {
		right = two[strings.Index(two, `"sig":"`)+7:][:88]
	}
	e, err := ParseEnvelope([]byte(strings.Replace(two, right, other[j:j+88], 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := e.Verify(publics(a, b), 1); !errors.As(err, new(*sign.SignatureInvalidError)) {
		t.Errorf("a signature of another type: %v", err)
	}
	if _, _, _, err := e.Verify(publics(a), 1); err != nil {
		t.Errorf("a stranger's bad signature: %v", err)
	}
	if _, err := NewEnvelope("t t", nil); err == nil {
		t.Error("a type of two words")
	}
	empty, _ := NewEnvelope("t", nil)
	if err := empty.Sign(key.Private{}); err == nil {
		t.Error("signed without a key")
	}
}

// A change of any byte of an envelope is refused, or changes neither what it says nor who says it.
func TestEnvelopeMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	a, b := keytest.Seeded(1), keytest.Seeded(2)
	payload, _ := sampleStatement().Append(nil)
	env := sealed(t, StatementPayload, payload, a, b)
	taken := 0
	for i := range env {
		for _, c := range []byte{env[i] ^ 1, env[i] ^ 0x20, env[i] ^ 0x80, ' ', '\n', '"', '0', 'A'} {
			bad := bytes.Clone(env)
			bad[i] = c
			e, err := ParseEnvelope(bad)
			if err != nil || bytes.Equal(bad, env) {
				continue
			}
			typ, p, signers, err := e.Verify(publics(a, b), 2)
			if err == nil {
				taken++
				if typ != StatementPayload || !bytes.Equal(p, payload) || len(signers) != 2 {
					t.Errorf("byte %d as %q: %q %q %v", i, c, typ, p, signers)
				}
			}
		}
	}
	if taken > 0 {
		t.Errorf("%d mutants of a canonical envelope were taken", taken)
	}
}

func TestStatementBad(t *testing.T) {
	good := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + strings.Repeat("a",
		64) + `"}}],"predicateType":"p","predicate":{}}`
	if s, err := ParseStatement([]byte(good)); err != nil || string(s.Predicate) != "{}" {
		t.Fatal(s, err)
	}
	full := strings.Replace(good, `{"digest"`,
		`{"name":"n","uri":"u","content":"","downloadLocation":"d","mediaType":"m","annotations":{},"digest"`, 1)
	if s, err := ParseStatement([]byte(full)); err != nil || s.Subjects[0].Name != "n" {
		t.Error(s, err)
	}
	if s, err := ParseStatement([]byte(strings.Replace(good, `,"predicate":{}`, "", 1))); err != nil ||
		s.Predicate != nil {
		t.Errorf("without a predicate: %+v, %v", s, err)
	}
	for name, bad := range map[string]string{
		"v0.1":            strings.Replace(good, "/v1", "/v0.1", 1),
		"no type":         strings.Replace(good, `"_type":"https://in-toto.io/Statement/v1",`, ``, 1),
		"unknown":         strings.Replace(good, `{"_type"`, `{"x":1,"_type"`, 1),
		"unknown subject": strings.Replace(good, `{"digest"`, `{"x":1,"digest"`, 1),
		"twice":           strings.Replace(good, `{"_type"`, `{"predicateType":"q","_type"`, 1),
		"no subject":      strings.Replace(good, `[{"digest":{"sha256":"`+strings.Repeat("a", 64)+`"}}]`, `[]`, 1),
		"no digest":       strings.Replace(good, `"sha256":"`+strings.Repeat("a", 64)+`"`, ``, 1),
		"upper case":      strings.Replace(good, strings.Repeat("a", 64), strings.Repeat("A", 64), 1),
		"short":           strings.Replace(good, strings.Repeat("a", 64), strings.Repeat("a", 63), 1),
		"number":          strings.Replace(good, `"`+strings.Repeat("a", 64)+`"`, `1`, 1),
		"name":            strings.Replace(good, `{"digest"`, `{"name":1,"digest"`, 1),
		"predicate":       strings.Replace(good, `{}`, `[]`, 1),
		"null predicate":  strings.Replace(good, `{}`, `null`, 1),
		"predicate type":  strings.Replace(good, `"p"`, `""`, 1),
		"not JSON":        "x",
	} {
		s, err := ParseStatement([]byte(bad))
		if err == nil || fault.CodeOf(err) != fault.Parsing || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	for _, s := range []*Statement{{}, {Subjects: []Subject{{}}, PredicateType: "p"},
		{Subjects: sampleStatement().Subjects, PredicateType: "p", Predicate: []byte("[]")}} {
		if b, err := s.Append([]byte("x")); err == nil || string(b) != "x" {
			t.Errorf("%+v is written as %s", s, b)
		}
	}
	for _, c := range []struct {
		a, b Digests
		want bool
	}{
		{Digests{"blake3": "1"}, Digests{"blake3": "1"}, true},
		{Digests{"blake3": "1"}, Digests{"blake3": "2"}, false},
		{Digests{"blake3": "1"}, Digests{"sha256": "1"}, false}, {nil, nil, false},
		{Digests{}, Digests{"a": "1"}, false},
		{Digests{"blake3": "1", "sha256": "2"}, Digests{"blake3": "1", "sha256": "3"}, false},
		{Digests{"blake3": "1", "sha256": "2"}, Digests{"blake3": "1", "sha512": "3"}, true},
	} {
		if c.a.Same(c.b) != c.want || c.b.Same(c.a) != c.want {
			t.Errorf("%v and %v", c.a, c.b)
		}
	}
}

// TestUnnamed: a signature that names no key counts for the key that made it, and for none otherwise. If it counted
// for another, anyone could attest in the name of a trusted builder. No key counts twice.
func TestUnnamed(t *testing.T) {
	a, b, stranger := keytest.Seeded(1), keytest.Seeded(2), keytest.Seeded(9)
	unnamed := func(keys ...key.Private) *Envelope {
		e, err := NewEnvelope("t", []byte("p"))
		if err == nil {
			err = e.Sign(keys...)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.signatures {
			e.signatures[i].keyID = ""
		}
		text, err := e.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if e, err = ParseEnvelope(text); err != nil || bytes.Contains(text, []byte("keyid")) {
			t.Fatalf("%s: %v", text, err)
		}
		return e
	}
	for name, c := range map[string]struct {
		envelope  *Envelope
		keys      []key.Public
		threshold int
		signers   []key.Public
	}{
		"a stranger's":         {unnamed(stranger), publics(a, b), 1, nil},
		"the second's":         {unnamed(b), publics(a, b), 1, publics(b)},
		"the first's":          {unnamed(a), publics(a, b), 1, publics(a)},
		"the first's, of two":  {unnamed(a), publics(a, b), 2, nil},
		"a stranger's and one": {unnamed(stranger, b), publics(a, b), 2, nil},
		"both":                 {unnamed(b, a), publics(a, b), 2, publics(a, b)},
		"a key given twice":    {unnamed(a), publics(a, a), 1, publics(a)},
	} {
		_, _, signers, err := c.envelope.Verify(c.keys, c.threshold)
		if (err == nil) != (c.signers != nil) || !reflect.DeepEqual(signers, c.signers) ||
			err != nil && fault.CodeOf(err) != fault.BelowThreshold {
			t.Errorf("%s: %v, %v", name, signers, err)
		}
	}
}

// TestVerifyStatementRefuses: without the signatures nothing is returned, nor of what is signed but no statement.
// A caller could take it for a build that a trusted key attested.
func TestVerifyStatementRefuses(t *testing.T) {
	a, b := keytest.Seeded(1), keytest.Seeded(2)
	payload, err := sampleStatement().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	about := DigestsOf(cas.Sum([]byte("manifest")))
	for name, c := range map[string]struct {
		envelope []byte
		code     fault.Code
	}{
		"no envelope":  {[]byte("x"), fault.Parsing},
		"by others":    {sealed(t, StatementPayload, payload, b), fault.BelowThreshold},
		"no statement": {sealed(t, StatementPayload, []byte("{}"), a), fault.Parsing},
	} {
		s, signers, err := VerifyStatement(c.envelope, publics(a), 1, samplePredicate, about)
		if fault.CodeOf(err) != c.code || s != nil || signers != nil {
			t.Errorf("%s: %v, %v, %v", name, s, signers, err)
		}
	}
}

// TestMost: what is written has the bounds of what is read, so that no attestation is made that no one can verify.
func TestMost(t *testing.T) {
	var keys []key.Private
	for i := range sign.MaxLines + 1 {
		keys = append(keys, keytest.Seeded(byte(i+1)))
	}
	e, err := NewEnvelope(strings.Repeat("~", 200), nil)
	if err == nil {
		err = e.Sign(keys[1:]...)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseEnvelope(text); err != nil {
		t.Error(err)
	}
	if err := e.Sign(keys[0]); fault.CodeOf(err) != fault.Parsing {
		t.Errorf("%d signatures: %v", len(keys), err)
	}
	for _, payloadType := range []string{"", "t\x7f", "t\n", strings.Repeat("t", 201)} {
		if _, err := NewEnvelope(payloadType, nil); err == nil {
			t.Errorf("%q is a type", payloadType)
		}
	}
	if _, err := NewEnvelope("t", make([]byte, MaxEnvelope/4*3)); err == nil {
		t.Error("a payload that no envelope has room for")
	}
	many := Digests{}
	for i := range 33 {
		many[fmt.Sprint("d", i)] = "aa"
	}
	subjects := make([]Subject, maxSubjects+1)
	for i := range subjects {
		subjects[i].Digests = Digests{"x": "aa"}
	}
	for name, c := range map[string]struct {
		subjects []Subject
		good     bool
	}{
		"256 digits":          {[]Subject{{Digests: Digests{"x": strings.Repeat("a", 256)}}}, true},
		"257 digits":          {[]Subject{{Digests: Digests{"x": strings.Repeat("a", 257)}}}, false},
		"no digits":           {[]Subject{{Digests: Digests{"x": ""}}}, false},
		"63 digits of SHA256": {[]Subject{{Digests: Digests{"sha256": strings.Repeat("a", 63)}}}, false},
		"no algorithm":        {[]Subject{{Digests: Digests{"": "aa"}}}, false},
		"33 digests":          {[]Subject{{Digests: many}}, false},
		"many subjects":       {subjects[1:], true},
		"too many subjects":   {subjects, false},
	} {
		s := &Statement{Subjects: c.subjects, PredicateType: "p"}
		if _, err := s.Append(nil); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	canonical := &Statement{Subjects: subjects[:1], PredicateType: "p", Predicate: []byte(`{"a":1}`), Canonical: true}
	if text, err := canonical.Append(nil); err != nil || !bytes.Contains(text, []byte(`"predicate":{"a":1}`)) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := ParseStatement(make([]byte, MaxEnvelope+1)); err == nil ||
		!strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}
