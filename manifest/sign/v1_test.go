package sign_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What rye 1 made of these texts with the first key of RFC 8032.
var v1Texts = []struct{ kind, ext, text, hash, sig string }{
	{"tool", ".py", "__version__ = \"1.0.0\"\nprint(\"hi\")\n",
		"8c32baea2856eafac9618af8090e77b1c862c7817ed6855a5ef5d2a1cea8b3c5",
		"Wl0eozhoFitnYRGDC027hnvHDA0DHhGpqUnQoGwo2g0YIyAuwCT0_1VxPlWCZeE20je2TAs3bgGKhwSDANFQCw=="},
	{"directive", ".md", "<directive name=\"t\" version=\"1.0.0\">\n</directive>",
		"5b98b1d3cf652d46167482a949cff5e7181df2ad2c9d2399424fc8ee9c40c5fe",
		"POuGAmTSX8YPWLhFNuA-28mXkSDihChzs-TxO2z8rRjopUbqMOCNycySoJ4tVBPaSvcdCOV169_kj5CqBTLDAQ=="},
	{"knowledge", ".md", "\n```yaml\nid: k\n```\n\nBody\n",
		"2c69f23d6ec8b94cdc78f005369564fbb0732766d4c19c0c5f9a7db69f2f12aa",
		"ZJmsnE3wIZdEhxRLCHjg4z3by_mgF_v7GeqVFSiIfjUr_h1t3JlVFlZPiWZbznD3DLTJwAYqiiGykApbQLrIBg=="},
}

func one(p key.Public) func(string) []key.Public {
	return func(id string) []key.Public {
		if id == p.V1ID() {
			return []key.Public{p}
		}
		return nil
	}
}

func TestV1Vectors(t *testing.T) {
	k := rfcKeys(t)[0]
	for _, c := range v1Texts {
		style := sign.StyleOf(c.ext) | kinds[c.kind]
		file, err := sign.SignV1([]byte(c.text), style, k, now)
		if err != nil {
			t.Fatal(err)
		}
		line := "rye:signed:2026-11-20T09:00:00Z:" + c.hash + ":" + c.sig + ":7f2d9ed0b71b8e5a"
		want := "# " + line + "\n" + c.text
		if c.ext == ".md" {
			want = "<!-- " + line + " -->\n" + c.text
		}
		if string(file) != want {
			t.Errorf("got\n%s, want\n%s", file, want)
		}
		s := mustRead(t, file, style)
		signers, err := sign.CheckV1(s, one(k.Public()))
		if err != nil || len(signers) != 1 || signers[0].Format != sign.V1 || signers[0].Key != k.Public() ||
			s.Stripped != cas.Sum([]byte(c.text)) {
			t.Errorf("%v, %v", signers, err)
		}
		if s.Format.String() != "v1" || s.V1.Key != "7f2d9ed0b71b8e5a" || s.V1.Origin != "" {
			t.Errorf("%+v", s.V1)
		}
		// Nowhere is it enough.
		if _, err := sign.Check(s, claim, known(k)); err != sign.ErrV1 {
			t.Errorf("as v2: %v", err)
		}
		if _, err := sign.Sign(file, style, claim, k, now, nil); err != sign.ErrV1 {
			t.Errorf("signed below: %v", err)
		}
		if err := s.Rewrite(nil, nil, nil); err != sign.ErrV1 {
			t.Errorf("rewritten: %v", err)
		}
		up := mustSign(t, string(sign.StripV1(file, style)), style, k)
		mustCheck(t, up, style, k)
		if s2 := mustRead(t, up, style); s2.Stripped != s.Stripped {
			t.Errorf("the content of v1 is %v, of v2 %v", s.Stripped, s2.Stripped)
		}
		if _, err := sign.SignV1(up, style, k, now); err == nil {
			t.Error("signed in v1 beside v2")
		}
		// Without a rule for it, it is still seen where the comment is the same.
		if s := mustRead(t, file, sign.StyleOf(c.ext)); s.Format != sign.V1 || s.V1 != nil {
			t.Errorf("%+v", s)
		} else if _, err := sign.CheckV1(s, one(k.Public())); err != sign.ErrV1Unread {
			t.Error(err)
		} else if _, err := sign.Sign(file, sign.StyleOf(c.ext), claim, k, now, nil); err != sign.ErrV1Unread {
			t.Error(err)
		}
	}
}

