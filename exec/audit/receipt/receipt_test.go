package receipt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var machineKey, userKey, stranger = keytest.Named("machine"), keytest.Named("user"), keytest.Named("stranger")

func public(keys ...key.Private) (out []key.Public) {
	for _, k := range keys {
		out = append(out, k.Public())
	}
	return out
}

func voucher(t testing.TB) []byte {
	t.Helper()
	b, err := Vouch(machineKey.Public(), "build-7", userKey, noon)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(word string) cas.Digest { return cas.Sum([]byte(word)) }

func sample(id, parent string) Receipt {
	return Receipt{
		Call: record.Call{ID: id, Parent: parent, Ref: "tool:demo/hi", Digest: digest("hi"), Params: digest("{}"),
			Lock: digest("lock"), Sandbox: "landlock+seccomp"},
		Outcome: record.End{Status: record.OK, Result: digest("result"), Duration: time.Second},
		Begin:   noon, End: noon.Add(1500 * time.Millisecond),
	}
}

func sealed(t testing.TB, r Receipt) []byte {
	t.Helper()
	b, err := New(r, machineKey, voucher(t))
	must(t, err)
	return b
}

func TestReceipt(t *testing.T) {
	r := sample("a", "p")
	r.Children = []Child{{"b", digest("b")}, {"c", digest("c")}}
	r.Log = record.Position{Segment: "20261120T120000Z-0123456789abcdef", Line: 12, Sum: digest("line")}
	b := sealed(t, r)
	goldentest.File(t, "testdata/receipt.json", b)
	for _, c := range []struct {
		name string
		keys []key.Public
		by   key.Private
	}{
		{"the machine's key", public(machineKey), machineKey},
		{"the user's key", public(userKey), userKey},
		{"several", public(stranger, userKey), userKey},
	} {
		got, err := Verify(b, c.keys)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := r
		want.Machine, want.By, want.Digest = machineKey.Public(), c.by.Public(), cas.Sum(b)
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	// Without keys, with another's, without a voucher.
	for _, keys := range [][]key.Public{nil, public(stranger)} {
		if _, err := Verify(b, keys); err == nil || fault.CodeOf(err) != fault.UntrustedKey ||
			errors.Unwrap(err) == nil || !strings.HasSuffix(err.Error(), "which none of the keys vouches for") {
			t.Error(err)
		}
	}
	b, err := New(r, machineKey, nil)
	must(t, err)
	if _, err := Verify(b, public(machineKey)); err != nil {
		t.Error(err)
	}
	want := "receipt: signed by machine " + machineKey.Public().Fingerprint().Short() +
		", which none of the keys vouches for"
	if _, err := Verify(b, public(userKey)); err == nil || err.Error() != want {
		t.Error(err)
	}
}

// A receipt in which anything is changed is refused.
func TestTampered(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	b := sealed(t, sample("a", ""))
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 1
		if r, err := Verify(c, public(userKey)); err == nil {
			t.Fatalf("byte %d: %+v", i, r)
		}
	}
	// What the machine signed in another envelope, or another machine with its voucher.
	e, err := attest.ParseEnvelope(b)
	must(t, err)
	payloadType, payload := e.Unverified()
	forged, err := attest.NewEnvelope(payloadType, payload)
	must(t, err)
	must(t, forged.Sign(stranger))
	c, err := forged.Append(nil)
	must(t, err)
	if _, err := Verify(c, public(userKey)); fault.CodeOf(err) != fault.BelowThreshold {
		t.Error(err)
	}
	if _, err := Verify(c, public(stranger)); err == nil {
		t.Error("signed by another than it says")
	}
	c, err = New(sample("a", ""), stranger, voucher(t))
	must(t, err)
	// The voucher is about another machine.
	if _, err := Verify(c, public(userKey)); fault.CodeOf(err) != fault.UntrustedKey ||
		fault.CodeOf(errors.Unwrap(err)) != fault.Integrity {
		t.Error(err)
	}
}

// signed is an envelope by the machine over anything.
func signed(t testing.TB, payloadType string, payload []byte) []byte {
	e, err := attest.NewEnvelope(payloadType, payload)
	must(t, err)
	must(t, e.Sign(machineKey))
	b, err := e.Append(nil)
	must(t, err)
	return b
}

// What the machine signed and isn't as a receipt is written.
func TestForm(t *testing.T) {
	r := sample("a", "")
	r.Machine = machineKey.Public()
	r.Children = []Child{{"b", digest("b")}}
	good, err := r.payload(nil)
	must(t, err)
	if _, err := Verify(signed(t, attest.StatementPayload, good), public(machineKey)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{PredicateType, "https://example.org/x",
			`receipt: expected predicate type "https://github.com/rye-build/rye/receipt/v1", found "https://example.org/x"`},
		{`"begin"`, `"bagin"`, "receipt: invalid begin or end time"},
		{`"begin":"2026`, `"begin":"20260`, "receipt: invalid begin or end time"},
		{`"begin":"`, `"begin":1,"x":"`, "receipt: invalid predicate: "},
		{`.000Z"`, `Z"`, "receipt: invalid begin or end time"},
		{`"id":"a"`, `"id":"a b"`, `receipt: call: audit: id "a b" must be 1 to 128 letters`},
		{`"lock":`, `"look":`, "receipt: call: not in canonical form"},
		{`"status":"ok"`, `"status":"so"`, "receipt: outcome: audit: status"},
		{`"key":"` + machineKey.Public().String() + `"`, `"kay":"x"`, "receipt: the machine's key is missing"},
		{`"call":"b"`, `"call":"a"`, `receipt: the child "a" is a duplicate, is the call itself, or has no receipt`},
		{`"call":"b"`, `"call":"/"`, `receipt: audit: id "/"`},
		{`"name":"result"`, `"name":"other"`, "receipt: not in canonical form"},
		{`"machine":{`, `"machine":{"also":1,`, "receipt: not in canonical form"},
		{`{"at`, `{"at`, ""},
	} {
		b := bytes.Replace(good, []byte(c.from), []byte(c.to), 1)
		if c.want == "" {
			b = append([]byte(" "), good...)
			c.want = "receipt: not in canonical form"
		} else if bytes.Equal(b, good) {
			t.Fatalf("%s isn't there", c.from)
		} else if canonical, err := jcs.Canonical(nil, b); err == nil {
			b = canonical
		}
		if _, err := Verify(signed(t, attest.StatementPayload, b), public(machineKey)); err == nil ||
			!strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.to, err, c.want)
		}
	}
	if _, err := Verify(signed(t, "text/plain", good), public(machineKey)); err == nil ||
		!strings.Contains(err.Error(), `found "text/plain"`) {
		t.Error(err)
	}
	if _, err := Verify(signed(t, attest.StatementPayload, []byte("{}")), public(machineKey)); err == nil {
		t.Error("no statement")
	}
	if _, err := Verify([]byte("{}"), public(machineKey)); err == nil {
		t.Error("no envelope")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(*Receipt)
	}{
		{"receipt: audit: ref is missing", func(r *Receipt) { r.Call.Ref = "" }},
		{`receipt: audit: status "" is not a valid status`, func(r *Receipt) { r.Outcome.Status = "" }},
		{"receipt: the outcome must not name a receipt", func(r *Receipt) { r.Outcome.Receipt = digest("x") }},
		{"receipt: invalid begin or end time", func(r *Receipt) { r.End = time.Time{} }},
		{`receipt: the child "b" is a duplicate, is the call itself, or has no receipt`, func(r *Receipt) {
			r.Children = []Child{{"b", digest("b")}, {"b", digest("c")}}
		}},
		{"receipt: 32769 child calls, at most 32768 are allowed", func(r *Receipt) {
			r.Children = make([]Child, MaxChildren+1)
		}},
	} {
		r := sample("a", "")
		c.edit(&r)
		if _, err := New(r, machineKey, nil); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := New(sample("a", ""), key.Private{}, nil); err == nil || err.Error() != "receipt: no signing key" {
		t.Error(err)
	}
	if _, err := New(sample("a", ""), machineKey, []byte("x")); err == nil {
		t.Error("no voucher")
	}
}

