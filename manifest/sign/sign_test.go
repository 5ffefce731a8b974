package sign_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var (
	now   = time.Date(2026, 11, 20, 9, 0, 0, 123, time.FixedZone("", 3600)).Add(time.Hour)
	claim = sign.Claim{Domain: sign.Item, Name: "tool:demo/hi"}

	alice = keytest.Seeded(1)
	bob   = keytest.Seeded(2)
	carol = keytest.Seeded(3)
)

func known(keys ...key.Private) sign.Keys {
	return func(f key.Fingerprint) (key.Public, bool) {
		for _, k := range keys {
			if k.Public().Fingerprint() == f {
				return k.Public(), true
			}
		}
		return key.Public{}, false
	}
}

func mustSign(t testing.TB, file string, style sign.Style, keys ...key.Private) []byte {
	t.Helper()
	b := []byte(file)
	for _, k := range keys {
		var err error
		if b, err = sign.Sign(b, style, claim, k, now, nil); err != nil {
			t.Fatalf("%q: %v", file, err)
		}
	}
	return b
}

func mustRead(t testing.TB, file []byte, style sign.Style) sign.Signed {
	t.Helper()
	s, err := sign.ReadBytes(file, style)
	if err != nil {
		t.Fatalf("%q: %v", file, err)
	}
	if s.Raw != cas.Sum(file) {
		t.Errorf("%q: raw digest is %v", file, s.Raw)
	}
	return s
}

// mustCheck wants exactly these signers.
func mustCheck(t testing.TB, file []byte, style sign.Style, keys ...key.Private) {
	t.Helper()
	got, err := sign.Check(mustRead(t, file, style), claim, known(keys...))
	if err != nil {
		t.Fatalf("%q: %v", file, err)
	}
	for _, k := range keys {
		want := sign.Signer{Key: k.Public(), Time: now.UTC().Truncate(time.Second), Format: sign.V2}
		if len(got) != len(keys) || !slices.Contains(got, want) {
			t.Errorf("%q: signers %v, want %v", file, got, want)
		}
	}
}

func check(file string, style sign.Style, c sign.Claim, keys ...key.Private) error {
	s, err := sign.ReadBytes([]byte(file), style)
	if err != nil {
		return err
	}
	got, err := sign.Check(s, c, known(keys...))
	if (err == nil) != (len(got) > 0) {
		panic(fmt.Sprint(got, err))
	}
	return err
}

func TestSignAgain(t *testing.T) {
	once := mustSign(t, "x\n", sign.Hash, alice, bob, carol)
	s := mustRead(t, once, sign.Hash)
	if !slices.IsSortedFunc(s.Lines, func(a, b sign.Line) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	}) {
		t.Errorf("not sorted:\n%s", once)
	}
	for _, k := range []key.Private{alice, bob, carol} {
		later, err := sign.Sign(once, sign.Hash, claim, k, now.Add(time.Hour), known(alice, bob))
		if err != nil || !bytes.Equal(later, once) {
			t.Errorf("signing again made\n%s, %v", later, err)
		}
	}
	if other := mustSign(t, "x\n", sign.Hash, carol, alice, bob); !bytes.Equal(other, once) {
		t.Errorf("the order of signing shows:\n%s\n%s", once, other)
	}
}