// Signatures that were published, under keys that were.
func TestV1Published(t *testing.T) {
	for _, c := range []struct{ id, body, hash, sig string }{
		{"9fbfabe975fa5a7f", "MCowBQYDK2VwAyEAY24FNlBttfGlH91xaEe4Ms0Meu5kvHL8L8W6w9lVyLU=",
			"fcfbc30bb08479d50a0e1b7296e6850badfb596fe28b88015b3b9d7e724799c6",
			"LflSCHv36vYKUndwYHId5tkgfD1vrW88nY14GM2ulScf0ldhq1DF7QGhnmvhArX3ZMTlPS3BBWP9_OV0V1NdCA=="},
		{"9fbfabe975fa5a7f", "MCowBQYDK2VwAyEAY24FNlBttfGlH91xaEe4Ms0Meu5kvHL8L8W6w9lVyLU=",
			"5a669232500fd1d41c4d1ef3ef45a1328acbe1adf75a6a40988627c7e8b99bcc",
			"GOXF9BM-CsH81Vdk1ssbSDt9-nEpcc4xOJlgywyY8ZdbrSo9cr_B-k8GYqbUc8TyGyoWSmMc3HFqC1GcJ6YlAQ=="},
		{"4b987fd4e40303ac", "MCowBQYDK2VwAyEAgc0X8VKJuKzFh/aSw/XeYEdp3keIqncwu9ySd81Y69g=",
			"b1569f1d53127f25326f90ef2ad2db5bd9c453586c6ab9d044384832df726cdb",
			"XXTeXX4UdBosjoi_Z_Kc8rLHfRn8F6-AVEqnNatLMFvZxXevwhrB4zUPQYxJwxk78G4OEd5TzB1XRlkLp9onCg=="},
	} {
		p, err := key.ParsePublicPEM([]byte("-----BEGIN PUBLIC KEY-----\n" + c.body + "\n-----END PUBLIC KEY-----\n"))
		if err != nil {
			t.Fatal(err)
		}
		if p.V1ID() != c.id || !p.Verify([]byte(c.hash), unbase64(t, c.sig)) {
			t.Errorf("%s: %s", c.id, p.V1ID())
		}
		// A file with this line is read as such, whatever its content.
		s := mustRead(t,
			[]byte("# rye:signed:2026-02-18T05:40:31Z:"+c.hash+":"+c.sig+":"+c.id+"|rye-registry@ann\nx\n"), sign.Hash|
				sign.V1Tool)
		if s.V1 == nil || s.V1.Key != c.id || s.V1.Origin != "rye-registry@ann" ||
			hex.EncodeToString(s.V1.SHA256[:]) != c.hash {
			t.Errorf("%+v", s.V1)
		}
		var integrity *sign.IntegrityError
		if _, err := sign.CheckV1(s, one(p)); !errors.As(err, &integrity) || integrity.Expected != "sha256:"+c.hash {
			t.Error(err)
		}
	}
}

