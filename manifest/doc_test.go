package manifest

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

const vectorDir = "../testdata/vectors/manifest/doc"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func known(keys ...key.Private) sign.Keys {
	m := map[key.Fingerprint]key.Public{}
	for _, k := range keys {
		m[k.Public().Fingerprint()] = k.Public()
	}
	return func(f key.Fingerprint) (key.Public, bool) { k, ok := m[f]; return k, ok }
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join(vectorDir, name), got)
}

func sampleList() (*FileList, []File) {
	list := &FileList{
		BundleID: "acme/deploy", Version: "1.4.0", Description: "Deploys — with care", License: "MIT",
		Entrypoint: "directive:acme/deploy", Expires: noon.AddDate(1, 0, 0),
		Requires: []Require{{"acme/base", "^2.0.0"}},
		Evidence: []Evidence{{"sbom.cdx.json", "application/vnd.cyclonedx+json", cas.Sum([]byte("{}")), 2}},
	}
	files := []File{
		{Path: "README.md", Digest: cas.Sum([]byte("readme")), Size: 6, Mode: cas.File},
		{Path: ".ai/tools/acme/run.sh", Digest: cas.Sum([]byte("run")), Size: 3, Mode: cas.Exec, Ref: "tool:acme/run",
			Version: "1.0.0"},
		{Path: ".ai/directives/acme/deploy.md", Digest: cas.Sum([]byte("deploy")), Size: 6, Mode: cas.File,
			Ref: "directive:acme/deploy"},
	}
	return list, files
}

// A sample is a document of one type, unsigned, and how that type is read to something comparable.
type sample struct {
	name string
	body []byte
	doc  *Document
	read func(b []byte) (doc *Document, all any, again []byte, err error)
}

