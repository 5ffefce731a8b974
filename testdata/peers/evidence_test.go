package peers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"google.golang.org/protobuf/encoding/protojson"
)

// The tests here give what rye writes about bundles to those who define these formats: CycloneDX's schema and library,
// SPDX's library, in-toto's messages. What they know and what we write must be the same, to the last member.

// An author is a home with a key and a project with a little bundle.
type author struct {
	t         *testing.T
	bin, home string
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rye-peers-*")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "rye")
	c := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", bin, "./cmd/rye")
	c.Stderr = os.Stderr
	return bin, c.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := build(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

func newAuthor(t *testing.T) *author {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	a := &author{t, bin, t.TempDir()}
	a.rye("key", "new", "--owner", "Acme")
	a.write(".ai/tools/acme/hello.sh",
		"#!/usr/bin/env bash\n# ---\n# version: 1.0.0\n# tool_type: shell\n# executor_id: rye/core/runtimes/bash_runtime\n"+
			"# category: acme\n# description: Says hello\n# ---\necho hello\n")
	a.write("docs/grün & 'quoted' (one).txt", "text\n")
	a.write("docs/empty", "")
	return a
}

func (a *author) write(name, text string) {
	a.t.Helper()
	path := filepath.Join(a.home, filepath.FromSlash("p/"+name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		a.t.Fatal(err)
	}
}

// create makes the bundle of a recipe.
func (a *author) create(recipe string) {
	a.t.Helper()
	a.write("bundle.yaml", recipe)
	a.rye("bundle", "create", "-q", "--sign", "tool:acme/hello", "--yes")
}

// rye runs it and returns its standard output.
func (a *author) rye(args ...string) []byte {
	a.t.Helper()
	c := exec.Command(a.bin, args...)
	c.Dir = filepath.Join(a.home, "p")
	if err := os.MkdirAll(filepath.Join(c.Dir, ".ai"), 0o755); err != nil {
		a.t.Fatal(err)
	}
	c.Env = append(os.Environ(), "HOME="+a.home, "USER_SPACE=", "RYE_STORE=", "RYE_KEY=", "RYE_TRUST=",
		"SOURCE_DATE_EPOCH=")
	for _, dir := range []string{"CACHE", "STATE", "DATA", "CONFIG"} {
		c.Env = append(c.Env, "XDG_"+dir+"_HOME="+filepath.Join(a.home, dir))
	}
	var failed bytes.Buffer
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		a.t.Fatalf("rye %q: %v\n%s", args, err, &failed)
	}
	return out
}

// A full recipe says all that a recipe can, and in different licences what the two formats write differently.
var recipes = map[string]string{
	"little":  "id: acme/little\nversion: 1.0.0\ninclude: [\"tool:acme/**\"]\n",
	"full":    "id: acme/full\nversion: 2.1.0-rc.1+build.5\ndescription: \"All there is, — with ümlauts & <marks>\"\nlicense: MIT\nentrypoint: tool:acme/hello\ninclude: [\"tool:acme/**\"]\nassets: [\"docs/**\"]\nexpires: \"2999-01-01\"\nrequires: {acme/tools: \"^2.0.0\", other: \">=1.0.0\"}\n",
	"either":  "id: acme/either\nversion: 1.0.0\ninclude: [\"tool:acme/**\"]\nlicense: \"(MIT OR Apache-2.0) AND BSD-3-Clause\"\n",
	"own":     "id: acme/own\nversion: 1.0.0\ninclude: [\"tool:acme/**\"]\nlicense: \"Ask us first\"\n",
	"library": "",
}

// each calls check with what rye writes of each bundle.
func each(t *testing.T, format string, check func(t *testing.T, files int, text []byte)) {
	for name, recipe := range recipes {
		t.Run(name, func(t *testing.T) {
			a, id := newAuthor(t), "rye/std"
			if recipe != "" {
				a.create(recipe)
				id = "acme/" + name
			}
			var inspected struct {
				Data struct {
					Files []any `json:"files"`
				} `json:"data"`
			}
			if err := json.Unmarshal(a.rye("--json", "bundle", "inspect", id), &inspected); err != nil {
				t.Fatal(err)
			}
			files := len(inspected.Data.Files)
			if files == 0 {
				t.Fatal("a bundle of no files")
			}
			check(t, files, a.rye("bundle", "sbom", id, "--format", format))
		})
	}
}

// sameJSON compares what documents say.
func sameJSON(t *testing.T, got, want []byte) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("they understand\n%s\nof\n%s", got, want)
	}
}

