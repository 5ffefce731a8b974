package gen

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/cas/goldentest"
)

// TestUpToDate compares the manifest with what the library is now.
func TestUpToDate(t *testing.T) {
	want, err := generate(os.DirFS("../.ai"))
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, "../manifest.yaml", want)
	if list, err := generate(os.DirFS("../none")); !errors.Is(err, fs.ErrNotExist) || list != nil {
		t.Errorf("a library that isn't there: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, path, content string
		mode                fs.FileMode
		want                string
	}{
		{"executable", "tools/x.sh", "x\n", 0o755, `"tools/x.sh" is executable or no regular file`},
		{"link", "tools/x.sh", "y.sh", fs.ModeSymlink | 0o644, `"tools/x.sh" is executable or no regular file`},
		{"line end", "tools/_x.txt", "x\r\n", 0o644, `"tools/_x.txt" has a line that doesn't end with LF alone`},
		{"item", "knowledge/x.md", "---\nid: y\ntitle: Y\nversion: \"1.0.0\"\nentry_type: reference\n---\ny\n", 0o644,
			`"knowledge/x.md": line 2`},
		{"extractor", "tools/rye/core/extractors/zeta/zeta_extractor.yaml", "kind: zeta\nextensions: 7\n", 0o644,
			`zeta_extractor.yaml": `},
		{"path", "tools/con.txt", "x\n", 0o644, `manifest: `},
	} {
		library := fstest.MapFS{c.path: &fstest.MapFile{Data: []byte(c.content), Mode: c.mode}}
		for _, kind := range []string{"directive", "tool", "knowledge", "config"} {
			name := strings.ReplaceAll("tools/rye/core/extractors/K/K_extractor.yaml", "K", kind)
			b, err := os.ReadFile("../.ai/" + name)
			if err != nil {
				t.Fatal(err)
			}
			library[name] = &fstest.MapFile{Data: b, Mode: 0o644}
		}
		list, err := generate(library)
		if err == nil || !strings.Contains(err.Error(), c.want) || list != nil {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		delete(library, c.path)
		if _, err := generate(library); err != nil {
			t.Errorf("without it: %v", err)
		}
	}
}

// broken is a library with one file that can't be opened.
type broken struct {
	fs.FS
	name string
}

func (b broken) Open(name string) (fs.File, error) {
	if name == b.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return b.FS.Open(name)
}

func TestUnreadable(t *testing.T) {
	for _, name := range []string{"tools/rye/core/extractors/tool/tool_extractor.yaml", "knowledge/rye/keys.md",
		"tools"} {
		if list, err := generate(broken{os.DirFS("../.ai"), name}); !errors.Is(err, fs.ErrPermission) || list != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
