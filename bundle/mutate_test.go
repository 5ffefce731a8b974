package bundle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// The tests here take a bundle with everything in it, wherever bundles can be, and change one thing at a time: each
// token and line of the manifest, each signature, file, mode, piece of evidence, entry and header of the archive.
// Every mutant must be refused, unless it is shown to be the same bundle in other clothes. Two people must have signed
// the bundle, so that no line of theirs is one too many.

// A breeder makes mutants and counts them.
type breeder struct {
	t     *testing.T
	p     *pack
	o     bundle.VerifyOptions
	dir   string         // of a bundle in a directory, where there is one
	bred  map[string]int // by what was done
	alike int            // mutants that are the same bundle
}

func newBreeder(t *testing.T) *breeder {
	p := fullPack(t)
	b := &breeder{t: t, p: p, o: p.options(), bred: map[string]int{}}
	b.o.Trust = trusting(t, "  \"bundle:acme/*\": {keys: [alice, bob], threshold: 2}\n")
	b.o.Below = []*ai.Space{runtimes(t)}
	b.o.Require = []string{bundle.SBOM, bundle.Provenance}
	return b
}

// runtimes are the part of the library that the bundle uses: all of it would be read for each of many mutants.
func runtimes(t testing.TB) *ai.Space {
	whole, few := library(), fstest.MapFS{}
	for _, dir := range []string{"tools/rye/core/runtimes", "tools/rye/core/primitives"} {
		err := fs.WalkDir(whole.FS, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(whole.FS, name)
			few[name] = &fstest.MapFile{Data: b, Mode: 0o644}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	whole.FS = few
	return whole
}

// fullPack is a bundle that uses all there is in a manifest.
func fullPack(t testing.TB) *pack {
	p := newPack(t)
	p.files["docs/tool.bin"] = &fstest.MapFile{Data: bytes.Repeat([]byte{0, 1, 0xfe}, 300), Mode: 0o755}
	p.signItems(alice)
	p.prove("sbom.cdx.json", bundle.TypeCycloneDX, partsOf(p.make(fullHead()).list.Subject))
	p.prove("provenance.dsse.json", bundle.TypeEnvelope, provenanceOf(t, p.make(fullHead()).list.Subject, alice, bob))
	p.make(fullHead(), alice, bob)
	slices.SortFunc(p.all, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
	return p
}

// partsOf is as much of a list of parts as says what it is about.
func partsOf(subject cas.Digest) []byte {
	return fmt.Appendf(nil,
		`{"metadata": {"component": {"hashes": [{"alg": "SHA-256", "content": "x"}, {"alg": "BLAKE3", "content": %q}]}}}`,
		attest.DigestsOf(subject)["blake3"])
}

func fullHead() manifest.FileList {
	return manifest.FileList{BundleID: "acme/demo", Version: "1.0.0", Description: "All there is", License: "MIT",
		Entrypoint: "tool:acme/hello", Expires: noon.Add(24 * time.Hour),
		Requires: []manifest.Require{{BundleID: "acme/tools", Version: "^2.0.0"}}}
}

// provenanceOf is an envelope about a manifest without its evidence.
func provenanceOf(t testing.TB, subject cas.Digest, keys ...key.Private) []byte {
	t.Helper()
	s := &attest.Statement{Subjects: []attest.Subject{{Name: "demo", Digests: attest.DigestsOf(subject)}},
		PredicateType: bundle.ProvenanceType, Predicate: []byte("{}")}
	b, err := s.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := attest.NewEnvelope(attest.StatementPayload, b)
	if err == nil {
		err = e.Sign(keys...)
	}
	if err == nil {
		b, err = e.Append(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refused wants a mutant not to pass; alike says whether it is the same bundle after all, nil that it can't be.
func (b *breeder) refused(op, what string, src bundle.Source, alike func() bool) {
	b.t.Helper()
	b.bred[op]++
	if testing.Short() && b.bred[op]%24 != 1 {
		return // the rest takes the same ways
	}
	r, err := bundle.Verify(b.t.Context(), src, b.o)
	switch {
	case err != nil:
		// What stands where the manifest should be is none.
		if _, ok := errors.AsType[*fs.PathError](err); !ok && !errors.Is(err, fs.ErrNotExist) {
			b.t.Errorf("%s %s: %v", op, what, err)
		}
	case !r.OK():
		for _, f := range r.Failures {
			if f.Check == "" {
				b.t.Errorf("%s %s: a failure of no check: %v", op, what, f)
			}
		}
	case alike == nil || !alike():
		b.t.Errorf("%s %s: accepted", op, what)
	default:
		b.alike++
	}
}

// sound wants the bundle itself to pass, without which the refusals would say nothing.
func (b *breeder) sound(where string, src bundle.Source) {
	b.t.Helper()
	failures(b.t, where, verify(b.t, src, b.o))
}

// enough wants so many mutants of each kind.
func (b *breeder) enough(least map[string]int) {
	b.t.Helper()
	all := 0
	for _, op := range slices.Sorted(maps.Keys(b.bred)) {
		all += b.bred[op]
		if least[op] == 0 {
			b.t.Errorf("the number of mutants of %q is unknown", op)
		}
	}
	for op, n := range least {
		if b.bred[op] < n {
			b.t.Errorf("%q: %d mutants, want %d", op, b.bred[op], n)
		}
	}
	b.t.Logf("%d mutants refused, %d the same bundle: %v", all-b.alike, b.alike, b.bred)
}

// A mutation is another text in place of one.
type mutation struct{ op, what, text string }

var tokens = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.-]+|\s+|.`)

// mutations are the ways to change a text of lines: each line, and in each line each token.
func mutations(text string) (all []mutation) {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	add := func(op string, at int, what string, to ...string) {
		// What is the same as before isn't a mutant, as when two equal tokens change places.
		if got := strings.Join(to, ""); got != text {
			all = append(all, mutation{op, fmt.Sprintf("line %d: %s", at+1, what), got})
		}
	}
	for i, line := range lines {
		before, after := strings.Join(lines[:i], ""), strings.Join(lines[i+1:], "")
		add("drop line", i, line, before, after)
		add("duplicate line", i, line, before, line, line, after)
		if i+1 < len(lines) {
			add("reorder lines", i, line, before, lines[i+1], line, strings.Join(lines[i+2:], ""))
		}
		if i > 0 {
			add("reorder lines", i, "to the front: "+line, line, before, after)
		}
		add("add line", i, "empty", before, "\n", line, after)
		add("add line", i, "a comment", before, "# comment\n", line, after)
		add("respell line", i, "CR LF", before, strings.TrimSuffix(line, "\n"), "\r\n", after)
		add("respell line", i, "space before", before, " ", line, after)
		add("respell line", i, "space behind", before, strings.TrimSuffix(line, "\n"), " \n", after)
		all = append(all, tokenMutations(i, before, strings.TrimSuffix(line, "\n"), "\n"+after, text)...)
	}
	return all
}

// tokenMutations changes one token of a line.
func tokenMutations(at int, before, line, after, text string) (all []mutation) {
	parts := tokens.FindAllString(line, -1)
	for i, part := range parts {
		left, right := before+strings.Join(parts[:i], ""), strings.Join(parts[i+1:], "")+after
		add := func(op, left, to, right string) {
			if got := left + to + right; got != text {
				all = append(all, mutation{op, fmt.Sprintf("line %d, token %d: %q to %q", at+1, i+1, part, to), got})
			}
		}
		add("drop token", left, "", right)
		add("duplicate token", left, part+part, right)
		if i+2 < len(parts) {
			add("reorder tokens", left, parts[i+2]+parts[i+1]+part, strings.Join(parts[i+3:], "")+after)
		}
		for _, j := range []int{0, len(part) / 2, len(part) - 1} {
			add("flip token", left, part[:j]+string(flipped(part[j]))+part[j+1:], right)
		}
		for _, to := range retyped(part) {
			add("retype token", left, to, right)
		}
		if strings.Trim(part, `"`) != "" && !strings.ContainsAny(part, " ,:{}[]") {
			add("rename token", left, strings.TrimSuffix(part, `"`)+"x"+part[len(strings.TrimSuffix(part, `"`)):],
				right)
		}
	}
	return all
}

// flipped is another character of the same sort, so that what it is in stays well-formed where that is possible.
func flipped(c byte) byte {
	switch {
	case c == '9' || c == 'z' || c == 'Z':
		return c - 1
	case c >= '0' && c < '9' || c >= 'a' && c < 'z' || c >= 'A' && c < 'Z':
		return c + 1
	}
	return c ^ 1
}

// retyped are other spellings and types of a value or name.
func retyped(part string) []string {
	in := strings.Trim(part, `"`)
	switch {
	case strings.HasPrefix(part, `"`):
		return []string{in, "'" + in + "'", "[" + part + "]", "null", "1", "{}", `""`, "!!str " + part,
			`"\u00` + fmt.Sprintf("%02x", part[min(1, len(part)-1)]) + part[min(2, len(part)):]}
	case strings.Trim(part, "0123456789") == "" && part != "":
		return []string{`"` + part + `"`, "0" + part, "-" + part, part + ".0", part + "e0", "0x" + part,
			"99999999999999999999", "null"}
	case regexp.MustCompile(`^[\w.-]+$`).MatchString(part):
		return []string{`"` + part + `"`, strings.ToUpper(part), "? " + part}
	}
	return nil
}

var textFloors = map[string]int{
	"drop line": 24, "duplicate line": 24, "reorder lines": 45, "add line": 48, "respell line": 72,
	"drop token": 370, "duplicate token": 370, "reorder tokens": 310, "flip token": 1100, "retype token": 760,
	"rename token": 110, "flip byte": 500,
}

// withText adds to the least numbers of mutants of texts, where only every n-th is tried.
func withText(each int, more map[string]int) map[string]int {
	all := maps.Clone(textFloors)
	for op := range all {
		all[op] = all[op] * 9 / 10 / each
	}
	maps.Copy(all, more)
	return all
}

// some are a part of all mutations: a directory is tried with each, and elsewhere the same reader reads the same
// texts.
func some(all []mutation, from, each int) (part []mutation) {
	for i := from; i < len(all); i += each {
		part = append(part, all[i])
	}
	return part
}

// flips changes a bit of the bytes of a text, one at a time.
func flips(b []byte, stride int, try func(what string, mutant []byte)) {
	for i := 0; i < len(b); i += stride {
		c := bytes.Clone(b)
		c[i] ^= 1 << (i / stride % 8)
		try(fmt.Sprintf("at %d", i), c)
	}
}

// TestMutateDirectory changes what stands in a directory.
func TestMutateDirectory(t *testing.T) {
	t.Parallel()
	b := newBreeder(t)
	dir := b.p.dir()
	src := bundle.InDir(dir, "acme/demo")
	b.sound("directory", src)
	const home = ".ai/bundles/acme/demo/"
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	text := manifest.Join(nil, b.p.body, b.p.list.Signatures)
	manifestAs := func(op, what string, to []byte) {
		t.Helper()
		overwrite(t, at(home+"manifest.yaml"), to)
		b.refused(op, what, src, nil)
	}
	for _, m := range mutations(string(text)) {
		manifestAs(m.op, m.what, []byte(m.text))
	}
	flips(text, 5, func(what string, to []byte) { manifestAs("flip byte", what, to) })
	for n := 0; n < len(text); n += 40 {
		manifestAs("truncate", fmt.Sprint(n), text[:n])
	}
	manifestAs("append", "itself", append(bytes.Clone(text), text...))
	manifestAs("append", "a NUL", append(bytes.Clone(text), 0))
	manifestAs("append", "a document", append(bytes.Clone(text), "---\n"...))
	manifestAs("append", "a BOM before", append([]byte("\ufeff"), text...))
	overwrite(t, at(home+"manifest.yaml"), text)

	names := slices.Sorted(maps.Keys(b.p.files))
	for i, name := range names {
		b.files(dir, src, name, names[(i+1)%len(names)], true)
	}
	for _, e := range b.p.list.Evidence {
		b.files(dir, src, home+e.Name, names[0], false)
	}
	b.files(dir, src, home+"manifest.yaml", names[0], false)
	b.sound("as it was", src)
	b.enough(withText(1, map[string]int{"truncate": 60, "append": 4, "flip file": 36, "truncate file": 12,
		"append to file": 13, "empty file": 12, "drop file": 13,
		"rename file": 13, "swap files": 13, "retype file": 52, "mode": 10, "copy file": 9}))
}

// overwrite gives a file other content. That is never empty meanwhile, because file systems flush what was.
func overwrite(t testing.TB, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, 0)
	if err := errors.Join(err, f.Truncate(int64(len(b))), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// files changes one file; other is one to change places with. Listed says that it is in the manifest, with a mode, and
// that nothing else may stand beside it.
func (b *breeder) files(dir string, src bundle.Source, name, other string, listed bool) {
	b.t.Helper()
	at, otherAt := filepath.Join(dir, filepath.FromSlash(name)), filepath.Join(dir, filepath.FromSlash(other))
	content, err := os.ReadFile(at)
	if err != nil {
		b.t.Fatal(err)
	}
	info, err := os.Stat(at)
	if err != nil {
		b.t.Fatal(err)
	}
	must := func(all ...error) {
		b.t.Helper()
		if err := errors.Join(all...); err != nil {
			b.t.Fatal(err)
		}
	}
	write := func(op, what string, to []byte) {
		b.t.Helper()
		overwrite(b.t, at, to)
		b.refused(op, name+" "+what, src, nil)
	}
	back := func() {
		b.t.Helper()
		must(os.RemoveAll(at), os.WriteFile(at, content, info.Mode()), os.Chmod(at, info.Mode()))
	}
	for _, i := range []int{0, len(content) / 2, len(content) - 1} {
		if i >= 0 && i < len(content) {
			to := bytes.Clone(content)
			to[i] ^= 0x20
			write("flip file", fmt.Sprint(i), to)
		}
	}
	if len(content) > 0 {
		write("truncate file", "by one", content[:len(content)-1])
		write("empty file", "", nil)
	}
	write("append to file", "LF", append(bytes.Clone(content), '\n'))
	back()

	must(os.Remove(at))
	b.refused("drop file", name, src, nil)
	must(os.Mkdir(at, 0o755))
	b.refused("retype file", name+" to a directory", src, nil)
	must(os.Remove(at), os.Symlink(filepath.Base(at), at))
	b.refused("retype file", name+" to a link to itself", src, nil)
	away := filepath.Join(b.t.TempDir(), "away")
	must(os.Remove(at), os.WriteFile(away, content, info.Mode()), os.Symlink(away, at))
	b.refused("retype file", name+" to a link to the same", src, nil)
	back()
	must(os.Rename(at, at+".x"))
	b.refused("rename file", name, src, nil)
	must(os.Symlink(filepath.Base(at)+".x", at))
	b.refused("retype file", name+" to a link to its neighbour", src, nil)
	must(os.Remove(at), os.Rename(at+".x", at))
	must(os.Rename(at, at+".x"), os.Rename(otherAt, at), os.Rename(at+".x", otherAt))
	b.refused("swap files", name+" and "+other, src, nil)
	must(os.Rename(otherAt, at+".x"), os.Rename(at, otherAt), os.Rename(at+".x", at))
	if !listed {
		return
	}
	must(os.Chmod(at, info.Mode()^0o111))
	b.refused("mode", name, src, nil)
	must(os.Chmod(at, info.Mode()))
	if strings.Contains(name, "/") {
		must(os.WriteFile(at+".x", content, info.Mode()))
		b.refused("copy file", name, src, nil)
		must(os.Remove(at + ".x"))
	}
}

// TestMutateStore changes what a store has.
func TestMutateStore(t *testing.T) {
	t.Parallel()
	b := newBreeder(t)
	id, signatures := b.p.list.ID, string(b.p.list.Signatures.Append(nil))
	b.sound("store", bundle.InStore(&b.p.store, b.p, id))
	ref := bundle.SignaturesRef(id)
	good := b.p.names[ref]
	lines := func(op, what string, text []byte) {
		t.Helper()
		b.p.names[ref] = cas.ID{Kind: cas.Blob, Digest: b.p.put(text)}
		b.refused(op, "signatures: "+what, bundle.InStore(&b.p.store, b.p, id), nil)
	}
	for _, m := range some(mutations(signatures), 0, 3) {
		lines(m.op, m.what, []byte(m.text))
	}
	flips([]byte(signatures), 2, func(what string, to []byte) { lines("flip byte", what, to) })
	b.p.names[ref] = good

	// Another document is another id: with the signatures of this one, with none, and in the place of this one.
	document := func(op, what string, body []byte) {
		t.Helper()
		made, err := b.p.store.Put(t.Context(), cas.Document, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		other := bundle.SignaturesRef(made.Digest)
		b.p.names[other] = good
		b.refused(op, what, bundle.InStore(&b.p.store, b.p, made.Digest), nil)
		delete(b.p.names, other)
		b.refused(op, what+", unsigned", bundle.InStore(&b.p.store, b.p, made.Digest), nil)
		b.refused(op, what+", in its place", bundle.InStore(&swapped{&b.p.store,
			cas.ID{Kind: cas.Document, Digest: id}, made.ID}, b.p, id), nil)
	}
	for _, m := range some(mutations(string(b.p.body)), 1, 5) {
		document(m.op, m.what, []byte(m.text))
	}
	flips(b.p.body, 23, func(what string, to []byte) { document("flip byte", what, to) })

	for name, to := range map[string]cas.ID{
		"none": {}, "the document": {Kind: cas.Document, Digest: id},
		"a file":        {Kind: cas.Blob, Digest: b.p.all[0].Digest},
		"nothing there": {Kind: cas.Blob, Digest: cas.Sum([]byte("none"))},
	} {
		b.p.names[ref] = to
		if to == (cas.ID{}) {
			delete(b.p.names, ref)
		}
		b.refused("ref", name, bundle.InStore(&b.p.store, b.p, id), nil)
	}
	b.p.names[ref] = good

	var blobs []cas.Digest
	for _, f := range b.p.all {
		blobs = append(blobs, f.Digest)
	}
	for _, e := range b.p.list.Evidence {
		blobs = append(blobs, e.Digest)
	}
	for i, d := range blobs {
		is, next := cas.ID{Kind: cas.Blob, Digest: d}, cas.ID{Kind: cas.Blob, Digest: blobs[(i+1)%len(blobs)]}
		b.refused("drop object", d.String(), bundle.InStore(&swapped{&b.p.store, is, cas.ID{}}, b.p, id), nil)
		b.refused("swap objects", d.String(), bundle.InStore(&swapped{&b.p.store, is, next}, b.p, id), nil)
		b.refused("retype object", d.String(), bundle.InStore(&swapped{&b.p.store, is,
			cas.ID{Kind: cas.Document, Digest: id}}, b.p, id), nil)
	}
	b.refused("retype object", "the document", bundle.InStore(&b.p.store, b.p, blobs[0]), nil)
	b.sound("as it was", bundle.InStore(&b.p.store, b.p, id))
	b.enough(withText(3, map[string]int{"ref": 4, "drop object": 12, "swap objects": 12, "retype object": 13}))
}

// A swapped store hands out one object in the place of another, hashing it as every store does.
type swapped struct {
	cas.Getter
	at, by cas.ID
}

func (s *swapped) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if id != s.at {
		return s.Getter.Get(ctx, id)
	}
	if s.by == (cas.ID{}) {
		return cas.Object{}, fmt.Errorf("%s: %w", id, fs.ErrNotExist)
	}
	o, err := s.Getter.Get(ctx, s.by)
	if err != nil {
		return o, err
	}
	return cas.Verify(cas.Info{ID: id, Size: o.Size}, o), nil
}
