package trust_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// issue returns an issue of a revocation list, with one entry that reason tells from others.
func issue(t *testing.T, name string, counter int64, reason string, by key.Private) []byte {
	t.Helper()
	body, doc, err := manifest.AppendRevocations(nil, &manifest.Revocations{List: name, Counter: counter,
		Issued: nine.Add(-time.Hour), Expires: nine.AddDate(0, 1, 0),
		Entries: []policy.Revocation{{Digest: cas.Sum([]byte("bad")), Reason: reason, Date: nine.Add(-time.Hour)}}})
	if err == nil {
		err = doc.Sign(by, nine)
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Join(nil, body, doc.Signatures)
}

// A listWorld is a policy that names the lists acme and beta, both of alice's, and a state directory.
type listWorld struct {
	*testing.T
	au   *trust.Authority
	keep trust.Lists
	file string // of acme
}

func newListWorld(t *testing.T) *listWorld {
	dir := t.TempDir()
	p := twoKeys(t, "lists:\n  acme: {from: \"acme.yaml\", key: alice, max-age: \"7d\"}\n"+
		"  beta: {from: \"beta.yaml\", key: alice, max-age: \"7d\"}\n")
	now := func() time.Time { return nine }
	return &listWorld{t, &trust.Authority{Side: policy.Side{Policy: p}, Path: filepath.Join(dir, trust.File)},
		trust.Lists{Dir: filepath.Join(dir, "state"), Clock: now, Now: now}, filepath.Join(dir, "acme.yaml")}
}

// update publishes an issue of acme and updates the list.
func (w *listWorld) update(file []byte) (changed bool, err error) {
	w.Helper()
	if err := os.WriteFile(w.file, file, 0o644); err != nil {
		w.Fatal(err)
	}
	_, changed, err = w.keep.Update(w.Context(), w.au, w.au.Side.Policy.Sections().Lists[0], false)
	return changed, err
}

// kept is the issue of acme in force, 0 for none.
func (w *listWorld) kept() int64 {
	w.Helper()
	lists, err := w.keep.Load(w.au)
	if err != nil {
		w.Fatal(err)
	}
	if lists["beta"] != nil {
		w.Error("a list that was never fetched is in force")
	}
	if lists["acme"] == nil {
		return 0
	}
	return lists["acme"].Counter
}

// stored is the file of the last good issue.
func (w *listWorld) stored() string {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(w.keep.Dir, "lists", "*.yaml"))
	if err != nil || len(files) != 1 {
		w.Fatalf("%q, %v", files, err)
	}
	return files[0]
}

// TestListsKeepTheLast: the last good issue stays in force, whatever is published after it that isn't a newer issue of
// this list by its key.
func TestListsKeepTheLast(t *testing.T) {
	w := newListWorld(t)
	if n := w.kept(); n != 0 {
		t.Errorf("issue %d before the first", n)
	}
	second := issue(t, "acme", 2, "b", keytest.Alice())
	if changed, err := w.update(second); err != nil || !changed || w.kept() != 2 {
		t.Fatalf("%v, %v, issue %d", changed, err, w.kept())
	}
	if changed, err := w.update(second); err != nil || changed {
		t.Errorf("the same again: %v, %v", changed, err)
	}
	for name, c := range map[string]struct {
		file []byte
		code fault.Code
	}{
		"an older issue":   {issue(t, "acme", 1, "a", keytest.Alice()), fault.Rollback},
		"a forked issue":   {issue(t, "acme", 2, "x", keytest.Alice()), fault.Rollback},
		"another's issue":  {issue(t, "acme", 3, "c", keytest.Bob()), fault.UntrustedKey},
		"another list":     {issue(t, "beta", 3, "c", keytest.Alice()), fault.Integrity},
		"what is no issue": {[]byte("rye: policy/2\n"), fault.Parsing},
		"changed bytes":    {append(slices.Clone(issue(t, "acme", 3, "c", keytest.Alice())), '\n'), fault.Parsing},
	} {
		if changed, err := w.update(c.file); codeOf(err) != c.code || changed {
			t.Errorf("%s: %v, %v (%s)", name, changed, err, codeOf(err))
		}
		if n := w.kept(); n != 2 {
			t.Errorf("after %s issue %d is in force", name, n)
		}
	}
	if changed, err := w.update(issue(t, "acme", 3, "c", keytest.Alice())); err != nil || !changed || w.kept() != 3 {
		t.Errorf("%v, %v, issue %d", changed, err, w.kept())
	}
}

// codeOf is the code of an error, or "" for none.
func codeOf(err error) fault.Code {
	if err == nil {
		return ""
	}
	return fault.CodeOf(err)
}