// schema is CycloneDX's own, as its library's module has it.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "schema")
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for id, name := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json",
		"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		text, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(text)
		text.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+id, doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCycloneDX(t *testing.T) {
	official := schema(t)
	each(t, "cyclonedx", func(t *testing.T, files int, text []byte) {
		valid := func(text []byte) error {
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			return official.Validate(v)
		}
		if err := valid(text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		for _, edit := range [][2]string{{`"BLAKE3"`, `"BLAKE4"`}, {`"type":"file"`, `"type":"flie"`},
			{`"specVersion":`, `"specversion":`}, {`urn:uuid:`, `urn:`}} {
			if wrong := bytes.Replace(text, []byte(edit[0]), []byte(edit[1]), 1); valid(wrong) == nil {
				t.Errorf("with %s it would be valid as well", edit[1])
			}
		}
		var bom cyclonedx.BOM
		if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text),
			cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		if bom.SpecVersion != cyclonedx.SpecVersion1_6 || bom.Metadata == nil || bom.Metadata.Component == nil ||
			bom.Components == nil {
			t.Fatalf("%+v", bom)
		}
		have := 0
		for _, c := range *bom.Components {
			if c.Type == cyclonedx.ComponentTypeFile {
				have++
			}
		}
		if have != files {
			t.Errorf("%d files, want %d", have, files)
		}
		var again bytes.Buffer
		if err := cyclonedx.NewBOMEncoder(&again, cyclonedx.BOMFileFormatJSON).Encode(&bom); err != nil {
			t.Fatal(err)
		}
		sameJSON(t, again.Bytes(), text)
	})
}

func TestSPDX(t *testing.T) {
	each(t, "spdx", func(t *testing.T, files int, text []byte) {
		doc, err := spdxjson.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if err := spdxlib.ValidateDocument(doc); err != nil {
			t.Error(err)
		}
		described, err := spdxlib.GetDescribedPackageIDs(doc)
		if err != nil || len(described) != 1 || described[0] != "Bundle" {
			t.Errorf("described are %v, %v", described, err)
		}
		have := 0
		for _, p := range doc.Packages {
			if p.PrimaryPackagePurpose == "FILE" {
				have++
			}
		}
		if have != files || len(doc.Files) != 0 {
			t.Errorf("%d packages are files, %d are called so, want %d", have, len(doc.Files), files)
		}
		if wrong, err := spdxjson.Read(bytes.NewReader(bytes.Replace(text,
			[]byte(`"relatedSpdxElement":"SPDXRef-File-1"`), []byte(`"relatedSpdxElement":"SPDXRef-File-x"`),
			1))); err == nil && spdxlib.ValidateDocument(wrong) == nil {
			t.Error("with a part that isn't there it would be valid as well")
		}
		var again bytes.Buffer
		if err := spdxjson.Write(doc, &again); err != nil {
			t.Fatal(err)
		}
		sameJSON(t, again.Bytes(), text)
	})
}

// TestStatement gives what rye bundle attest writes to in-toto's messages, which refuse members that they don't know.
func TestStatement(t *testing.T) {
	for name, recipe := range recipes {
		if recipe == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			a := newAuthor(t)
			a.create(recipe)
			for _, args := range [][]string{nil, {"--builder", "https://ci.example.com/release?x=1", "--invocation",
				"run 7"}} {
				var envelope struct {
					PayloadType string `json:"payloadType"`
					Payload     string `json:"payload"`
				}
				if err := json.Unmarshal(a.rye(append([]string{"bundle", "attest", "acme/" + name}, args...)...),
					&envelope); err != nil {
					t.Fatal(err)
				}
				payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
				if err != nil || envelope.PayloadType != "application/vnd.in-toto+json" {
					t.Fatalf("%v, %+v", err, envelope)
				}
				var s intoto.Statement
				if err := protojson.Unmarshal(payload, &s); err != nil {
					t.Fatalf("%v\n%s", err, payload)
				}
				if err := s.Validate(); err != nil || s.GetType() != intoto.StatementTypeUri ||
					s.GetPredicateType() != "https://slsa.dev/provenance/v1" {
					t.Errorf("%v\n%s", err, payload)
				}
				predicate, err := protojson.Marshal(s.GetPredicate())
				if err != nil {
					t.Fatal(err)
				}
				var p slsa.Provenance
				if err := protojson.Unmarshal(predicate, &p); err != nil {
					t.Fatalf("%v\n%s", err, predicate)
				}
				if err := p.Validate(); err != nil {
					t.Errorf("%v\n%s", err, predicate)
				}
				if args != nil && (p.GetRunDetails().GetBuilder().GetId() != args[1] ||
					p.GetRunDetails().GetMetadata().GetInvocationId() != args[3]) {
					t.Errorf("%s", predicate)
				}
				again, err := protojson.Marshal(&s)
				if err != nil {
					t.Fatal(err)
				}
				sameJSON(t, again, payload)
			}
		})
	}
}
