package registry

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest/policy/glob"
)

var sealKeyOfTests = bytes.Repeat([]byte{1}, 32)

// TestSeal: a ceremony that another registry sealed, or that was changed, is none.
func TestSeal(t *testing.T) {
	c := ceremony{Purpose: toEnrol, Account: "ada", Bound: "link/1", Challenge: []byte{1, 2, 3},
		Expires: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	sealed, err := c.seal(sealKeyOfTests)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "eyJwdXJwb3NlIjoiZW5yb2wiLCJhY2NvdW50IjoiYWRhIiwiYm91bmQiOiJsaW5rLzEiLCJjaGFsbGVuZ2UiOiJBUUlEIiwiZXhw" +
		"aXJlcyI6IjIwMjYtMTEtMjBUMTI6MDA6MDBaIn0.1ZU22HTjR7z63-D9jwIYBkyeS0oU_u1oQfrcPL5KLkA"
	if sealed != golden {
		t.Errorf("sealed:\n%s, want\n%s", sealed, golden)
	}
	if back, err := unseal(sealKeyOfTests, sealed); err != nil || back.Account != "ada" || back.Bound != "link/1" ||
		!back.Expires.Equal(c.Expires) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := unseal(bytes.Repeat([]byte{2}, 32), sealed); err == nil {
		t.Error("another registry's ceremony counts")
	}
	for i := range sealed {
		bad := []byte(sealed)
		bad[i] ^= 1
		if _, err := unseal(sealKeyOfTests, string(bad)); err == nil {
			t.Errorf("with another byte %d it counts", i)
		}
	}
}

// FuzzUnseal: what was sealed is what comes out, and nothing else comes out.
func FuzzUnseal(f *testing.F) {
	c := ceremony{Purpose: toSignIn, Challenge: []byte{1}, Expires: time.Unix(1, 0).UTC()}
	sealed, err := c.seal(sealKeyOfTests)
	if err != nil {
		f.Fatal(err)
	}
	payload, _ := json.Marshal(c)
	end := len(sealed) - 4
	for _, text := range []string{sealed, sealed[:end] + "\r\n" + sealed[end:], "", ".",
		rawURL.EncodeToString(payload),
		rawURL.EncodeToString(payload) + "."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := unseal(sealKeyOfTests, text)
		if err != nil {
			return
		}
		if again, err := c.seal(sealKeyOfTests); err != nil || again != text {
			t.Errorf("%s becomes %s, %v", text, again, err)
		}
	})
}

// FuzzCode: whatever a person types leads to a row's name, and what stands between the letters doesn't count.
func FuzzCode(f *testing.F) {
	for _, text := range []string{"WDJB-MJHT", "wdjb mjht", "", "\xff", "İ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if row := codeRow(text); len(row) != len("code/")+64 || len(text) < 50 && codeRow(" -"+text+"-") != row {
			t.Errorf("%q: %s", text, row)
		}
	})
}

// FuzzWithin: a token that another one may make is for no bundle that the other isn't for.
func FuzzWithin(f *testing.F) {
	for _, seed := range [][3]string{{"acme/**", "acme/x", "acme/x"}, {"**", "a*/**", "ab/c"},
		{"acme/*", "acme/x", "acme/x"},
		{"x/**", "xy/**", "xy/z"}, {"bundle:a/**", "a/b", "a/b"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, own, name, id string) {
		mine, err := glob.Parse(own)
		if err != nil {
			return
		}
		theirs, err := glob.Parse(name)
		if err != nil {
			return
		}
		by := &Caller{Token: &Token{Scopes: Scopes, Names: []string{own}, Expires: time.Unix(9, 0)},
			globs: []glob.Glob{mine}}
		made := &Token{Scopes: []Scope{ScopePublish}, Names: []string{name}, Expires: time.Unix(9, 0)}
		if made.within(by) != nil {
			return
		}
		if n := (glob.Name{Kind: "bundle", ID: id}); theirs.Match(n) && !mine.Match(n) {
			t.Errorf("%s makes %s, which is for %s", own, name, id)
		}
	})
}
