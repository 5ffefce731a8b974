package plugin

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rye-build/rye/manifest/policy/yamltree/schematest"
)

// undecided are what the reader refuses and no schema can: cases, and servers as CASE/SERVER.
var undecided = map[string]string{
	"manifest_not_json":            "not JSON",
	"servers_not_json":             "not JSON",
	"extension_secrets_glob":       "which globs match a path",
	"servers_invalid/out":          "where a path leads takes more than a pattern",
	"servers_invalid/gone":         "whether the file exists",
	"servers_invalid/cwd-gone":     "whether the directory exists",
	"servers_invalid/header-twice": "two names that differ only in case",
	"links_outside/a":              "where a symbolic link leads",
	"links_outside/b":              "where a symbolic link leads",
	"left_out/a":                   "whether the file belongs to a bundle",
	"left_out/b":                   "whether the file belongs to a bundle",
	"left_out/c":                   "whether the directory belongs to a bundle",
}

// A verdict is whether the reader accepts a document: a manifest, or the file of one server.
type verdict struct {
	name string // the case, and the server
	file string // ManifestFile or ServersFile
	text []byte
	ok   bool
}

// verdicts returns the reader's verdict of each manifest, each mcp.json without its servers, and each server alone.
func verdicts(t testing.TB) (all []verdict) {
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, verdictsOf(name, archive, read(t, unpack(t, archive)))...)
	}
	return all
}

func verdictsOf(name string, archive *txtar.Archive, p *Plugin) (all []verdict) {
	bad := func(is func(Problem) bool) bool {
		for _, found := range p.Problems {
			if found.Invalid() && is(found) {
				return true
			}
		}
		return false
	}
	for _, f := range archive.Files {
		switch f.Name {
		case ManifestFile:
			all = append(all, verdict{name, f.Name, f.Data,
				!bad(func(found Problem) bool { return found.Path == ManifestFile })})
		case ServersFile:
			if p.Rejected() != nil {
				continue // it isn't read
			}
			whole := !bad(func(found Problem) bool { return found.Path == ServersFile && found.Part == "" })
			var document map[string]json.RawMessage
			var servers map[string]json.RawMessage
			if json.Unmarshal(f.Data, &document) != nil || json.Unmarshal(document["mcpServers"], &servers) != nil ||
				!whole {
				all = append(all, verdict{name, f.Name, f.Data, whole})
				continue
			}
			for server, entry := range servers {
				text := []byte(`{"$schema": "` + ServersSchema + `", "mcpServers": {"s": ` + string(entry) + `}}`)
				all = append(all, verdict{name + "/" + server, f.Name, text,
					!bad(func(found Problem) bool { return found.Part == "servers/"+server })})
			}
		}
	}
	return all
}

// TestSchemas: the schemas decide as the reader does, but for what no schema can decide.
func TestSchemas(t *testing.T) {
	schemas := map[string]*schematest.Schema{}
	for _, file := range []string{ManifestFile, ServersFile} {
		schemas[file] = schematest.New(t, Schema(file))
	}
	decide(t, func(v verdict) (string, bool) { return schemas[v.file].Refuses(v.text) })
}

// decide compares the verdicts of a schema with the reader's. ask returns why the schema refuses a document, and false
// for a document that it can't be asked about.
func decide(t *testing.T, ask func(verdict) (string, bool)) {
	used := map[string]bool{}
	for _, v := range verdicts(t) {
		why, asked := ask(v)
		_, open := undecided[v.name]
		switch {
		case !asked || why == "" && !v.ok && open:
			used[v.name] = true
		case (why == "") != v.ok:
			t.Errorf("%s, %s: the reader accepts it: %v; the schema refuses it because %q", v.name, v.file, v.ok, why)
		}
	}
	for name := range undecided {
		if !used[name] {
			t.Errorf("%s is decided", name)
		}
	}
}
