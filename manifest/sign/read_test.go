package sign_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/sign"
)

// Read in whatever pieces, a file says the same.
func TestReadPieces(t *testing.T) {
	for _, size := range []int{0, 1, 100, 32 << 10, 64<<10 - 500, 64 << 10, 64<<10 + 1, 200_000} {
		content := "#!/bin/sh\n" + strings.Repeat("0123456789abcd\r\n", size/16)
		file := mustSign(t, content, sign.Hash, alice, bob)
		want := mustRead(t, file, sign.Hash)
		if want.Stripped != cas.Sum([]byte(content)) {
			t.Errorf("%d: digest is %v", size, want.Stripped)
		}
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(file)),
			iotest.HalfReader(bytes.NewReader(file)), iotest.DataErrReader(bytes.NewReader(file)),
			bytes.NewBuffer(file)} {
			s, err := sign.Read(r, sign.Hash)
			if err != nil || s.Raw != want.Raw || s.Stripped != want.Stripped || len(s.Lines) != 2 {
				t.Errorf("%d: %v, %v", size, s, err)
			}
		}
		var out bytes.Buffer
		if err := want.Rewrite(&out, iotest.HalfReader(bytes.NewReader(file)), nil); err != nil ||
			out.String() != content {
			t.Errorf("%d: %v", size, err)
		}
	}
}

