package ai_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

// A file that others make and remove meanwhile is an item or it is none, and never one that can't be read.
func TestGone(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "tools", "acme", "t.py")
	bad := filepath.Join(filepath.Dir(name), "no id.py") // which is read to see whether it would be an item
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "made")
	if err := os.WriteFile(made, []byte(pyTool("acme/t", python)), 0o644); err != nil {
		t.Fatal(err)
	}
	asset := filepath.Join(dir, "asset")
	if err := os.WriteFile(asset, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := ai.OpenDir(dir, "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v := view(t, noOverride, s)
	stop := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(stop)
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(os.Link(asset, bad), os.Link(made, name), os.Remove(bad),
				os.Remove(name)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for listed, empty := 0, 0; !t.Failed() && min(listed, empty) < 100; {
		l, err := v.Files(t.Context(), "tool")
		if err != nil || len(l.Problems) > 0 {
			t.Fatal(err, l.Problems)
		}
		if slices.ContainsFunc(l.Files, func(f ai.File) bool { return f.Space == s }) {
			listed++
		} else {
			empty++
		}
	}
	ref := model.Ref{Kind: "tool", ID: "acme/t"}
	found, missing, gone := 0, 0, 0
	for !t.Failed() && min(found, missing, gone) == 0 {
		it, err := v.Find(t.Context(), ref)
		var none *ai.NotFoundError
		switch {
		case err == nil:
			found++
		case errors.As(err, &none) && len(none.Assets) == 0:
			missing++
		default:
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		switch _, err := v.Load(t.Context(), it.File); {
		case errors.Is(err, ai.ErrGone) && errors.Is(err, ai.ErrAsset):
			gone++
		case err != nil:
			t.Fatal(err)
		}
	}
}

// An item that goes with its directory, before it is known what belongs to it, is gone.
func TestGoneWithDirectory(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "tools", "acme")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "t.py"), []byte(pyTool("acme/t", python)), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := ai.OpenDir(dir, "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v := view(t, noOverride, s)
	it := find(t, v, "tool:acme/t")
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	if _, err := ai.NewAdmitter(v, nil).Tree(t.Context(), it); !errors.Is(err, ai.ErrGone) {
		t.Error(err)
	}
}
