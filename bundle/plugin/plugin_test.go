package plugin

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/portable"
)

// unpack writes the files of a case into a directory. Lines of its comment add what an archive can't have:
//
//	link PATH TARGET    a symbolic link
//	dir PATH            a directory
//	exec PATH           makes a file executable
//	size PATH BYTES     a file of zero bytes
func unpack(t testing.TB, archive *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range archive.Files {
		if f.Name != "want" {
			do(os.WriteFile(at(f.Name), f.Data, 0o644))
		}
	}
	for line := range strings.Lines(string(archive.Comment)) {
		words := append(strings.Fields(line), "", "", "")
		switch words[0] {
		case "link":
			do(os.Symlink(words[2], at(words[1])))
		case "dir":
			do(os.MkdirAll(at(words[1]), 0o755))
		case "exec":
			do(os.Chmod(at(words[1]), 0o755))
		case "size":
			size := 0
			_, err := fmt.Sscan(words[2], &size)
			do(err)
			do(os.WriteFile(at(words[1]), make([]byte, size), 0o644))
		}
	}
	return dir
}

func read(t testing.TB, dir string) *Plugin {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	p, err := Read(root.FS())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shown is what a plugin has, and its problems.
func shown(p *Plugin) []byte {
	var out bytes.Buffer
	if p.Rejected() == nil {
		for _, s := range p.Skills {
			fmt.Fprintf(&out, "skill %s\n", s.Name)
		}
		for _, s := range p.Servers {
			fmt.Fprintf(&out, "server %s %s%s\n", s.Name, s.Command, s.URL)
		}
	}
	for _, found := range p.Problems {
		fmt.Fprintf(&out, "%s\n", found.String())
	}
	return out.Bytes()
}

// TestCases reads plugins that break the rules of the specification, and compares what is left and each problem with
// its section.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := shown(read(t, unpack(t, archive)))
			if goldentest.Update() {
				kept := archive.Files[:0]
				for _, f := range archive.Files {
					if f.Name != "want" {
						kept = append(kept, f)
					}
				}
				archive.Files = append(kept, txtar.File{Name: "want", Data: got})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range archive.Files {
				if f.Name == "want" && bytes.Equal(f.Data, got) {
					return
				}
			}
			t.Errorf("got\n%s", got)
		})
	}
}

const minimal = `{"$schema": "` + ManifestSchema + `", "name": "p"}`

// TestHostile: what is too large, too deep or not text is refused without reading all of it, and says whose rule that
// is. plugin.json rejects the plugin, and mcp.json disables the servers alone.
func TestHostile(t *testing.T) {
	const ours, spec = "(rye docs plugins)\n", "(Agent Plugins 1.0 §"
	deep := strings.Repeat("[", 100_000)
	for name, c := range map[string]struct{ file, text, want string }{
		"deep":              {ManifestFile, `{"extensions": ` + deep, "nested more than 1000 deep " + ours},
		"deep servers":      {ServersFile, `{"mcpServers": ` + deep, "nested more than 1000 deep " + ours},
		"duplicate":         {ManifestFile, `{"name": "p", "name": "q"}`, `duplicate name "name" ` + ours},
		"duplicate servers": {ServersFile, `{"mcpServers": {"a": 1, "a": 2}}`, `duplicate name "a" ` + ours},
		"utf8":              {ManifestFile, "{\"name\": \"\xff\"}", "invalid JSON: not UTF-8 " + spec + "5.2)"},
		"utf8 servers":      {ServersFile, "{\"\xff\": 1}", "invalid JSON: not UTF-8 " + spec + "7.2.2)"},
		"device": {ManifestFile, strings.Replace(minimal, `"p"`, `"con"`, 1),
			`the name "con" can't be part of an id: path "plugins/con": "con" is a device on Windows ` + ours},
		"large":         {ManifestFile, "", "has more than 1048576 bytes " + ours},
		"large servers": {ServersFile, "", "has more than 1048576 bytes " + ours},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{ManifestFile: minimal, c.file: c.text} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if c.text == "" {
				if err := os.Truncate(filepath.Join(dir, c.file), 100<<20); err != nil {
					t.Fatal(err)
				}
			}
			p := read(t, dir)
			effect := NoServers
			if c.file == ManifestFile {
				effect = Rejects
			}
			if got := string(shown(p)); len(p.Problems) != 1 || p.Problems[0].Effect != effect ||
				!strings.Contains(got, c.want) {
				t.Errorf("got %s, want %q", got, c.want)
			}
		})
	}
}

// TestUnsignedVersion: an unsigned plugin's version names its bytes, whatever version it claims.
func TestUnsignedVersion(t *testing.T) {
	tree := cas.Sum([]byte("x"))
	digits := strings.TrimPrefix(tree.String(), "blake3:")[:12]
	for version, want := range map[string]string{"": "0.0.0+", "1.2.3": "1.2.3+", "1.2.3-rc.1": "1.2.3-rc.1+",
		"1.2.3+build": "1.2.3+", "soon": "0.0.0+"} {
		p := &Plugin{Manifest: Manifest{Version: version}}
		if got := p.UnsignedVersion(tree); got != want+digits {
			t.Errorf("%q: got %q", version, got)
		}
	}
}

// TestExpand: each placeholder is replaced once, and what it stands for isn't read again.
func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"${PLUGIN_ROOT}/a":                         "${PLUGIN_DATA}/a",
		"--x=${PLUGIN_DATA}${PLUGIN_DATA}":         "--x=DD",
		"${PLUGIN_OTHER} $PLUGIN_ROOT ${HOME} {x}": "${PLUGIN_OTHER} $PLUGIN_ROOT ${HOME} {x}",
		"${${PLUGIN_ROOT}}":                        "${${PLUGIN_DATA}}",
	} {
		if got := Expand(text, "${PLUGIN_DATA}", "D"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzRead: whatever the two files say, reading ends, each problem has a reason, and what is left keeps the rules.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		texts := map[string][]byte{}
		for _, f := range archive.Files {
			texts[f.Name] = f.Data
		}
		f.Add(texts[ManifestFile], texts[ServersFile])
	}
	f.Fuzz(func(t *testing.T, manifest, servers []byte) {
		p, err := Read(fstest.MapFS{ManifestFile: {Data: manifest}, ServersFile: {Data: servers},
			"bin/run": {Data: nil, Mode: 0o755}})
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range p.Problems {
			if found.Message == "" || found.Effect == "" || found.Path == "" {
				t.Errorf("no reason: %+v", found)
			}
		}
		if p.Rejected() != nil {
			return
		}
		if err := portable.CheckID(p.BundleID()); err != nil || strings.ContainsAny(p.Manifest.Name, "/_") {
			t.Errorf("accepted the name %q: %v", p.Manifest.Name, err)
		}
		for _, s := range p.Servers {
			bare := s.Type == Stdio && s.Command != "" && !strings.Contains(s.Command, "/")
			own := strings.HasPrefix(s.Command, "./") && p.File(path.Clean(s.Command)) != nil
			if !bare && !own && (s.Type != HTTP || !strings.HasPrefix(strings.ToLower(s.URL), "http")) {
				t.Errorf("accepted the server %+v", s)
			}
		}
	})
}
