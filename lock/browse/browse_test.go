package browse_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/browse"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// A double answers searches, and notes what it was asked.
type double struct {
	*httptest.Server
	asked  []string
	answer func(w http.ResponseWriter)
}

func newDouble(t *testing.T) *double {
	d := &double{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.asked = append(d.asked, r.URL.Query().Get("q"))
		d.answer(w)
	}))
	t.Cleanup(d.Close)
	return d
}

// project returns the lock of a project that names the registries, with a policy that lets them be on this machine.
func project(t *testing.T, o workspace.Options, inside bool, registries ...string) *workspace.Lock {
	t.Helper()
	policy := ""
	if inside {
		policy = "inside: [\"127.0.0.1\"]\n"
		for _, at := range registries {
			policy = strings.Replace(policy, "]", fmt.Sprintf(", %q]", strings.TrimPrefix(at, "http://")), 1)
		}
	}
	p := projecttest.With(t, "\n"+policy, nil)
	log, err := tlog.NewKey("registry.example/log", keytest.Seeded(1).Public())
	if err != nil {
		t.Fatal(err)
	}
	text := "search: registries\n\nregistries:\n"
	for _, at := range registries {
		text += fmt.Sprintf("  %q: {names: [\"acme/**\"], log: %q, key: %q}\n", at, log, keytest.Seeded(2).Public())
	}
	p.Write(workspace.MarkerFile, text)
	lock, err := p.Workspace(o).OpenLock(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Close)
	return lock
}

func hits(bundles ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		var all []map[string]string
		for _, b := range bundles {
			all = append(all, map[string]string{"bundle": b, "version": "1.0.0", "about": "Words"})
		}
		json.NewEncoder(w).Encode(map[string]any{"success": true, "data": map[string]any{"hits": all}})
	}
}

// TestSearch: each registry of rye.yaml is asked once, after the caller was told; what its names don't cover, and what
// is no bundle, isn't returned; and one that fails hides no other.
func TestSearch(t *testing.T) {
	good, bad := newDouble(t), newDouble(t)
	good.answer = hits("acme/base", "other/base", "acme/../x", "acme/lamp", "acme/more")
	bad.answer = func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }
	lock := project(t, workspace.Options{}, true, good.URL, bad.URL)
	var told []string
	ask := func(_ context.Context, registry, words string) error {
		told = append(told, registry+" "+words)
		return nil
	}
	all, err := browse.Search(t.Context(), lock, "resize images", 2, ask)
	if err != nil || len(all) != 2 || all[0].Err != nil || len(all[0].Hits) != 2 ||
		all[0].Hits[0].Bundle != "acme/base" || all[0].Hits[1].Bundle != "acme/lamp" || all[0].Hits[0].Locked != "" {
		t.Fatalf("%+v, %v", all, err)
	}
	if all[1].Err == nil || len(all[1].Hits) > 0 {
		t.Errorf("%+v", all[1])
	}
	want := []string{good.URL + " resize images", bad.URL + " resize images"}
	if fmt.Sprint(told) != fmt.Sprint(want) || fmt.Sprint(good.asked) != "[resize images]" {
		t.Errorf("%q, %q", told, good.asked)
	}
}