// TestListsAreNotForgotten: an issue that was seen and is gone, or damaged, or an older one, is an error: its
// revocations would be forgotten. The current issue repairs it.
func TestListsAreNotForgotten(t *testing.T) {
	first := issue(t, "acme", 1, "a", keytest.Alice())
	second := issue(t, "acme", 2, "b", keytest.Alice())
	for name, c := range map[string]struct {
		damage func(file string) error
		reason string
	}{
		"gone":    {os.Remove, "list-gone"},
		"damaged": {func(file string) error { return os.WriteFile(file, second[:len(second)-9], 0o600) }, ""},
		"older":   {func(file string) error { return os.WriteFile(file, first, 0o600) }, "list-older"},
	} {
		w := newListWorld(t)
		for _, file := range [][]byte{first, second} {
			if _, err := w.update(file); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.damage(w.stored()); err != nil {
			t.Fatal(err)
		}
		lists, err := w.keep.Load(w.au)
		if err == nil || c.reason != "" && fault.Of(err).Details["reason"] != c.reason {
			t.Errorf("%s: %v, %v", name, lists, err)
		}
		if _, err := w.update(first); codeOf(err) != fault.Rollback {
			t.Errorf("%s: the first issue again: %v", name, err)
		}
		if _, err := w.keep.Load(w.au); err == nil || c.reason != "" && fault.Of(err).Details["reason"] != c.reason {
			t.Errorf("%s: the refused issue was kept: %v", name, err)
		}
		if _, err := w.update(second); err != nil || w.kept() != 2 {
			t.Errorf("%s: %v, issue %d", name, err, w.kept())
		}
	}
	w := newListWorld(t)
	if _, err := w.update(second); err != nil {
		t.Fatal(err)
	}
	// The list of another key is another list, whatever its name.
	w.au.Side.Policy = twoKeys(t, "lists:\n  acme: {from: \"acme.yaml\", key: bob, max-age: \"7d\"}\n")
	if n := w.kept(); n != 0 {
		t.Errorf("issue %d of another key's list", n)
	}
	w.keep.Err = errors.New("no home")
	if _, err := w.keep.Load(w.au); !errors.Is(err, w.keep.Err) {
		t.Errorf("without a state directory: %v", err)
	}
}

// TestListsFrom: a list comes from a file or by https. What only a project names is a stranger's address; where there
// is no network, the hint names the way without one.
func TestListsFrom(t *testing.T) {
	w := newListWorld(t)
	src := w.au.Side.Policy.Sections().Lists[0]
	src.From = "https://lists.example/acme"
	update := func(stranger bool) error {
		_, _, err := w.keep.Update(t.Context(), w.au, src, stranger)
		return err
	}
	w.keep.Why = "--offline"
	err := update(false)
	if codeOf(err) != fault.Offline ||
		!slices.Equal(fault.Of(err).Hint, []string{"rye trust update acme --from FILE"}) {
		t.Errorf("offline: %v", err)
	}
	var asked []string
	w.keep.Fetch = func(_ context.Context, address string, _ int64, stranger bool) ([]byte, error) {
		asked = append(asked, fmt.Sprint(address, " ", stranger))
		return issue(t, "acme", 1, "a", keytest.Alice()), nil
	}
	for _, stranger := range []bool{false, true} {
		if err := update(stranger); err != nil {
			t.Error(err)
		}
	}
	if want := []string{src.From + " false", src.From + " true"}; !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
	src.From = "http://lists.example/acme"
	if err := update(false); codeOf(err) != fault.Config || len(asked) != 2 {
		t.Errorf("by http: %v", err)
	}
}

// TestUpdateAll: the lists of both policies are updated, or the named one alone, and a list that is refused is
// reported and stops no other. What only a project names is a stranger's address: it may not lead into the user's
// network.
func TestUpdateAll(t *testing.T) {
	w := newListWorld(t)
	const lists = "lists:\n  acme: {from: \"https://lists.example/acme\", key: alice, max-age: \"7d\"}\n"
	au := func(lists string) *trust.Authority {
		return &trust.Authority{Side: policy.Side{Policy: twoKeys(t, lists)}, Path: w.au.Path}
	}
	root, same := au(lists), au(lists)
	project := au(lists + "  beta: {from: \"https://lists.example/beta\", key: alice, max-age: \"7d\"}\n" +
		"  gone: {from: \"https://lists.example/gone\", key: alice, max-age: \"7d\"}\n")
	local := filepath.Join(t.TempDir(), "beta.yaml")
	if err := os.WriteFile(local, issue(t, "beta", 2, "b", keytest.Alice()), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		project    *trust.Authority
		only, from string
		asked      []string // what was fetched
		updated    []string
		refused    int
	}{
		"without a project":    {nil, "", "", []string{"acme false"}, []string{"acme true"}, 0},
		"the project has it":   {same, "", "", []string{"acme false"}, []string{"acme true"}, 0},
		"a project's lists":    {project, "", "", []string{"acme false", "acme false", "beta true", "gone true"}, []string{"acme true", "acme false", "beta true"}, 1},
		"one alone":            {project, "beta", "", []string{"beta true"}, []string{"beta true"}, 0},
		"one alone, by a file": {project, "beta", local, nil, []string{"beta true"}, 0},
	} {
		keep := w.keep
		keep.Dir = t.TempDir()
		var asked []string
		keep.Fetch = func(_ context.Context, address string, _ int64, stranger bool) ([]byte, error) {
			list := filepath.Base(address)
			asked = append(asked, fmt.Sprint(list, " ", stranger))
			if list == "gone" {
				return nil, errors.New("not found")
			}
			return issue(t, list, 1, "a", keytest.Alice()), nil
		}
		result, faults := keep.UpdateAll(t.Context(), root, c.project, c.only, c.from)
		var updated []string
		for _, l := range result.Lists {
			updated = append(updated, fmt.Sprint(l.Name, " ", l.Changed))
		}
		if !slices.Equal(asked, c.asked) || !slices.Equal(updated, c.updated) || len(result.Refused) != c.refused ||
			len(faults) != c.refused {
			t.Errorf("%s: asked %q, updated %q, refused %+v", name, asked, updated, result.Refused)
		}
	}
}
