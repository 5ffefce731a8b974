package peers

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	reapi "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"

	"github.com/rye-build/rye/cas"
)

// The tests show that a tree and a Directory of the Remote Execution API (digest function BLAKE3) say the same:
// each tree becomes a Merkle tree of Directory messages, and that becomes the same tree again, under the same
// digest. So a build can be sent to such a cluster, and its outputs taken back, without loss.

// directories is a content-addressed store of Directory messages.
type directories map[cas.Digest][]byte

// digestOf returns the REAPI form of a digest: hexadecimal digits without a prefix, and the size.
func digestOf(d cas.Digest, size int64) *reapi.Digest {
	return &reapi.Digest{Hash: hex.EncodeToString(d[:]), SizeBytes: size}
}

func parseDigest(d *reapi.Digest) (cas.Digest, error) {
	return cas.ParseDigest("blake3:" + d.GetHash())
}

// toDirectory turns the tree and all below it into messages and returns the digest of the topmost.
func (ds directories) toDirectory(t *testing.T, src cas.Getter, tree cas.Digest) *reapi.Digest {
	t.Helper()
	entries, err := cas.ReadTree(t.Context(), src, tree)
	if err != nil {
		t.Fatal(err)
	}
	var dir reapi.Directory
	for _, e := range entries {
		if e.Mode == cas.Dir {
			dir.Directories = append(dir.Directories,
				&reapi.DirectoryNode{Name: e.Name, Digest: ds.toDirectory(t, src, e.Digest)})
			continue
		}
		dir.Files = append(dir.Files, &reapi.FileNode{Name: e.Name, Digest: digestOf(e.Digest, e.Size),
			IsExecutable: e.Mode == cas.Exec})
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&dir)
	if err != nil {
		t.Fatal(err)
	}
	d := cas.Sum(b)
	ds[d] = b
	return digestOf(d, int64(len(b)))
}

