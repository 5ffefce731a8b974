package tlog_test

import (
	"context"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// zeros are the files of a log whose hashes are all zero.
type zeros struct{}

// ReadFile implements tlog.Files.
func (zeros) ReadFile(_ context.Context, _ string, limit int64) ([]byte, error) {
	return make([]byte, limit), nil
}

// TestHuge: a log that claims an absurd size is refused, instead of computed with forever; one below that ends in an
// error.
func TestHuge(t *testing.T) {
	log, err := tlog.NewKey("a/log", keytest.Seeded(1).Public())
	if err != nil {
		t.Fatal(err)
	}
	open := func(size int64) (*tlog.Checkpoint, error) {
		text, err := tlog.Sign(log, keytest.Seeded(1), size, tlog.Hash{})
		if err != nil {
			t.Fatal(err)
		}
		return tlog.Open(text, log)
	}
	for _, size := range []int64{1<<60 + 1, 1 << 62, 1<<63 - 1} {
		if _, err := open(size); fault.CodeOf(err) != fault.Parsing {
			t.Errorf("a log of %d entries: %v", size, err)
		}
	}
	c, err := open(1 << 60)
	if err != nil {
		t.Fatal(err)
	}
	tree := tlog.NewTree(c, zeros{})
	_, proven := tree.Prove(t.Context(), 7, []byte("x"))
	_, read := tree.Entry(t.Context(), c.Size-1)
	proof := &tlog.Proof{Entry: []byte("x"), Index: 7, Hashes: make([]tlog.Hash, 60), Checkpoint: c.Text}
	_, _, verified := proof.Verify(log)
	for what, err := range map[string]error{"proven": proven, "read": read, "verified": verified,
		"continued": tree.Extends(t.Context(), &tlog.Checkpoint{Size: 5})} {
		if fault.CodeOf(err) != fault.Integrity {
			t.Errorf("%s: %v", what, err)
		}
	}
}
