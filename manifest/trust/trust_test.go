package trust

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), File)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A missing policy is empty; one that can't be read or parsed is an error with its place.
func TestRead(t *testing.T) {
	au, err := Read(filepath.Join(t.TempDir(), File), "user")
	if err != nil || au.File != nil || au.Side.Policy == nil {
		t.Errorf("%+v, %v", au, err)
	}
	if _, err := Read(t.TempDir(), "user"); err == nil {
		t.Error("a directory was read")
	}
	path := write(t, "rye: policy/2\n\nkeys: 1\n")
	if _, err := Read(path, "user"); fault.CodeOf(err) != fault.Config || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// The policies that decide are named, and the project's only where it decided.
func TestDescribe(t *testing.T) {
	root, err := Read(write(t, "rye: policy/2\n"), "user")
	if err != nil {
		t.Fatal(err)
	}
	own, err := Read(write(t, "rye: policy/2\n\nkeys:\n  eve: {key: \""+keytest.Eve().Public().String()+"\"}\n"),
		"project")
	if err != nil {
		t.Fatal(err)
	}
	tr := &Trust{Root: root, Project: own}
	if !strings.Contains(tr.Describe(true), own.Path) || !strings.Contains(tr.Describe(false), root.Path) ||
		len(tr.Authorities()) != 2 {
		t.Error(tr.Describe(true), tr.Describe(false))
	}
	if tr.Exam().Project == nil {
		t.Error("the project's policy does not examine")
	}
}

// Without a state directory nothing is remembered, and a list that a policy names can't be fetched offline.
func TestListsRefused(t *testing.T) {
	lost := errors.New("no state directory")
	k := Lists{Dir: t.TempDir(), Err: lost, Clock: time.Now, Now: time.Now, Why: "--offline"}
	text := "rye: policy/2\n\nkeys:\n  alice: {key: \"" + keytest.Alice().Public().String() +
		"\"}\n\nlists:\n  acme: {from: \"https://acme.example/list.yaml\", key: alice, max-age: \"7d\"}\n"
	au, err := Read(write(t, text), "user")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Load(au); err != lost {
		t.Error(err)
	}
	if err := errors.Join(k.CheckOnce(rollback.Step{}), k.Once(context.Background(), rollback.Step{})); err == nil ||
		err.Error() != lost.Error()+"\n"+lost.Error() {
		t.Error(err)
	}
	k.Err = nil
	if lists, err := k.Load(au); err != nil || len(lists) != 0 {
		t.Errorf("%v, %v", lists, err)
	}
	src := au.Side.Policy.Sections().Lists[0]
	if _, _, err := k.Update(context.Background(), au, src, false); fault.CodeOf(err) != fault.Offline {
		t.Error(err)
	}
	for from, want := range map[string]fault.Code{"oci://acme.example/list": fault.Config, "none.yaml": fault.Files} {
		src := policy.Source{Name: src.Name, Key: src.Key, From: from}
		k.Fetch = func(context.Context, string, int64, bool) ([]byte, error) { return nil, fs.ErrInvalid }
		if _, _, err := k.Update(context.Background(), au, src, false); fault.CodeOf(err) != want {
			t.Errorf("%s: %v (%v)", from, err, fault.CodeOf(err))
		}
	}
	if _, _, err := k.Update(context.Background(), au, src, false); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// A Reader gives the policy that it knows as long as the file has the same bytes.
func TestReader(t *testing.T) {
	var r Reader
	path := write(t, "rye: policy/2\n")
	read := func() *Authority {
		t.Helper()
		au, err := r.Read(path, "user")
		if err != nil {
			t.Fatal(err)
		}
		return au
	}
	first := read()
	if read().Side.Policy != first.Side.Policy {
		t.Error("the same file was parsed twice")
	}
	changed := []byte("rye: policy/2\n\nkeys:\n  eve: {key: \"" + keytest.Eve().Public().String() + "\"}\n")
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if au := read(); len(au.Side.Policy.Sections().Keys) != 1 || !bytes.Equal(au.File, changed) {
		t.Errorf("%+v", au)
	}
	for range 8 { // it doesn't grow with what it has read
		if _, err := r.Read(write(t, "rye: policy/2\n"), "user"); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.last) > 4 {
		t.Errorf("%d are kept", len(r.last))
	}
	if err := os.WriteFile(path, []byte("rye: policy/2\n\nkeys: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(path, "user"); err == nil {
		t.Error("an invalid policy")
	}
}