// toTree turns messages into trees, which it puts into dst. What a tree can't say is an error: so nothing is
// lost without a word.
func (ds directories) toTree(t *testing.T, dst cas.Putter, top *reapi.Digest) (cas.Digest, error) {
	t.Helper()
	d, err := parseDigest(top)
	if err != nil {
		return d, err
	}
	b, ok := ds[d]
	if !ok || int64(len(b)) != top.SizeBytes || cas.Sum(b) != d {
		return d, fmt.Errorf("no directory %v of %d bytes", d, top.SizeBytes)
	}
	var dir reapi.Directory
	if err := (proto.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(b, &dir); err != nil {
		return d, err
	}
	if len(dir.Symlinks) > 0 || dir.NodeProperties != nil || len(dir.ProtoReflect().GetUnknown()) > 0 {
		return d, errors.New("the directory holds more than a tree can")
	}
	var entries []cas.Entry
	for _, f := range dir.Files {
		e := cas.Entry{Name: f.Name, Mode: cas.File, Size: f.GetDigest().GetSizeBytes()}
		if f.IsExecutable {
			e.Mode = cas.Exec
		}
		if f.NodeProperties != nil {
			return d, fmt.Errorf("%q has properties", f.Name)
		}
		if e.Digest, err = parseDigest(f.Digest); err != nil {
			return d, err
		}
		entries = append(entries, e)
	}
	for _, sub := range dir.Directories {
		e := cas.Entry{Name: sub.Name, Mode: cas.Dir}
		if e.Digest, err = ds.toTree(t, dst, sub.Digest); err != nil {
			return d, err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b cas.Entry) int { return strings.Compare(a.Name, b.Name) })
	doc, err := cas.AppendTree(nil, entries)
	if err != nil {
		return d, err
	}
	info, err := dst.Put(t.Context(), cas.TreeKind, bytes.NewReader(doc))
	return info.Digest, err
}

// generate puts a tree of some depth and returns its digest.
func generate(t *testing.T, r *rand.Rand, dst cas.Putter, depth int) cas.Digest {
	t.Helper()
	put := func(kind cas.Kind, b []byte) cas.Digest {
		info, err := dst.Put(t.Context(), kind, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return info.Digest
	}
	names := []string{"a", "B", "c.txt", "-", "naïve", "日本語", "x y", "README.md", "z\u1e9b", "🙂"}
	var entries []cas.Entry
	for _, i := range r.Perm(len(names))[:1+r.IntN(len(names)-1)] {
		e := cas.Entry{Name: names[i], Mode: cas.Mode(1 + r.IntN(3))}
		if e.Mode == cas.Dir && depth > 0 {
			e.Digest = generate(t, r, dst, depth-1)
		} else {
			e.Mode = min(e.Mode, cas.Exec)
			b := []byte(strings.Repeat("x", r.IntN(3000)))
			e.Digest, e.Size = put(cas.Blob, b), int64(len(b))
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b cas.Entry) int { return strings.Compare(a.Name, b.Name) })
	doc, err := cas.AppendTree(nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	return put(cas.TreeKind, doc)
}

func TestTreesAreDirectories(t *testing.T) {
	modes := make(map[cas.Mode]int)
	for seed := range uint64(200) {
		var src, dst cas.Memory
		tree := generate(t, rand.New(rand.NewPCG(seed, 1)), &src, int(seed%5))
		ds, again := make(directories), make(directories)
		top := ds.toDirectory(t, &src, tree)
		if other := again.toDirectory(t, &src, tree); !proto.Equal(top, other) || len(ds) != len(again) {
			t.Fatalf("tree %v became two different directories", tree)
		}
		back, err := ds.toTree(t, &dst, top)
		if err != nil || back != tree {
			t.Fatalf("tree %v came back as %v, %v", tree, back, err)
		}
		// Every tree below is the same too, byte by byte.
		err = cas.Walk(t.Context(), &src, cas.ID{Kind: cas.TreeKind, Digest: tree},
			func(path string, e cas.Entry) error {
				modes[e.Mode]++
				if e.Mode != cas.Dir {
					return nil
				}
				if a, b := read(t, &src, e.ID()), read(t, &dst, e.ID()); !bytes.Equal(a, b) {
					t.Errorf("%q of tree %v is\n%s\nwas\n%s", path, tree, b, a)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []cas.Mode{cas.File, cas.Exec, cas.Dir} {
		if modes[m] < 100 {
			t.Errorf("only %d entries were of the mode %s", modes[m], m)
		}
	}
}

func read(t *testing.T, src cas.Getter, id cas.ID) []byte {
	t.Helper()
	o, err := src.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	b, err := io.ReadAll(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDirectoriesAreCanonical: REAPI wants the children of a directory sorted by name, and so they are, by
// bytes, without being sorted once more.
func TestDirectoriesAreCanonical(t *testing.T) {
	var src cas.Memory
	ds := make(directories)
	ds.toDirectory(t, &src, generate(t, rand.New(rand.NewPCG(7, 7)), &src, 4))
	for d, b := range ds {
		var dir reapi.Directory
		if err := proto.Unmarshal(b, &dir); err != nil {
			t.Fatal(err)
		}
		files := slices.IsSortedFunc(dir.Files, func(a, b *reapi.FileNode) int {
			return strings.Compare(a.Name, b.Name)
		})
		dirs := slices.IsSortedFunc(dir.Directories, func(a, b *reapi.DirectoryNode) int {
			return strings.Compare(a.Name, b.Name)
		})
		if !files || !dirs {
			t.Errorf("directory %v is not sorted", d)
		}
	}
}

// TestDirectoriesThatAreNoTrees: what a tree can't hold is refused.
func TestDirectoriesThatAreNoTrees(t *testing.T) {
	file := &reapi.FileNode{Name: "a", Digest: digestOf(cas.Sum(nil), 0)}
	for name, dir := range map[string]*reapi.Directory{
		"a symlink":  {Symlinks: []*reapi.SymlinkNode{{Name: "a", Target: "b"}}},
		"properties": {NodeProperties: &reapi.NodeProperties{}},
		"file properties": {Files: []*reapi.FileNode{{Name: "a", Digest: file.Digest,
			NodeProperties: &reapi.NodeProperties{}}}},
		"a file twice": {Files: []*reapi.FileNode{file, file}},
		"a path":       {Files: []*reapi.FileNode{{Name: "../a", Digest: file.Digest}}},
		"a SHA-1": {Files: []*reapi.FileNode{{Name: "a",
			Digest: &reapi.Digest{Hash: "da39a3ee5e6b4b0d3255bfef95601890afd80709"}}}},
		"no digest":         {Files: []*reapi.FileNode{{Name: "a"}}},
		"an absent subtree": {Directories: []*reapi.DirectoryNode{{Name: "a", Digest: digestOf(cas.Sum(nil), 3)}}},
	} {
		b, err := proto.Marshal(dir)
		if err != nil {
			t.Fatal(err)
		}
		ds := directories{cas.Sum(b): b}
		if got, err := ds.toTree(t, new(cas.Memory), digestOf(cas.Sum(b), int64(len(b)))); err == nil {
			t.Errorf("%s became the tree %v", name, got)
		}
	}
	// An empty directory is a tree by itself, and never in another.
	ds := directories{cas.Sum(nil): nil}
	empty := digestOf(cas.Sum(nil), 0)
	if got, err := ds.toTree(t, new(cas.Memory), empty); err != nil || got != cas.EmptyTree {
		t.Errorf("the empty directory is %v, %v", got, err)
	}
	b, err := proto.Marshal(&reapi.Directory{Directories: []*reapi.DirectoryNode{{Name: "a", Digest: empty}}})
	if err != nil {
		t.Fatal(err)
	}
	ds[cas.Sum(b)] = b
	if got, err := ds.toTree(t, new(cas.Memory), digestOf(cas.Sum(b), int64(len(b)))); err == nil {
		t.Errorf("a directory in which one is empty became the tree %v", got)
	}
}

// TestDigestFunction: the number by which the protocol calls our hash.
func TestDigestFunction(t *testing.T) {
	if reapi.DigestFunction_BLAKE3.Number() != 9 {
		t.Errorf("BLAKE3 has the number %d", reapi.DigestFunction_BLAKE3.Number())
	}
}
