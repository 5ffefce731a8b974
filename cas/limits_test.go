package cas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

func TestMessages(t *testing.T) {
	id := ID{Blob, Digest{1}}
	tree := ID{TreeKind, Digest{2}}
	cause := errors.New("cause")
	for _, test := range []struct {
		err  error
		want string
	}{
		{missing(id, "", ID{}, fs.ErrNotExist), id.String() + " is missing"},
		{missing(id, "a/b\n", tree, fs.ErrNotExist),
			`"a/b\n" is missing: ` + id.String() + ", listed in " + tree.String()},
		{TooLarge(tree), tree.String() + " has more than 4194304 entries"},
		{&TreeError{Name: "a", Err: cause}, `tree: entry "a": cause`},
		{&TreeError{Line: 7, Name: "a", Err: cause}, `tree: line 7: entry "a": cause`},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	if !errors.Is(&TreeError{Err: cause}, cause) || !errors.Is(&fetchError{err: cause}, cause) ||
		(&fetchError{err: cause}).Error() != "cause" {
		t.Error("an error hides its cause")
	}
	if b, err := json.Marshal(Digest{1}); err != nil || string(b) != `"`+(Digest{1}).String()+`"` {
		t.Errorf("a digest in JSON is %s, %v", b, err)
	}
}

// TestGraphLimit: what is reached is counted, whichever kind it is.
func TestGraphLimit(t *testing.T) {
	g := newGraph()
	root, err := g.addNode(Digest{1}, noParent, "")
	if err != nil {
		t.Fatal(err)
	}
	below, err := g.addNode(Digest{2}, root, "d")
	if err != nil {
		t.Fatal(err)
	}
	g.leafs = make([]leaf, MaxWalk-len(g.nodes))
	want := TooLarge(ID{TreeKind, Digest{1}}).Error()
	for _, e := range []Entry{{"f", File, Digest{3}, 1}, {"d", Dir, Digest{3}, 0}} {
		if err := g.addTree(below, []Entry{e}); fault.CodeOf(err) != fault.Limit || err.Error() != want {
			t.Errorf("one %s more: error %v", e.Mode, err)
		}
	}
	if err := g.addTree(root, []Entry{{"d", Dir, Digest{2}, 0}}); err != nil {
		t.Errorf("what is known already: %v", err)
	}
	if err := g.addLeaf(ID{Blob, Digest{4}}, noParent, anySize); err == nil {
		t.Error("one root more was taken")
	}
}

// TestWalkLimit: three small trees have a thousand million entries.
func TestWalkLimit(t *testing.T) {
	var m Memory
	wide := func(e Entry) Entry {
		entries := make([]Entry, 1000)
		for i := range entries {
			entries[i] = e
			entries[i].Name = fmt.Sprintf("%03d", i)
		}
		b, err := AppendTree(nil, entries)
		if err != nil {
			t.Fatal(err)
		}
		info, err := m.Put(t.Context(), TreeKind, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return Entry{Mode: Dir, Digest: info.Digest}
	}
	root := wide(wide(wide(Entry{Mode: File, Digest: Sum(nil)})))
	for _, limit := range []int{999, 1000, 1001, 20_000} {
		visits := 0
		w := walker{ctx: t.Context(), src: &m, root: root.ID(), left: limit, visit: func(string, Entry) error {
			visits++
			return nil
		}}
		if err := w.walk(); fault.CodeOf(err) != fault.Limit || err.Error() != TooLarge(root.ID()).Text ||
			visits > limit {
			t.Errorf("with the limit %d: error %v after %d visits", limit, err, visits)
		}
	}
}
