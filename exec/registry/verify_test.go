package registry_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
)

// TestVerify damages one file after another: each is named.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	if check, err := w.Verify(t.Context()); err != nil || len(check.Wrong) > 0 || check.Entries != 0 {
		t.Fatalf("an empty registry: %+v, %v", check, err)
	}
	ada := w.caller("ada")
	w.claim(ada, "acme")
	first := w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	second := w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	gone := w.publish(ada, pack{id: "acme/base", version: "1.2.0"})
	if _, err := w.Withdraw(t.Context(), ada, "acme/base", gone.Version, true); err != nil {
		t.Fatal(err)
	}
	check, err := w.Verify(t.Context())
	if err != nil || len(check.Wrong) > 0 || check.Entries != 5 || check.Versions != 2 ||
		check.Bytes != first.Size+second.Size {
		t.Fatalf("%+v, %v", check, err)
	}
	other := w.read(client.ProofFile(second.Archive))
	for name, says := range map[string]string{
		client.ArchiveFile(first.Archive): "the archive of acme/base@1.0.0",
		client.ProofFile(first.Archive):   "the proof of acme/base@1.0.0",
		client.IndexFile("acme/base"):     "index/acme/base.yaml",
		"log/checkpoint":                  "checkpoint",
		"log/tile/0/000.p/5":              "log/tile/0/000.p/5",
		"log/tile/entries/000.p/5":        "log/tile/entries/000.p/5",
	} {
		good := w.read(name)
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		versions := [][]byte{bad, good[:len(good)-1], append(bytes.Clone(good), 'x'), nil}
		if strings.HasPrefix(name, "proofs/") {
			versions = append(versions, other)
		}
		for _, b := range versions {
			if b == nil {
				if err := w.files.Remove(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			} else if err := w.files.Replace(t.Context(), name, b); err != nil {
				t.Fatal(err)
			}
			check, err := w.Verify(t.Context())
			if err != nil || len(check.Wrong) != 1 || !strings.Contains(check.Wrong[0], says) {
				t.Errorf("%s: %+v, %v", name, check, err)
			}
		}
		if err := w.files.Replace(t.Context(), name, good); err != nil {
			t.Fatal(err)
		}
	}
	if check, err := w.Verify(t.Context()); err != nil || len(check.Wrong) > 0 {
		t.Errorf("all is as before: %+v, %v", check, err)
	}
}

// TestDamagedRows: a row that can't be read stops what needs it.
func TestDamagedRows(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	if err := w.o.Rows.Update(t.Context(), func(in rows.Writer) error {
		in.Put("space/acme", []byte(`{"owners":1}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Claim(t.Context(), ada, "acme", "")
	wants(t, err, fault.Registry, "space/acme")
	_, err = w.Claim(t.Context(), ada, "free", "")
	wants(t, err, fault.Registry, "space/acme")
}