func samples(t testing.TB) []sample {
	list, files := sampleList()
	listBody, read, err := AppendFileList(nil, list, files)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := keytest.Seeded(1).Public(), keytest.Seeded(2).Public(), keytest.Seeded(3).Public()
	revBody, rev, err := AppendRevocations(nil, &Revocations{
		List: "acme", Counter: 7, Issued: noon, Expires: noon.AddDate(0, 1, 0), Entries: []policy.Revocation{
			{Key: c.Fingerprint(), Reason: "laptop stolen", Date: noon},
			{Digest: cas.Sum([]byte("bad")), Date: noon.AddDate(0, -1, 0)},
		}})
	if err != nil {
		t.Fatal(err)
	}
	rotBody, rot, err := AppendRotation(nil, policy.Rotation{
		Rule: "tool:acme/**", Before: []key.Fingerprint{b.Fingerprint(), a.Fingerprint()}, Retire: a.Fingerprint(),
		Key: policy.Key{Name: "acme-2027", Public: c, Owner: "Acme Ltd", NotBefore: noon,
			Expires: noon.AddDate(2, 0, 0)},
		Expires: noon.AddDate(0, 1, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return []sample{
		{"filelist", listBody, &read.Document, func(b []byte) (*Document, any, []byte, error) {
			l, files, err := ParseFileList(b)
			if err != nil {
				return nil, nil, nil, err
			}
			again, _, err := AppendFileList(nil, l, files)
			return &l.Document, []any{l, files}, again, err
		}},
		{"revocations", revBody, &rev.Document, func(b []byte) (*Document, any, []byte, error) {
			r, err := ReadRevocations(bytes.NewReader(b))
			if err != nil {
				return nil, nil, nil, err
			}
			again, _, err := AppendRevocations(nil, r)
			return &r.Document, r, again, err
		}},
		{"rotation", rotBody, &rot.Document, func(b []byte) (*Document, any, []byte, error) {
			r, err := ReadRotation(bytes.NewReader(b))
			if err != nil {
				return nil, nil, nil, err
			}
			again, _, err := AppendRotation(nil, r.Step)
			return &r.Document, r, again, err
		}},
	}
}

// Every type of document: written, signed, joined, split and read again, as in the golden files.
func TestDocuments(t *testing.T) {
	a, b, stranger := keytest.Seeded(1), keytest.Seeded(2), keytest.Seeded(9)
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			d := s.doc
			if d.ID != cas.Sum(s.body) || len(d.Signatures) != 0 {
				t.Fatalf("%+v", d)
			}
			if _, err := d.Check(known(a)); err != sign.ErrUnsigned {
				t.Errorf("unsigned: %v", err)
			}
			for _, k := range []key.Private{a, b} {
				if err := d.Sign(k, noon); err != nil {
					t.Fatal(err)
				}
			}
			whole := Join(nil, s.body, d.Signatures)
			golden(t, s.name+".yaml", whole)
			golden(t, s.name+".sig", d.Signatures.Append(nil))

			body, sigs, err := Split(whole)
			if err != nil || !bytes.Equal(body, s.body) || !reflect.DeepEqual(sigs, d.Signatures) ||
				!bytes.Equal(Join(nil, body, sigs), whole) {
				t.Errorf("split: %q, %v, %v", body, sigs, err)
			}
			if body, sigs, err := Split(s.body); err != nil || !bytes.Equal(body, s.body) || sigs != nil {
				t.Errorf("split of the body: %q, %v, %v", body, sigs, err)
			}
			if got, err := ParseSignatures(d.Signatures.Append(nil), d.ID); err != nil ||
				!reflect.DeepEqual(got, d.Signatures) {
				t.Errorf("signatures: %v, %v", got, err)
			}
			doc, all, again, err := s.read(whole)
			if err != nil || !reflect.DeepEqual(doc, d) || !bytes.Equal(again, s.body) {
				t.Fatalf("read %+v, %v, written again\n%s", all, err, again)
			}
			signers, err := doc.Check(known(a, b, stranger))
			if err != nil || len(signers) != 2 || signers[0].Key == signers[1].Key || !signers[0].Time.Equal(noon) {
				t.Errorf("signers %v, %v", signers, err)
			}
			if signers, err := doc.Check(known(b)); err != nil || len(signers) != 1 || signers[0].Key != b.Public() {
				t.Errorf("one signer %v, %v", signers, err)
			}
			if _, ok := errors.AsType[*sign.UnknownKeyError](second(doc.Check(known(stranger)))); !ok {
				t.Error("a stranger's")
			}
			// Signing again changes nothing, whenever.
			if err := doc.Sign(a, noon.Add(time.Hour)); err != nil || !reflect.DeepEqual(doc, d) {
				t.Errorf("signed again: %+v, %v", doc, err)
			}
			// The same bytes under another name or in another domain are not signed.
			for _, other := range []Document{{sign.Item, d.Name, d.ID, d.Signatures},
				{d.Domain, d.Name + "x", d.ID, d.Signatures}} {
				if _, ok := errors.AsType[*sign.SignatureInvalidError](second(other.Check(known(a)))); !ok {
					t.Errorf("%s %s counts", other.Domain, other.Name)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// A change of any byte of a signed document is refused, or changes nothing: not what it says, nor who says it.
func TestDocumentMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	a, b := keytest.Seeded(1), keytest.Seeded(2)
	for _, s := range samples(t) {
		s.doc.Sign(a, noon)
		s.doc.Sign(b, noon)
		whole := Join(nil, s.body, s.doc.Signatures)
		try := func(what string, at int, bad []byte) {
			doc, all, _, err := s.read(bad)
			if err != nil || bytes.Equal(bad, whole) {
				return
			}
			if signers, err := doc.Check(known(a, b)); err == nil && len(signers) == 2 {
				t.Errorf("%s: %s at %d is taken: %+v", s.name, what, at, all)
			}
		}
		for i := range whole {
			for _, c := range []byte{whole[i] ^ 1, whole[i] ^ 0x20, '\n', '"'} {
				bad := bytes.Clone(whole)
				bad[i] = c
				try("change", i, bad)
			}
			try("end", i, whole[:i])
			try("loss", i, append(bytes.Clone(whole[:i]), whole[i+1:]...))
			try("doubling", i, append(bytes.Clone(whole[:i+1]), whole[i:]...))
		}
		lines := bytes.SplitAfter(whole, []byte("\n"))
		for i := range lines {
			for j := range i {
				swapped := append([][]byte{}, lines...)
				swapped[i], swapped[j] = swapped[j], swapped[i]
				try("swap", i, bytes.Join(swapped, nil))
			}
		}
	}
}

// bad.txtar holds files named "type: a part of the error", each to be refused for that reason.
func TestBadDocuments(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join(vectorDir, "bad.txtar"))
	if err != nil || len(archive.Files) < 60 {
		t.Fatal(len(archive.Files), err)
	}
	read := map[string]func([]byte) (*Document, any, []byte, error){}
	for _, s := range samples(t) {
		read[s.name] = s.read
	}
	for _, f := range archive.Files {
		kind, want, _ := strings.Cut(f.Name, ":")
		// What an editor would spoil is written in words.
		text := strings.NewReplacer("<ZERO>", strings.Repeat("0", 64), "<ONE>",
			strings.Repeat("1", 64)).Replace(string(f.Data))
		_, all, _, err := read[kind]([]byte(text))
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s\n%s\nis %+v, %v", f.Name, text, all, err)
		}
	}
}

// Reading doesn't depend on how the bytes come.
func TestChunks(t *testing.T) {
	list, files := sampleList()
	for range 3 {
		body, want, err := AppendFileList(nil, list, files)
		if err != nil {
			t.Fatal(err)
		}
		want.Sign(keytest.Seeded(1), noon)
		whole := Join(nil, body, want.Signatures)
		before, _, _ := bytes.Cut(body, []byte("evidence:\n"))
		subject := cas.Sum(before)
		if want.Subject != subject || want.Files != 3 || want.Bytes != 15 {
			t.Errorf("%+v", want)
		}
		for _, b := range [][]byte{whole, body} {
			l, err := ReadFileList(iotest.OneByteReader(bytes.NewReader(b)), func(*File) error { return nil })
			if err != nil || l.ID != want.ID || l.Subject != subject {
				t.Errorf("%+v, %v", l, err)
			}
		}
		list.Evidence = nil
		files[0].Path = "evidence: evidence:"[:8]
	}
	broken := errors.New("broken")
	body, _, _ := AppendFileList(nil, list, files)
	for n := range len(body) {
		_, err := ReadFileList(&faulty{body[:n], broken}, func(*File) error { return nil })
		if !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
	if _, err := ReadFileList(bytes.NewReader(body), func(*File) error { return broken }); err != broken {
		t.Errorf("of visit: %v", err)
	}
	// A head is read without what comes behind it, and is what the whole list says.
	before := bytes.LastIndex(body, []byte("\n  \"")) // the last file
	head, err := ReadFileListHead(iotest.OneByteReader(&faulty{body[:before], broken}))
	if err != nil || head.BundleID != list.BundleID || !slices.Equal(head.Requires, list.Requires) ||
		len(head.Requires) == 0 {
		t.Errorf("the head is %+v, %v", head, err)
	}
	if head, err := ReadFileListHead(bytes.NewReader(body[:20])); head != nil || err == nil {
		t.Errorf("the head of a piece is %+v", head)
	}
}

type faulty struct {
	b   []byte
	err error
}

func (f *faulty) Read(b []byte) (int, error) {
	if len(f.b) == 0 {
		return 0, f.err
	}
	n := copy(b, f.b)
	f.b = f.b[n:]
	return n, nil
}

// The digest up to a heading doesn't depend on where the reads end.
func TestHashingCut(t *testing.T) {
	for _, text := range []string{"a\nbc\nevidence:\nx\n", "evidence:\n\nevidence:\nevidence:\n", "\n\n\nevidence:",
		"\nevidence\nevidence:\n", "no", ""} {
		want := cas.Sum([]byte(text))
		if i := strings.Index(text, "\nevidence:\n"); i >= 0 {
			want = cas.Sum([]byte(text[:i+1]))
		}
		for step := 1; step <= len(text)+1; step++ {
			h := newHashing(nil, "evidence")
			h.begun = true
			for b := []byte(text); len(b) > 0; {
				n := min(step, len(b))
				h.write(b[:n])
				b = b[n:]
			}
			if all := h.end(); all != cas.Sum([]byte(text)) || h.before != want {
				t.Errorf("%q by %d: %s, %s", text, step, all, h.before)
			}
		}
	}
}

// When a list ends, and in what form policies heed one of revocations.
func TestListsInUse(t *testing.T) {
	list, files := sampleList()
	_, l, err := AppendFileList(nil, list, files)
	if err != nil || !l.Expired(noon.AddDate(1, 0, 0)) || l.Expired(noon) || (&FileList{}).Expired(noon) {
		t.Fatal(err)
	}
	_, r, err := AppendRevocations(nil, &Revocations{List: "acme", Counter: 7, Issued: noon,
		Expires: noon.AddDate(0, 1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	r.Sign(keytest.Seeded(1), noon)
	signers, err := r.Check(known(keytest.Seeded(1)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.For(signers); err != nil || p.Name != "acme" || p.Counter != 7 || p.ID != r.ID ||
		len(p.Signers) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// What can't be read back isn't written, and leaves what was there.
func TestAppendBad(t *testing.T) {
	list, files := sampleList()
	for name, spoil := range map[string]func(*FileList, *File){
		"id":       func(l *FileList, _ *File) { l.BundleID = "a b" },
		"version":  func(l *FileList, _ *File) { l.Version = "1" },
		"mode":     func(_ *FileList, f *File) { f.Mode = cas.Dir },
		"no mode":  func(_ *FileList, f *File) { f.Mode = 0 },
		"path":     func(_ *FileList, f *File) { f.Path = "../x" },
		"size":     func(_ *FileList, f *File) { f.Size = -1 },
		"large":    func(_ *FileList, f *File) { f.Size = MaxFileSize + 1 },
		"twice":    func(_ *FileList, f *File) { f.Path = "README.md" },
		"require":  func(l *FileList, _ *File) { l.Requires = []Require{{"a", "1"}, {"a", "2"}} },
		"evidence": func(l *FileList, _ *File) { l.Evidence = []Evidence{{"a/b", "t", cas.Digest{}, 1}} },
		"year":     func(l *FileList, _ *File) { l.Expires = noon.AddDate(9999, 0, 0) },
	} {
		l, fs := *list, append([]File{}, files...)
		spoil(&l, &fs[1])
		if b, got, err := AppendFileList([]byte("x"), &l, fs); err == nil || string(b) != "x" || got != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, _, err := AppendFileList([]byte("x"), list, nil); err == nil || string(b) != "x" {
		t.Errorf("no files: %q, %v", b, err)
	}
	if b, _, err := AppendRevocations([]byte("x"), &Revocations{}); err == nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if b, _, err := AppendRotation([]byte("x"), policy.Rotation{}); err == nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestMerge(t *testing.T) {
	s := samples(t)[0]
	var keys []key.Private
	for i := range byte(20) {
		keys = append(keys, keytest.Seeded(i+1))
	}
	made := func(at time.Time, of ...key.Private) Signatures {
		d := *s.doc
		for _, k := range of {
			if err := d.Sign(k, at); err != nil {
				t.Fatal(err)
			}
		}
		return d.Signatures
	}
	forged := func(of ...key.Private) Signatures { // later, by no real key
		f := made(noon.Add(time.Hour), of...)
		for i := range f {
			f[i].Sig[0] ^= 1
		}
		return f
	}
	union := func(k sign.Keys, sets ...Signatures) Signatures {
		d := *s.doc
		if err := d.Merge(k, sets...); err != nil {
			t.Fatal(err)
		}
		if err := d.Signatures.check(d.ID); err != nil || len(d.Signatures) > sign.MaxLines {
			t.Fatal(len(d.Signatures), err)
		}
		return d.Signatures
	}
	one, two := made(noon, keys[:3]...), made(noon.Add(time.Minute), keys[2:6]...)
	if got := union(nil, one, two); len(got) != 6 || !reflect.DeepEqual(got, union(nil, two, one)) ||
		!reflect.DeepEqual(got, union(nil, got, one, two)) {
		t.Errorf("union %v", got)
	}
	// A later forgery, and sixteen strangers, push nothing out that holds under a known key.
	all := known(append(keys[:3:3], keys[19])...)
	one = append(one, forged(keys[19])...) // who is known, and never signed
	one = merge(one, nil)
	for _, sets := range [][]Signatures{{one, forged(keys[:3]...), forged(keys[3:19]...)},
		{forged(keys[3:19]...), forged(keys[:3]...), one}} {
		d := *s.doc
		if err := d.Merge(all, sets...); err != nil {
			t.Fatal(err)
		}
		if signers, err := d.Check(all); err != nil || len(signers) != 3 || len(d.Signatures) != sign.MaxLines {
			t.Errorf("%d signers, %v", len(signers), err)
		}
	}
	d := *s.doc
	if err := d.Merge(known(keys...), made(noon, keys[:10]...), made(noon, keys[9:17]...)); err != sign.ErrTooMany {
		t.Errorf("17: %v", err)
	}
	other := *samples(t)[1].doc
	other.Sign(keys[0], noon)
	if _, ok := errors.AsType[*sign.IntegrityError](d.Merge(nil, other.Signatures)); !ok || d.Signatures != nil {
		t.Error("another document's signatures are taken")
	}
	full := *s.doc
	full.Signatures = made(noon, keys[:16]...)
	if err := full.Sign(keys[17], noon); err != sign.ErrTooMany {
		t.Errorf("the 17th: %v", err)
	}
}

func TestSignatures(t *testing.T) {
	s := samples(t)[0]
	for i := range byte(16) {
		s.doc.Sign(keytest.Seeded(i+1), noon)
	}
	good := string(s.doc.Signatures.Append(nil))
	lines := strings.SplitAfter(good, "\n")[:16]
	for name, bad := range map[string]string{
		"none": "", "no LF": good[:len(good)-1], "CR": strings.Replace(good, "\n", "\r\n", 1), "blank": "\n" + good,
		"twice": lines[0] + lines[0], "unsorted": lines[1] + lines[0], "17": good + lines[0],
		"v1":   "# rye:signed:2026-11-20T12:00:00Z:" + strings.Repeat("0", 64) + "\n",
		"body": good + "rye: \"manifest/2\"\n", "tree": strings.Replace(lines[0], s.doc.ID.String()[7:],
			s.doc.ID.String()[7:]+"+"+s.doc.ID.String()[7:], 1),
		"style": "//" + lines[0][1:], "indented": " " + lines[0], "space": strings.TrimSuffix(lines[0], "\n") + " \n",
	} {
		if got, err := ParseSignatures([]byte(bad), s.doc.ID); err == nil || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if body, _, err := Split(append([]byte(bad), s.body...)); name != "none" && err == nil &&
			!bytes.HasPrefix(body, []byte(bad[:1])) {
			t.Errorf("%s is split into %q", name, body)
		}
	}
	if _, ok := errors.AsType[*sign.VersionError](second(ParseSignatures([]byte(strings.Replace(lines[0], ":v2:",
		":v3:", 1)), s.doc.ID))); !ok {
		t.Error("a later version")
	}
	if _, err := ParseSignatures([]byte(good), cas.Sum(nil)); err == nil {
		t.Error("those of another document")
	}
}