// A file of 48 MiB is read, signed and rewritten without being held.
func TestReadStreams(t *testing.T) {
	const size = 48 << 20
	head := "#!/bin/sh\n"
	open := func(lines string) io.Reader {
		return io.MultiReader(strings.NewReader(head+lines), io.LimitReader(zeros{}, size))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := sign.Read(open(""), sign.Hash)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := s.Sign(claim, alice, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	hash := cas.NewHasher()
	if err := s.Rewrite(hash, open(""), lines); err != nil {
		t.Fatal(err)
	}
	signed, err := sign.Read(open("# "+lines[0].String()+"\n"), sign.Hash)
	if err != nil || signed.Raw != hash.Digest() || signed.Stripped != s.Raw {
		t.Errorf("%+v, %v", signed, err)
	}
	if _, err := sign.Check(signed, claim, known(alice)); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("took %d bytes", got)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestOnlyLineEndings(t *testing.T) {
	unix := "#!/bin/sh\nx\n\ny\r z"
	dos := strings.ReplaceAll(unix, "\n", "\r\n")
	pad := strings.Repeat("x\n", 100_000)
	swap := func(s string) string {
		if strings.Contains(s, "\r\n") {
			return strings.ReplaceAll(s, "\r\n", "\n")
		}
		return strings.ReplaceAll(s, "\n", "\r\n")
	}
	for _, content := range []string{unix, dos, unix + pad, dos + swap(pad), unix + "\r", dos + "\r", "\n", "\r\n"} {
		file := string(mustSign(t, content, sign.Hash, alice))
		line := mustRead(t, []byte(file), sign.Hash).Lines[0].String()
		body := swap(content)
		place := strings.Index(file, "# rye:")
		if strings.HasPrefix(body, "#!") {
			place = strings.Index(body, "\n") + 1
		}
		for name, changed := range map[string]string{
			"content":  body[:place] + "# " + line + "\n" + body[place:],
			"all":      body[:place] + "# " + line + "\r\n" + body[place:],
			"the line": strings.Replace(file, line+"\n", line+"\r\n", 1),
			"half":     strings.Replace(file, line+"\n", line+"\r\n", 1) + "",
		} {
			err := check(changed, sign.Hash, claim, alice)
			var integrity *sign.IntegrityError
			if !errors.As(err, &integrity) || !integrity.OnlyLineEndings ||
				!strings.Contains(err.Error(), "only line endings differ") {
				t.Errorf("%.20q, %s: %v", content, name, err)
			}
			err = check(strings.Replace(changed, "\r z", "\r zz", 1)+"!", sign.Hash, claim, alice)
			if !errors.As(err, &integrity) || integrity.OnlyLineEndings {
				t.Errorf("%.20q, %s and more: %v", content, name, err)
			}
		}
	}
	// From a pipe it can't be told; it is refused all the same.
	file := string(mustSign(t, "x\n", sign.Hash, alice))
	s, err := sign.Read(bytes.NewBufferString(strings.Replace(file, "x\n", "x\r\n", 1)), sign.Hash)
	if err == nil {
		_, err = sign.Check(s, claim, known(alice))
	}
	var integrity *sign.IntegrityError
	if !errors.As(err, &integrity) || integrity.OnlyLineEndings {
		t.Error(err)
	}
	// A file is read from where it stands.
	r := strings.NewReader("before" + strings.Replace(file, "x\n", "x\r\n", 1))
	r.Seek(6, io.SeekStart)
	if s, err = sign.Read(r, sign.Hash); err == nil {
		_, err = sign.Check(s, claim, known(alice))
	}
	if !errors.As(err, &integrity) || !integrity.OnlyLineEndings {
		t.Error(err)
	}
}

// Every byte of signed files is changed, removed, doubled, and bytes are put in between. What is accepted then
// has the content and the signers it had.
func TestMutation(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	tree := claim
	tree.Tree = cas.Sum(nil)
	front := string(mustSign(t, "---\na: 1\n---\nx\n", sign.Angle, alice, bob))
	withTree, err := sign.Sign([]byte("#!/bin/sh\n# coding: utf-8\nx\n"), sign.Hash, tree, alice, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file  string
		style sign.Style
		claim sign.Claim
	}{
		{string(mustSign(t, "#!/bin/sh\nx\n", sign.Hash, alice, bob)), sign.Hash, claim}, {front, sign.Angle, claim},
		{string(mustSign(t, "", sign.Dashes, alice)), sign.Dashes, claim}, {string(withTree), sign.Hash, tree},
	} {
		want := mustRead(t, []byte(c.file), c.style)
		tried, accepted := 0, 0
		try := func(mutant string) {
			tried++
			s, err := sign.ReadBytes([]byte(mutant), c.style)
			if err != nil || mutant == c.file {
				return
			}
			signers, err := sign.Check(s, c.claim, known(alice, bob))
			if err != nil {
				return
			}
			accepted++
			if s.Stripped != want.Stripped || len(signers) == 0 {
				t.Errorf("accepted\n%q, which was\n%q", mutant, c.file)
			}
			for _, l := range s.Lines {
				_, isKnown := known(alice, bob)(l.Key)
				found := false
				for _, w := range want.Lines {
					found = found || w == l
				}
				if isKnown && !found {
					t.Errorf("accepted\n%q, which was\n%q", mutant, c.file)
				}
			}
		}
		for i := range len(c.file) {
			for _, x := range []byte{1, 2, 4, 8, 16, 32, 64, 128} {
				try(c.file[:i] + string([]byte{c.file[i] ^ x}) + c.file[i+1:])
			}
			for _, in := range []string{"\n", "\r", "\r\n", " ", "\x00", "A", "=", ":", "\ufeff", "#", "---\n", "#!\n",
				"\u2028"} {
				try(c.file[:i] + in + c.file[i:])
				try(c.file[:i] + in + c.file[i+1:])
			}
			try(c.file[:i] + c.file[i+1:])
			try(c.file[:i])
			try(c.file[i:])
			try(c.file[:i+1] + c.file[i:])
		}
		lines := strings.SplitAfter(c.file, "\n")
		for i := range lines {
			for j := range lines {
				other := append([]string{}, lines...)
				other[i], other[j] = other[j], other[i]
				try(strings.Join(other, ""))
				other = append(append(append([]string{}, lines[:i]...), lines[j]), lines[i:]...)
				try(strings.Join(other, ""))
			}
			try(strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""))
		}
		if tried < 1000 {
			t.Errorf("tried only %d", tried)
		}
		// Of two signers, one may be taken away or become a stranger: that is accepted, of a single one nothing is.
		if len(want.Lines) == 1 && accepted > 0 {
			t.Errorf("accepted %d of %d", accepted, tried)
		}
	}
}

// The same for the first format, whose promise is smaller: what the rule signs stays what it was.
func TestMutationV1(t *testing.T) {
	k := rfcKeys(t)[0]
	for _, c := range v1Texts {
		style := sign.StyleOf(c.ext) | kinds[c.kind]
		signed, err := sign.SignV1([]byte(c.text), style, k, now)
		if err != nil {
			t.Fatal(err)
		}
		want, err := sign.V1Payload(signed, style)
		if err != nil {
			t.Fatal(err)
		}
		for i := range signed {
			for _, x := range []byte{1, 2, 4, 8, 16, 32, 64, 128, signed[i] ^ '\n', signed[i] ^ '\r', signed[i] ^ '-',
				signed[i] ^ ' '} {
				mutant := bytes.Clone(signed)
				mutant[i] ^= x
				s, err := sign.ReadBytes(mutant, style)
				if err != nil {
					continue
				}
				if _, err := sign.CheckV1(s, one(k.Public())); err != nil {
					continue
				}
				got, err := sign.V1Payload(mutant, style)
				if err != nil || !bytes.Equal(got, want) || s.Stripped != cas.Sum(sign.StripV1(mutant, style)) {
					t.Errorf("accepted\n%q\n%q", mutant, got)
				}
			}
		}
	}
}

func FuzzLine(f *testing.F) {
	l, err := sign.New(cas.Sum(nil), claim, alice, now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(l.String())
	l.Tree = l.Digest
	f.Add(l.String())
	f.Fuzz(func(t *testing.T, text string) {
		l, err := sign.ParseLine(text)
		if err == nil && l.String() != text || err != nil && (err != sign.ErrLine || l != sign.Line{}) {
			t.Errorf("%q was read as %s, %v", text, l, err)
		}
	})
}

// What is read is written again in the same bytes, and what is signed can be read, stripped and signed again.
func FuzzRead(f *testing.F) {
	for style, list := range places {
		for _, text := range list {
			f.Add([]byte(strings.Replace(text, "@", "", 1)), byte(style))
			f.Add(mustSign(f, strings.Replace(text, "@", "", 1), style, alice, bob), byte(style))
		}
	}
	for _, c := range v1Texts {
		style := sign.StyleOf(c.ext) | kinds[c.kind]
		signed, err := sign.SignV1([]byte(c.text), style, alice, now)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(signed, byte(style))
	}
	f.Fuzz(func(t *testing.T, file []byte, b byte) {
		style := sign.Style(b&3 + 1 | b&0x30)
		s, err := sign.ReadBytes(file, style)
		if err == nil && s.Format == sign.V2 {
			var out bytes.Buffer
			if err := s.Rewrite(&out, bytes.NewReader(file), s.Lines); err != nil || !bytes.Equal(out.Bytes(), file) {
				t.Fatalf("%q was rewritten as %q, %v", file, out.Bytes(), err)
			}
		}
		if err == nil && s.Format == sign.None && s.Raw != s.Stripped {
			t.Fatalf("%q has lines and none", file)
		}
		signed, err := sign.Sign(file, style, claim, alice, now, nil)
		if err != nil {
			return
		}
		again, err := sign.ReadBytes(signed, style)
		if err != nil {
			t.Fatalf("%q, signed, is %q: %v", file, signed, err)
		}
		if again.Format == sign.V1 {
			t.Fatalf("%q, signed, is %q of v1", file, signed)
		}
		if _, err := sign.Check(again, claim, known(alice)); err != nil {
			t.Fatalf("%q, signed, is %q: %v", file, signed, err)
		}
		stripped, err := sign.Strip(signed, style)
		if err != nil || cas.Sum(stripped) != again.Stripped {
			t.Fatalf("%q is stripped to %q, %v", signed, stripped, err)
		}
		if s.Format == sign.None && !bytes.Equal(stripped, file) {
			t.Fatalf("%q, signed and stripped, is %q", file, stripped)
		}
		if twice, err := sign.Sign(signed, style, claim, alice, now.AddDate(1, 0, 0), nil); err != nil ||
			!bytes.Equal(twice, signed) {
			t.Fatalf("%q, signed again, is %q, %v", signed, twice, err)
		}
	})
}
