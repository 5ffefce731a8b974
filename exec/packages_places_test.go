package exec_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/materialise"
)

// manyPlaces is a list with one package in so many places that its files are too many, though they are few.
func manyPlaces(r *registry) string {
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("lib/%d.js", i)] = ""
	}
	entry := r.npm("node_modules/a", "a", "1.0.0", files)
	var all []string
	for i := range materialise.MaxFiles/len(files) + 1 {
		all = append(all, strings.Replace(entry, "node_modules/a", fmt.Sprintf("node_modules/p%d/node_modules/a", i),
			1))
	}
	return packageLock(all...)
}

// A liar has other bytes under every digest.
type liar struct{ cas.Getter }

func (l *liar) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := l.Getter.Get(ctx, id)
	if err != nil {
		return o, err
	}
	b, err := io.ReadAll(o)
	o.ReadCloser = io.NopCloser(bytes.NewReader(bytes.ToUpper(b)))
	return o, err
}

// TestRuntimePackages: what runs a tool has no packages of its own.
func TestRuntimePackages(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	w.put(map[string]string{
		".ai/tools/acme/run.yaml": tool("acme/run", probing, "packages: requirements.txt"),
		".ai/tools/acme/x.yaml":   tool("acme/x", "acme/run"),
	})
	w.signed("tool:acme/run", alice)
	w.signed(x, alice)
	_, err := w.kernel.Prepare(t.Context(), w.packed(r), call(x, nil))
	if e := fault.Of(err); e.Code != fault.Validation || e.Details["ref"] != "tool:acme/run" {
		t.Error(err)
	}
}