// What the rules hash of a file, as spec'd for the first format.
func TestV1Payload(t *testing.T) {
	const sig = "# rye:signed:x\n"
	const htm = "<!-- rye:signed:x -->\n"
	for _, c := range []struct {
		style      sign.Style
		file, want string
	}{
		{sign.V1Tool, "a\nb\n", "a\nb\n"},
		{sign.V1Tool, "", ""},
		{sign.V1Tool, sig + "a\n", "a\n"},
		{sign.V1Tool, "#!/bin/sh\n" + sig + "a\n", "a\n"},
		{sign.V1Tool, sig + "#!/bin/sh\na\n", "a\n"},
		{sign.V1Tool, "#!/bin/sh\n" + sig + "#!/bin/sh\na\n", "a\n"},
		{sign.V1Tool, "#!/bin/sh\n" + sig + "#!/bin/sh\n#!/bin/sh\n", "#!/bin/sh\n"},
		{sign.V1Tool, "#!/bin/sh\na", "a"},
		{sign.V1Tool, "#!/bin/sh", "#!/bin/sh"},
		{sign.V1Tool, "#! /bin/sh\na", "#! /bin/sh\na"},
		{sign.V1Tool, sig + sig + "a", sig + "a"},
		{sign.V1Tool, "\n" + sig + "a", "\n" + sig + "a"},
		{sign.V1Tool, "# rye:signed:x", "# rye:signed:x"},
		{sign.V1Tool, "# rye:signed:\na", "# rye:signed:\na"},
		{sign.V1Tool, "# rye:validated:x\na", "a"},
		{sign.V1Tool, "# kiwi-mcp:signed:x\na", "a"},
		{sign.V1Tool, "# kiwi-mcp:validated:x\na", "a"},
		{sign.V1Tool, "# rye:other:x\na", "# rye:other:x\na"},
		{sign.V1Tool, "#!/bin/sh\r\n# rye:signed:x\r\na\r\nb\rc\r\n", "a\nb\nc\n"},
		{sign.V1Tool, "#!/bin/sh\r# rye:signed:x\ra\r", "a\n"},
		{sign.V1Tool, htm + "a", htm + "a"},
		{sign.V1Directive, htm + "x <directive a> y </directive> z", "<directive a> y </directive>"},
		{sign.V1Directive, "<directive>\r\na</directive></directive>x<directive>",
			"<directive>\na</directive></directive>"},
		{sign.V1Directive, "<directives></directive>", "<directives></directive>"},
		{sign.V1Directive, "<directive\na=\"1\"\n></directive>", "<directive\na=\"1\"\n></directive>"},
		{sign.V1Knowledge, htm + "a\n", "a\n"},
		{sign.V1Knowledge, htm + "\na\n\n", "\na\n\n"},
		{sign.V1Knowledge, htm + "---\nt: 1\n---\n\n a \n", "a"},
		{sign.V1Knowledge, "---\nt: a---b\n---\nx", "b\n---\nx"},
		{sign.V1Knowledge, "-----x", "-----x"},
		{sign.V1Knowledge, "------x ", "x"},
		{sign.V1Knowledge, "---\nx", "---\nx"},
		{sign.V1Knowledge, "---\n---\x1c\u2003\u00a0 a \x1f\u0085", "a"},
		{sign.V1Knowledge, "---\n---\u200ba", "\u200ba"},
		{sign.V1Knowledge, " ---\n---\n", " ---\n---\n"},
		{sign.V1Knowledge, "\ufeff---\n---\n", "\ufeff---\n---\n"},
		{sign.V1Knowledge, "<!-- rye:signed:x -->a\n", "<!-- rye:signed:x -->a\n"},
		{sign.V1Knowledge, "<!-- rye:signed:x -->", "<!-- rye:signed:x -->"},
		{sign.V1Knowledge, "<!-- rye:signed:-->\na", "<!-- rye:signed:-->\na"},
		{sign.V1Knowledge, "<!-- rye:signed:x-->\ra", "a"},
		{sign.V1Knowledge, "<!-- rye:signed:x\ny-->\na", "a"},
		{sign.V1Knowledge, "<!-- rye:signed:x > -->\na", "<!-- rye:signed:x > -->\na"},
		{sign.V1Knowledge, sig + "a", sig + "a"},
	} {
		if got, err := sign.V1Payload([]byte(c.file), c.style); err != nil || string(got) != c.want {
			t.Errorf("%d %q: got %q, %v, want %q", c.style, c.file, got, err, c.want)
		}
	}
	for _, file := range []string{"", "<directive>", "</directive>", "</directive><directive>",
		"<directive </directive>", "<directive\xff></directive>"} {
		if got, err := sign.V1Payload([]byte(file), sign.V1Directive); err == nil {
			t.Errorf("%q: %q", file, got)
		}
	}
}

