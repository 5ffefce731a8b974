package install

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/manifest/tlog"
)

// TestProofs: a bundle has one proof in each log, which gc keeps, and a blob that is none is left out.
func TestProofs(t *testing.T) {
	store, err := disk.Open(t.TempDir(), disk.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx := t.Context()
	id, other := cas.Sum([]byte("manifest")), cas.Sum([]byte("another"))
	proof := func(log string, index int64) *tlog.Proof {
		return &tlog.Proof{Entry: []byte("entry"), Index: index, Checkpoint: []byte(log + "\n")}
	}
	if _, err := bundle.ReadProof(ctx, store, store, id, "one/log"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if all, err := Proofs(ctx, store, id); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, p := range []*tlog.Proof{proof("one/log", 1), proof("two/log", 2), proof("one/log", 3)} {
		if err := KeepProof(ctx, store, id, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := KeepProof(ctx, store, other, proof("one/log", 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.GC(ctx, disk.GCOptions{}); err != nil {
		t.Fatal(err)
	}
	for log, index := range map[string]int64{"one/log": 3, "two/log": 2} {
		p, err := bundle.ReadProof(ctx, store, store, id, log)
		if err != nil || p.Index != index || p.Origin() != log {
			t.Errorf("%s: %+v, %v", log, p, err)
		}
	}
	if all, err := Proofs(ctx, store, id); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}

	large := bytes.Repeat([]byte("x"), tlog.MaxProof+9)
	for name, text := range map[string][]byte{"none": []byte("x"), "large": large} {
		blob, err := store.Put(ctx, cas.Blob, bytes.NewReader(text))
		if err == nil {
			err = store.PutRef(ctx, bundle.ProofRef(id, name), blob.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bundle.ReadProof(ctx, store, store, id, name); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	if all, err := Proofs(ctx, store, id); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}