func TestTree(t *testing.T) {
	store := map[cas.Digest][]byte{}
	put := func(r Receipt) Child {
		b := sealed(t, r)
		store[cas.Sum(b)] = b
		return Child{r.Call.ID, cas.Sum(b)}
	}
	get := func(d cas.Digest) ([]byte, error) {
		if b, ok := store[d]; ok {
			return b, nil
		}
		return nil, os.ErrNotExist
	}
	middle := sample("b", "a")
	middle.Children = []Child{put(sample("d", "b")), put(sample("e", "b"))}
	root := sample("a", "")
	root.Children = []Child{put(middle), put(sample("c", "a"))}
	var got []string
	show := func(depth int, r *Receipt) error {
		got = append(got, fmt.Sprint(depth, r.Call.ID))
		return nil
	}
	must(t, VerifyTree(sealed(t, root), public(userKey), get, show))
	if s := fmt.Sprint(got); s != "[0a 1b 2d 2e 1c]" {
		t.Error(s)
	}
	// Everything that a link can be wrong in.
	good := root.Children[0]
	other := put(sample("x", "a"))
	orphan := put(sample("b", "z"))
	foreign, err := New(sample("b", "a"), stranger, nil)
	must(t, err)
	store[cas.Sum(foreign)] = foreign
	short := good.Receipt.Short()
	for _, c := range []struct {
		child Child
		edit  func()
		code  fault.Code
		want  string
	}{
		{Child{"b", other.Receipt}, nil, fault.Integrity, `it is about the call "x" of "a"`},
		{Child{"b", orphan.Receipt}, nil, fault.Integrity, `it is about the call "b" of "z"`},
		{Child{"b", digest("none")}, nil, fault.NotFound, "file does not exist"},
		{Child{"b", cas.Sum(foreign)}, nil, fault.UntrustedKey, "none of the keys vouches"},
		{good, func() {
			store[good.Receipt] = foreign
		}, fault.Integrity, `receipt: child "b" of "a", ` + short + ": found another receipt"},
	} {
		r := sample("a", "")
		r.Children = []Child{c.child}
		if c.edit != nil {
			c.edit()
		}
		var link *LinkError
		err := VerifyTree(sealed(t, r), public(userKey), get, show)
		if !errors.As(err, &link) || link.Child != c.child || link.Parent != "a" || fault.CodeOf(err) != c.code ||
			!strings.Contains(err.Error(), c.want) || errors.Unwrap(err) == nil {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	stop := errors.New("stop")
	for at := range 2 {
		n := 0
		err := VerifyTree(sealed(t, root), public(userKey), func(d cas.Digest) ([]byte, error) {
			return sealed(t, middle), nil
		}, func(int, *Receipt) error {
			if n++; n > at {
				return stop
			}
			return nil
		})
		if err != stop {
			t.Error(err)
		}
	}
	if err := VerifyTree([]byte("x"), public(userKey), get, show); err == nil {
		t.Error("no receipt")
	}
	// Deep ones end.
	child := Child{}
	for i := MaxDepth + 2; i >= 0; i-- {
		r := sample(fmt.Sprint("c", i), fmt.Sprint("c", i-1))
		if child.Call != "" {
			r.Children = []Child{child}
		}
		child = put(r)
	}
	if err := VerifyTree(store[child.Receipt], public(userKey), get, func(int, *Receipt) error {
		return nil
	}); err == nil || !strings.Contains(err.Error(), "deeper than 64") {
		t.Error(err)
	}
}

// Nothing is accepted that the machine didn't sign, and nothing panics.
func FuzzVerify(f *testing.F) {
	good, err := New(sample("a", ""), machineKey, voucher(f))
	must(f, err)
	f.Add(good)
	r := sample("b", "a")
	r.Machine = machineKey.Public()
	payload, err := r.payload(nil)
	must(f, err)
	f.Add(payload)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Verify(b, public(userKey)); err == nil && r.Call.ID != "a" {
			t.Errorf("%+v", r)
		}
		if r, v, err := parse(b); err == nil {
			if again, err := r.payload(v); err != nil || !bytes.Equal(again, b) {
				t.Errorf("%q, %v", b, err)
			}
		}
		var invalid *sign.SignatureInvalidError
		if _, err := Verify(signed(t, attest.StatementPayload, b), public(machineKey)); errors.As(err, &invalid) {
			t.Error(err)
		}
	})
}

func BenchmarkReceipt(b *testing.B) {
	v := voucher(b)
	r := sample("a", "")
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			if _, err := New(r, machineKey, v); err != nil {
				b.Fatal(err)
			}
		}
	})
	text := sealed(b, r)
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if _, err := Verify(text, public(userKey)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
