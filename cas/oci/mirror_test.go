package oci

import (
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestMirrors: what a digest names comes from a mirror that has it; a mirror that is wrong, down or poor only costs
// time, and is named.
func TestMirrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []byte("a"), noise(1, 5<<20))
	origin, good := newDouble(t), newDouble(t)
	var digest string
	for _, d := range []*double{origin, good} {
		done, err := d.place(t).Push(t.Context(), w.content, "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		digest = done.Digest
	}
	through := func(t *testing.T, mirrors ...*double) (*Place, func() string) {
		var words []string
		for _, m := range mirrors {
			words = append(words, origin.Host()+"="+m.Host())
		}
		var mu sync.Mutex
		var left []string
		p := origin.place(t, func(o *Options) {
			o.Mirrors = strings.Join(words, " ")
			o.Left = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, err.Error())
			}
		})
		return p, func() string { return strings.Join(left, "\n") }
	}
	blobs := origin.Count("GET /v2/acme/deploy/blobs/")
	for _, name := range []string{digest, "1.0.0"} {
		p, left := through(t, newDouble(t), good) // the first has nothing
		if _, err := w.pull(t.Context(), p, name, filepath.Join(t.TempDir(), "spool")); err != nil || left() != "" {
			t.Errorf("%s: %v, left %s", name, err, left())
		}
	}
	if n := origin.Count("GET /v2/acme/deploy/blobs/") - blobs; n != 0 {
		t.Errorf("the registry sent %d blobs", n)
	}

	for name, cue := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"wrong bytes": func(w http.ResponseWriter, _ *http.Request) bool { w.Write([]byte("{}")); return true },
		"wrong layers": func(w http.ResponseWriter, r *http.Request) bool {
			if isLayer(r) {
				w.Write(noise(9, 6<<20))
			}
			return isLayer(r)
		},
		"down": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		},
		"closed": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			return true
		},
	} {
		bad := good.again(t)
		bad.Cue = cue
		for _, rest := range [][]*double{{good}, nil} {
			p, left := through(t, append([]*double{bad}, rest...)...)
			if _, err := w.pull(t.Context(), p, digest, filepath.Join(t.TempDir(), "spool")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.Contains(left(), bad.Host()) || strings.Contains(left(), "\n") {
				t.Errorf("%s: left %q", name, left())
			}
		}
	}

	// The registry is gone.
	p, _ := through(t, good)
	origin.Close()
	for _, name := range []string{digest, "1.0.0"} {
		m, err := w.pull(t.Context(), p, name, filepath.Join(t.TempDir(), "spool"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if found, _, err := m.signatures(t.Context()); err != nil || len(found) != 1 {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	if _, err := p.Push(t.Context(), w.content, "2.0.0"); fault.CodeOf(err) != fault.Unavailable ||
		good.Tags["2.0.0"] != "" {
		t.Errorf("a push to a mirror: %v", err)
	}
}

// TestMirrorsOf: a mirror may keep other registries below a prefix.
func TestMirrorsOf(t *testing.T) {
	r := Reference{Host: "a.example", Name: "acme/deploy", Tag: "1.0.0"}
	for text, want := range map[string][]Reference{
		"":                             nil,
		"b.example=m.example":          nil,
		"A.example=m.example":          {{Host: "m.example", Name: "acme/deploy"}},
		"a.example=m.example:5000/x/y": {{Host: "m.example:5000", Name: "x/y/acme/deploy"}},
		"  a.example=m.example\n a.example=n.example/hub ": {{Host: "m.example", Name: "acme/deploy"},
			{Host: "n.example", Name: "hub/acme/deploy"}},
	} {
		if got, err := mirrorsOf(r, text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"a.example", "=m.example", "a.example=", "a.example=M/UPPER",
		"a.example=m.example/x:1", "a.example=https://m.example", "b.example=/"} {
		if _, err := mirrorsOf(r, text); fault.CodeOf(err) != fault.Config {
			t.Errorf("%q: %v", text, err)
		}
	}
}