// TestInterrupted: a search whose caller has gone ends with it, and has no result.
func TestInterrupted(t *testing.T) {
	d, other := newDouble(t), newDouble(t)
	ctx, cancel := context.WithCancel(t.Context())
	d.answer = func(w http.ResponseWriter) { cancel(); hits("acme/base")(w) }
	other.answer = d.answer
	lock := project(t, workspace.Options{}, true, d.URL, other.URL)
	fine := func(context.Context, string, string) error { return nil }
	if all, err := browse.Search(ctx, lock, "x", 2, fine); !errors.Is(err, context.Canceled) || all != nil {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestAbout: a bundle without a README is described by its one line.
func TestAbout(t *testing.T) {
	o := browse.Offer{Bundle: &bundle.Bundle{FileList: &manifest.FileList{Description: "Resizes images"}}}
	if text, err := o.About(t.Context()); err != nil || text != "Resizes images" || o.Item("tool:acme/x") != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// TestNoPlace: where nothing can be written, nothing is brought; and what can't be recorded isn't asked.
func TestNoPlace(t *testing.T) {
	d := newDouble(t)
	d.answer = hits("acme/base")
	lock := project(t, workspace.Options{}, true, d.URL)
	full := errors.New("the log is full")
	ask := func(context.Context, string, string) error { return full }
	if o, file, err := browse.BringItem(t.Context(), lock, "tool:acme/base/x", ask); o != nil || file != nil ||
		!errors.Is(err, full) {
		t.Errorf("%v, %v", o, err)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	fine := func(context.Context, string, string) error { return nil }
	if o, err := browse.Bring(t.Context(), lock, "acme/base", fine); o != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, %v", o, err)
	}
}

// TestNothingSent: what can't be recorded, is too long, would leave an offline machine, or would lead where the policy
// doesn't let it, is not sent; and a redirect takes no query to another host.
func TestNothingSent(t *testing.T) {
	d, other := newDouble(t), newDouble(t)
	d.answer, other.answer = hits("acme/base"), hits("acme/base")
	fine := func(context.Context, string, string) error { return nil }
	full := errors.New("the log is full")
	for name, c := range map[string]struct {
		options workspace.Options
		outside bool
		words   string
		ask     browse.Ask
		code    fault.Code
	}{
		"unrecorded": {words: "x", ask: func(context.Context, string, string) error { return full }},
		"empty":      {words: "", ask: fine, code: fault.Validation},
		"long":       {words: strings.Repeat("x", browse.MaxQuery+1), ask: fine, code: fault.Validation},
		"offline":    {options: workspace.Options{Offline: true}, words: "x", ask: fine, code: fault.Offline},
	} {
		_, err := browse.Search(t.Context(), project(t, c.options, true, d.URL), c.words, 9, c.ask)
		if err == nil || c.code != "" && fault.CodeOf(err) != c.code || c.code == "" && !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
		lock := project(t, c.options, true, d.URL)
		if name == "empty" || name == "long" {
			continue
		}
		if _, err := browse.Bring(t.Context(), lock, "acme/base", c.ask); err == nil {
			t.Errorf("%s: a bundle is brought", name)
		}
	}
	all, err := browse.Search(t.Context(), project(t, workspace.Options{}, false, d.URL), "x", 9, fine)
	if err != nil || all[0].Err == nil || !strings.Contains(all[0].Err.Error(), "leads to 127.0.0.1") {
		t.Errorf("%+v, %v", all, err)
	}
	if len(d.asked) > 0 {
		t.Errorf("asked %q", d.asked)
	}
	d.answer = func(w http.ResponseWriter) {
		w.Header().Set("Location", other.URL+"/v1/search?q=x")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	all, err = browse.Search(t.Context(), project(t, workspace.Options{}, true, d.URL, other.URL), "x", 9, fine)
	if err != nil || all[0].Err == nil {
		t.Errorf("%+v, %v", all, err)
	}
	if len(other.asked) != 1 {
		t.Errorf("the other was asked %d times", len(other.asked))
	}
}

// TestNoRegistry: a bundle that no registry's names cover, or those of two, is brought from none.
func TestNoRegistry(t *testing.T) {
	d, other := newDouble(t), newDouble(t)
	fine := func(context.Context, string, string) error { return nil }
	for id, lock := range map[string]*workspace.Lock{
		"other/base": project(t, workspace.Options{}, true, d.URL),
		"acme/base":  project(t, workspace.Options{}, true, d.URL, other.URL),
		"acme//base": project(t, workspace.Options{}, true, d.URL),
	} {
		if _, err := browse.Bring(t.Context(), lock, id, fine); err == nil {
			t.Errorf("%s is brought", id)
		}
		offer, _, err := browse.BringItem(t.Context(), lock, "tool:"+id, fine)
		if offer != nil || id != "acme//base" && err != nil {
			t.Errorf("%s: %v, %v", id, offer, err)
		}
	}
	if len(d.asked)+len(other.asked) > 0 {
		t.Errorf("asked %q %q", d.asked, other.asked)
	}
}