func TestV1Signing(t *testing.T) {
	k := rfcKeys(t)[0]
	for _, c := range []struct{ text, above, below string }{
		{"#!/bin/sh\necho\n", "#!/bin/sh\n", "echo\n"}, {"echo\r\n", "", "echo\n"},
		{"# rye:validated:x\necho\n", "", "echo\n"}, {"", "", ""},
		{"#!/bin/sh\r\n# kiwi-mcp:signed:x\r\na\r\n", "#!/bin/sh\n", "a\n"},
	} {
		style := sign.Hash | sign.V1Tool
		file, err := sign.SignV1([]byte(c.text), style, k, now)
		if err != nil {
			t.Fatal(err)
		}
		if s := string(file); !strings.HasPrefix(s, c.above+"# rye:signed:2") ||
			!strings.HasSuffix(s, ":7f2d9ed0b71b8e5a\n"+c.below) {
			t.Errorf("%q became %q", c.text, file)
		}
		if again, err := sign.SignV1(file, style, k, now); err != nil || string(again) != string(file) {
			t.Errorf("again it became %q, %v", again, err)
		}
		for _, text := range []string{string(file), strings.ReplaceAll(string(file), "\n", "\r\n"),
			strings.ReplaceAll(string(file), "\n", "\r")} {
			if _, err := sign.CheckV1(mustRead(t, []byte(text), style), one(k.Public())); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if _, err := sign.SignV1(nil, sign.Hash, k, now); !says(err, "files of this type have no comments, ") {
		t.Error(err)
	}
	if _, err := sign.SignV1([]byte("x"), sign.Angle|sign.V1Directive, k, now); err == nil {
		t.Error("signed no directive")
	}
	if got := sign.StripV1([]byte("# rye:signed:x\na"), sign.Hash); string(got) != "# rye:signed:x\na" {
		t.Errorf("without a rule stripped to %q", got)
	}
}

// A tool in JavaScript has its v1 line in a comment that isn't one there, so that the two formats don't meet in
// one block.
func TestV1OtherComment(t *testing.T) {
	k := rfcKeys(t)[0]
	style := sign.StyleOf("a.js") | sign.V1Tool
	v1, err := sign.SignV1([]byte("let x\n"), style, k, now)
	if err != nil {
		t.Fatal(err)
	}
	if s := mustRead(t, v1, style); s.Format != sign.V1 {
		t.Errorf("%+v", s)
	}
	v2 := mustSign(t, "let x\n", sign.Slashes, k)
	line, _, _ := strings.Cut(string(v1), "\n")
	for _, both := range []string{line + "\n" + string(v2),
		strings.Replace(string(v2), "\nlet", "\n"+line+"\nlet", 1)} {
		s, err := sign.ReadBytes([]byte(both), style)
		if err == nil {
			_, err = sign.Check(s, claim, known(k))
		}
		if err == nil {
			t.Errorf("accepted\n%s", both)
		}
		if _, err := sign.CheckV1(s, one(k.Public())); err == nil {
			t.Errorf("accepted as v1\n%s", both)
		}
	}
	// YAML that is knowledge.
	text := "id: k\n"
	style = sign.StyleOf("k.yaml") | sign.V1Knowledge
	if v1, err = sign.SignV1([]byte(text), style, k, now); err != nil || !strings.HasPrefix(string(v1), "<!-- rye") {
		t.Errorf("%s, %v", v1, err)
	}
	if _, err := sign.CheckV1(mustRead(t, v1, style), one(k.Public())); err != nil {
		t.Error(err)
	}
}

// In the tool's own line comment, which an extractor of a project could ask rye 1 for, the line counts as well.
func TestV1OwnComment(t *testing.T) {
	k := rfcKeys(t)[0]
	for ext, open := range map[string]string{".js": "// ", ".lua": "-- "} {
		for _, shebang := range []string{"", "#!/usr/bin/env x\n"} {
			style := sign.StyleOf(ext) | sign.V1Tool
			text := shebang + "let x\n"
			v1, err := sign.SignV1([]byte(text), style, k, now)
			if err != nil {
				t.Fatal(err)
			}
			own := strings.Replace(string(v1), "# rye:", open+"rye:", 1)
			s := mustRead(t, []byte(own), style)
			if signers, err := sign.CheckV1(s, one(k.Public())); err != nil || len(signers) != 1 ||
				s.Stripped != cas.Sum([]byte(text)) {
				t.Errorf("%s: %v, %v", own, signers, err)
			}
			if got := string(sign.StripV1([]byte(own), style)); got != text {
				t.Errorf("stripped to %q", got)
			}
			if again, err := sign.SignV1([]byte(own), style, k, now); err != nil || string(again) != string(v1) {
				t.Errorf("signed again: %q, %v", again, err)
			}
			var integrity *sign.IntegrityError
			changed := mustRead(t, []byte(strings.Replace(own, "let", "var", 1)), style)
			if _, err := sign.CheckV1(changed, one(k.Public())); !errors.As(err, &integrity) {
				t.Errorf("changed: %v", err)
			}
			// The two formats stand in one block then, in either order.
			v2 := mustSign(t, text, style, k)
			line := strings.SplitAfter(own[len(shebang):], "\n")[0]
			for _, at := range []string{open + "rye:signed:v2", "let x"} {
				if _, err := sign.ReadBytes([]byte(strings.Replace(string(v2), at, line+at, 1)),
					style); !errors.As(err, &integrity) {
					t.Errorf("beside v2: %v", err)
				}
			}
		}
	}
}

func TestV1Keys(t *testing.T) {
	keys := rfcKeys(t)
	style := sign.Hash | sign.V1Tool
	file, err := sign.SignV1([]byte("x\n"), style, keys[0], now)
	if err != nil {
		t.Fatal(err)
	}
	s := mustRead(t, file, style)
	all := func(...int) func(string) []key.Public {
		return func(string) []key.Public { return []key.Public{keys[1].Public(), keys[0].Public(), keys[2].Public()} }
	}
	if got, err := sign.CheckV1(s, all()); err != nil || len(got) != 1 || got[0].Key != keys[0].Public() {
		t.Errorf("of many candidates: %v, %v", got, err)
	}
	var invalid *sign.SignatureInvalidError
	if _, err := sign.CheckV1(s, func(string) []key.Public {
		return []key.Public{keys[1].Public()}
	}); !errors.As(err, &invalid) {
		t.Errorf("of a key with the same digits: %v", err)
	}
	var unknown *sign.UnknownKeyError
	if _, err := sign.CheckV1(s, one(keys[1].Public())); !errors.As(err, &unknown) ||
		unknown.Keys[0] != keys[0].Public().V1ID() {
		t.Errorf("of no known key: %v", err)
	}
	if _, err := sign.CheckV1(mustRead(t, []byte("x\n"), style), all()); err != sign.ErrUnsigned {
		t.Error(err)
	}
	big := append(file, make([]byte, sign.MaxV1)...)
	if _, err := sign.ReadBytes(big, style); err == nil || !strings.Contains(err.Error(), "16777216") {
		t.Errorf("a big file: %v", err)
	}
}

// Below a comment that may go on in the next line no line of the first format is written, and none counts.
func TestV1GoesOn(t *testing.T) {
	style := sign.StyleOf("a.tcl") | sign.V1Tool
	for _, end := range []string{"\n", "\r\n"} {
		file := "#!/usr/bin/tclsh \\" + end + "exec sh" + end
		if out, err := sign.SignV1([]byte(file), style, alice, now); !says(err, "no place for a signature line: ") {
			t.Errorf("%q, %v", out, err)
		}
		// What is above the line isn't signed in this format, so that the signature fits.
		fits, err := sign.SignV1([]byte("#!/usr/bin/tclsh\nexec sh\n"), style, alice, now)
		if err != nil {
			t.Fatal(err)
		}
		moved := strings.Replace(string(fits), "tclsh\n", "tclsh \\"+end, 1)
		s, err := sign.ReadBytes([]byte(moved), style)
		var integrity *sign.IntegrityError
		if !errors.As(err, &integrity) ||
			err.Error() != "the line above the signature line ends in a backslash and may continue in it" {
			t.Errorf("%q: %v", moved, err)
		}
		if _, err2 := sign.CheckV1(s, func(string) []key.Public { return []key.Public{alice.Public()} }); err2 != err {
			t.Errorf("%v", err2)
		}
		if got := sign.StripV1([]byte(moved), style); string(got) != "#!/usr/bin/tclsh \\"+end+"exec sh\n" {
			t.Errorf("%q", got)
		}
	}
}