// What is about something else goes when the file is signed for what it is.
func TestSignDrops(t *testing.T) {
	file := string(mustSign(t, "x\n", sign.Hash, alice, bob))
	edited, err := sign.Sign([]byte(strings.Replace(file, "x\n", "y\n", 1)), sign.Hash, claim, alice, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(edited) != string(mustSign(t, "y\n", sign.Hash, alice)) {
		t.Errorf("after an edit:\n%s", edited)
	}
	moved := claim
	moved.Name = "tool:demo/moved"
	for _, c := range []struct {
		known sign.Keys
		want  int
	}{{nil, 2}, {known(carol), 2}, {known(bob), 1}} {
		got, err := sign.Sign([]byte(file), sign.Hash, moved, alice, now, c.known)
		if err != nil {
			t.Fatal(err)
		}
		s := mustRead(t, got, sign.Hash)
		if _, err := sign.Check(s, moved, known(alice)); err != nil || len(s.Lines) != c.want {
			t.Errorf("after a move: %v\n%s", err, got)
		}
	}
	tree := claim
	tree.Tree = cas.Sum(nil)
	got, err := sign.Sign([]byte(file), sign.Hash, tree, alice, now, nil)
	if err != nil || len(mustRead(t, got, sign.Hash).Lines) != 1 || check(string(got), sign.Hash, tree, alice) != nil {
		t.Errorf("for a tree: %v\n%s", err, got)
	}
	// A line of our own that was damaged is made anew.
	broken := mutateSig(file, mustRead(t, []byte(file), sign.Hash).Lines[0])
	k := alice
	if mustRead(t, []byte(file), sign.Hash).Lines[0].Key != alice.Public().Fingerprint() {
		k = bob
	}
	if got, err := sign.Sign([]byte(broken), sign.Hash, claim, k, now, nil); err != nil || string(got) != file {
		t.Errorf("mended: %v\n%s", err, got)
	}
}

// mutateSig makes a well-formed signature that doesn't hold.
func mutateSig(file string, l sign.Line) string {
	bad := l
	bad.Sig[0] ^= 1
	return strings.Replace(file, l.String(), bad.String(), 1)
}

func TestSignClaims(t *testing.T) {
	for _, c := range []sign.Claim{{}, {Domain: sign.Item}, {Domain: "rye/v2/items", Name: "x"},
		{Domain: "", Name: "x"}, {Domain: sign.Item, Name: "a b"},
		{Domain: sign.Item, Name: "a\n"}, {Domain: sign.Item, Name: "ä"}, {Domain: sign.Item, Name: "\x00"},
		{Domain: sign.Item, Name: long + "x"}} {
		if _, err := sign.Sign([]byte("x\n"), sign.Hash, c, alice, now, nil); err == nil ||
			fault.CodeOf(err) != fault.Validation {
			t.Errorf("%q: %v", c, err)
		}
		if err := check(string(mustSign(t, "x\n", sign.Hash, alice)), sign.Hash, c, alice); err == nil ||
			fault.CodeOf(err) != fault.Validation {
			t.Errorf("%q: %v", c, err)
		}
		if c.Holds(sign.Line{}, alice.Public()) {
			t.Errorf("%q holds", c)
		}
	}
	for _, when := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, err := sign.Sign([]byte("x\n"), sign.Hash, claim, alice, when, nil); err == nil {
			t.Errorf("signed in the year %d", when.Year())
		}
	}
	for _, d := range []sign.Domain{sign.Item, sign.Manifest, sign.Policy, sign.Revocations, sign.Rotation, sign.Index,
		sign.Token, sign.Transcript, sign.Audit, sign.Advisories} {
		c := sign.Claim{Domain: d, Name: long}
		l, err := sign.New(cas.Sum(nil), c, alice, now)
		if err != nil || !c.Holds(l, alice.Public()) || c.Holds(l, bob.Public()) {
			t.Errorf("%s: %v", d, err)
		}
		for _, other := range []sign.Claim{{Domain: sign.Item, Name: "x"}, {Domain: sign.Audit, Name: long},
			{Domain: d, Name: long, Tree: cas.Sum(nil)}} {
			if other.Holds(l, alice.Public()) && other != c {
				t.Errorf("%s holds for %v", d, other)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	file := string(mustSign(t, "x\n", sign.Hash, alice, bob))
	s := mustRead(t, []byte(file), sign.Hash)
	for _, keys := range [][]key.Private{{alice}, {bob}, {alice, bob}} {
		if got, err := sign.Check(s, claim, known(append(keys, carol)...)); err != nil || len(got) != len(keys) {
			t.Errorf("%v, %v", got, err)
		}
	}
	var unknown *sign.UnknownKeyError
	if err := check(file, sign.Hash, claim, carol); !errors.As(err, &unknown) || len(unknown.Keys) != 2 ||
		!strings.Contains(err.Error(), unknown.Keys[0]) {
		t.Errorf("of strangers: %v", err)
	}
	// A key is found by what it is, not by what it is called.
	liar := func(key.Fingerprint) (key.Public, bool) { return carol.Public(), true }
	if _, err := sign.Check(s, claim, liar); !errors.As(err, &unknown) {
		t.Errorf("by another key under the name: %v", err)
	}
	if _, err := sign.Check(s, claim, func(key.Fingerprint) (key.Public, bool) {
		return key.Public{}, true
	}); !errors.As(err, &unknown) {
		t.Errorf("by no key: %v", err)
	}
	other := claim
	other.Name = "tool:demo/ho"
	var invalid *sign.SignatureInvalidError
	if err := check(file, sign.Hash, other, alice); !errors.As(err, &invalid) ||
		invalid.Key != alice.Public().Fingerprint() || !strings.Contains(err.Error(), other.Name) {
		t.Errorf("as something else: %v", err)
	}
	other = claim
	other.Domain = sign.Manifest
	if err := check(file, sign.Hash, other, alice); !errors.As(err, &invalid) {
		t.Errorf("in another domain: %v", err)
	}
	var integrity *sign.IntegrityError
	other = claim
	other.Tree = cas.Sum(nil)
	if err := check(file, sign.Hash, other, alice); !errors.As(err, &integrity) || integrity.What != "tree" ||
		integrity.Expected != "none" {
		t.Errorf("with a tree: %v", err)
	}
	// Of one who is known and bad and one who is known and good, the bad one decides; a stranger's doesn't.
	for i, l := range s.Lines {
		broken := mutateSig(file, l)
		for _, k := range []key.Private{alice, bob} {
			err := check(broken, sign.Hash, claim, k)
			if isBad := k.Public().Fingerprint() == l.Key; isBad != errors.As(err, &invalid) || !isBad && err != nil {
				t.Errorf("line %d: %v", i, err)
			}
		}
		if err := check(broken, sign.Hash, claim, alice, bob); !errors.As(err, &invalid) {
			t.Errorf("line %d: %v", i, err)
		}
	}
	if err := check("x\n", sign.Hash, claim, alice); err != sign.ErrUnsigned {
		t.Error(err)
	}
	// Damage and strangers are told apart.
	for _, k := range []key.Private{alice, carol} {
		err := check(strings.Replace(file, "x\n", "y\n", 1), sign.Hash, claim, k)
		if !errors.As(err, &integrity) || integrity.Expected != cas.Sum([]byte("x\n")).String() ||
			integrity.Found != cas.Sum([]byte("y\n")).String() || integrity.OnlyLineEndings {
			t.Errorf("after an edit: %v", err)
		}
	}
}

// A line of a known key for other content spoils lines that fit.
func TestCheckStale(t *testing.T) {
	old := mustRead(t, mustSign(t, "x\n", sign.Hash, alice), sign.Hash).Lines[0]
	fresh := mustRead(t, mustSign(t, "y\n", sign.Hash, bob), sign.Hash).Lines[0]
	lines := []sign.Line{old, fresh}
	slices.SortFunc(lines, func(a, b sign.Line) int { return a.Key.Compare(b.Key) })
	file := "# " + lines[0].String() + "\n# " + lines[1].String() + "\ny\n"
	var integrity *sign.IntegrityError
	if err := check(file, sign.Hash, claim, alice, bob); !errors.As(err, &integrity) ||
		integrity.Expected != old.Digest.String() {
		t.Error(err)
	}
	if err := check(file, sign.Hash, claim, bob); err != nil {
		t.Error(err)
	}
	_, err := sign.CheckLines(lines, fresh.Digest, claim, known(bob))
	if err != nil {
		t.Error(err)
	}
	slices.Reverse(lines)
	if _, err = sign.CheckLines(lines, fresh.Digest, claim, known(bob)); !errors.As(err, &integrity) {
		t.Errorf("out of order: %v", err)
	}
	if _, err = sign.CheckLines([]sign.Line{fresh, fresh}, fresh.Digest, claim, known(bob)); !errors.As(err,
		&integrity) {
		t.Errorf("one twice: %v", err)
	}
	later, err := sign.New(fresh.Digest, claim, bob, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = sign.CheckLines([]sign.Line{later, fresh}, fresh.Digest, claim, known(bob)); !errors.As(err,
		&integrity) {
		t.Errorf("two valid lines of one key: %v", err)
	}
	if _, err = sign.CheckLines(nil, fresh.Digest, claim, known(bob)); err != sign.ErrUnsigned {
		t.Errorf("none: %v", err)
	}
}

func TestMaxLines(t *testing.T) {
	var file []byte = []byte("x\n")
	var keys []key.Private
	var lines []sign.Line
	for i := range sign.MaxLines {
		keys = append(keys, keytest.Seeded(byte(10+i)))
		file = mustSign(t, string(file), sign.Hash, keys[i])
	}
	mustCheck(t, file, sign.Hash, keys...)
	if _, err := sign.Sign(file, sign.Hash, claim, alice, now, nil); err != sign.ErrTooMany {
		t.Errorf("signed by a 17th: %v", err)
	}
	if again := mustSign(t, string(file), sign.Hash, keys[7]); !bytes.Equal(again, file) {
		t.Error("the eighth can't sign again")
	}
	extra := mustRead(t, mustSign(t, "x\n", sign.Hash, alice), sign.Hash).Lines[0]
	lines = append(mustRead(t, file, sign.Hash).Lines, extra)
	slices.SortFunc(lines, func(a, b sign.Line) int { return a.Key.Compare(b.Key) })
	if _, err := sign.CheckLines(lines, extra.Digest, claim, known(alice)); err != sign.ErrTooMany {
		t.Errorf("17 lines: %v", err)
	}
	for _, n := range []int{17, 18, 100, 10_000} {
		var b strings.Builder
		for i := range n {
			b.WriteString("# " + lines[i%17].String() + "\n")
		}
		b.WriteString("x\n")
		err := check(b.String(), sign.Hash, claim, keys...)
		var integrity *sign.IntegrityError
		if !errors.As(err, &integrity) || !strings.Contains(err.Error(), "more than 16") {
			t.Errorf("%d lines: %v", n, err)
		}
		if _, err := sign.Sign([]byte(b.String()), sign.Hash, claim, alice, now, nil); err == nil {
			t.Errorf("signed below %d lines", n)
		}
	}
}

// What stands out of place or order is put right by signing; what can't be read is not.
func TestSignRepairs(t *testing.T) {
	file := string(mustSign(t, "x\n", sign.Hash, alice, bob))
	s := mustRead(t, []byte(file), sign.Hash)
	a, b := "# "+s.Lines[0].String()+"\n", "# "+s.Lines[1].String()+"\n"
	for _, broken := range []string{b + a + "x\n", a + a + b + "x\n", a + b + b + "x\n",
		strings.ReplaceAll(a+b, "\n", "\r\n") + "x\n"} {
		if err := check(broken, sign.Hash, claim, alice); err == nil {
			t.Errorf("accepted:\n%s", broken)
		}
		if got := mustSign(t, broken, sign.Hash, alice); string(got) != file {
			t.Errorf("got\n%s, want\n%s", got, file)
		}
		if got, err := sign.Strip([]byte(broken), sign.Hash); err != nil || string(got) != "x\n" {
			t.Errorf("stripped to %q, %v", got, err)
		}
	}
	script := mustSign(t, "#!/bin/sh\nx\n", sign.Hash, alice)
	line, rest := strings.Split(string(script), "\n")[1]+"\n", "#!/bin/sh\nx\n"
	if got := mustSign(t, line+rest, sign.Hash, alice); !bytes.Equal(got, script) {
		t.Errorf("got\n%s, want\n%s", got, script)
	}
	var integrity *sign.IntegrityError
	var version *sign.VersionError
	for _, broken := range []string{strings.Replace(file, ":v2:2", ":v2:3x", 1), strings.TrimSuffix(a, "\n"),
		a + strings.TrimSuffix(b, "\n"), "# rye:signed:v2:\nx\n"} {
		if _, err := sign.Sign([]byte(broken), sign.Hash, claim, alice, now, nil); !errors.As(err, &integrity) {
			t.Errorf("%q: %v", broken, err)
		}
		if _, err := sign.Strip([]byte(broken), sign.Hash); !errors.As(err, &integrity) {
			t.Errorf("%q: %v", broken, err)
		}
	}
	for _, broken := range []string{a + "# rye:signed:v3:something else\nx\n", "# rye:signed:v10:\nx\n",
		a + "# rye:signed:v3:x\n# rye:signed:v2:x\n"} {
		if _, err := sign.Sign([]byte(broken), sign.Hash, claim, alice, now, nil); !errors.As(err, &version) {
			t.Errorf("%q: %v", broken, err)
		}
		if err := check(broken, sign.Hash, claim, alice); !errors.As(err, &version) ||
			!strings.HasPrefix(version.Found, "v") {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func TestRewrite(t *testing.T) {
	file := mustSign(t, "x\ny\n", sign.Hash, alice)
	s := mustRead(t, file, sign.Hash)
	for _, other := range []string{"", "#", strings.Replace(string(file), "x\ny", "x\nz", 1), string(file) + "\n",
		string(file[1:])} {
		if err := s.Rewrite(io.Discard, strings.NewReader(other), s.Lines); err != sign.ErrChanged {
			t.Errorf("%q: %v", other, err)
		}
	}
	boom := errors.New("boom")
	if err := s.Rewrite(failing{boom}, bytes.NewReader(file), nil); err != boom {
		t.Error(err)
	}
	if err := s.Rewrite(io.Discard, failing{boom}, nil); err != boom {
		t.Error(err)
	}
	if _, err := sign.Read(failing{boom}, sign.Hash); err != boom {
		t.Error(err)
	}
	big := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), failing{boom})
	if _, err := sign.Read(big, sign.Hash); err != boom {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// What Make made or verified isn't verified again, and nothing else passes for it.
func TestMake(t *testing.T) {
	file := mustSign(t, "text\n", sign.Hash, bob)
	make := func(keys ...key.Private) *sign.Made {
		m, err := sign.Make(file, sign.Hash, claim, alice, now, known(keys...))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if _, err := mustRead(t, file, sign.Hash).Make(bytes.Replace(file, []byte("text"), []byte("test"), 1), claim,
		alice, now, known(bob)); err != sign.ErrChanged {
		t.Errorf("another file: %v", err)
	}
	m := make(bob)
	if got, err := sign.Check(m.After, claim, known(alice, bob)); err != nil || len(got) != 2 ||
		len(m.Before.Lines) != 1 {
		t.Errorf("%v, %v, %d lines before", got, err, len(m.Before.Lines))
	}
	other := claim
	other.Name = "tool:demo/other"
	if got, err := sign.Check(m.After, other, known(alice)); err == nil {
		t.Errorf("signed as another name: %v", got)
	}
	for i := range m.After.Lines {
		m := make(bob)
		m.After.Lines[i].Sig[40] ^= 1
		if got, err := sign.Check(m.After, claim, known(alice, bob)); err == nil {
			t.Errorf("with another signature in line %d: %v", i, got)
		}
		m = make(bob)
		m.After.Lines[i].Time = m.After.Lines[i].Time.Add(time.Second)
		if got, err := sign.Check(m.After, claim, known(alice, bob)); err == nil {
			t.Errorf("with another time in line %d: %v", i, got)
		}
	}
	// Bob's line isn't verified while his key is unknown.
	file[len(file)-len("text\n")-70] ^= 1
	m, err := sign.Make(file, sign.Hash, claim, alice, now, nil)
	if err != nil || len(m.After.Lines) != 2 {
		t.Fatal(m, err)
	}
	if got, err := sign.Check(m.After, claim, known(alice, bob)); err == nil {
		t.Errorf("a line that was never verified counts: %v", got)
	}
}
