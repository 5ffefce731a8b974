//go:build unix

package osfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

func TestRefuseLinks(t *testing.T) {
	base := t.TempDir()
	project, out := filepath.Join(base, "project"), filepath.Join(base, "out")
	for _, dir := range []string{filepath.Join(project, "sub"), out} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(out, "f"), filepath.Join(project, "f")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"project/link": "f", "project/away": out, "above": project} {
		if err := os.Symlink(to, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	sub := filepath.Join(project, "sub")
	for _, c := range []struct {
		file, wd string
		ok       bool
	}{
		{"f", project, true}, {"link", project, false}, {"away/f", project, false}, {"../f", sub, true},
		{"../link", sub, false},
		{"../away/f", sub, false}, {filepath.Join(base, "above", "f"), out, true},
		{filepath.Join(project, "away", "f"), out, false},
		{filepath.Join(base, "above"), out, false}, {"none", project, true}, {"/", project, true},
	} {
		err := osfile.RefuseLinks(c.file, c.wd, project)
		if (err == nil) != c.ok || err != nil && fault.CodeOf(err) != fault.Denied {
			t.Errorf("%s from %s: %v", c.file, c.wd, err)
		}
	}
}
