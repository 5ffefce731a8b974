package canon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/goldentest"
)

const vectorDir = "../../testdata/vectors/canon"

// vectors is vectors.json. For every name there is good/NAME.yaml with what it says in good/NAME.json, or
// bad/NAME.yaml with the line of the mistake (0: the whole document). Updating rewrites columns and messages;
// lines are written by hand.
type vectors struct {
	Specs map[string]struct {
		Format     string
		MaxBytes   int64
		MaxEntries int
		Header     []vectorField   `json:",omitempty"`
		Sections   []vectorSection `json:",omitempty"`
	} `json:"specs"`
	Good []struct {
		Name string `json:"name"`
		Spec string `json:"spec"`
	} `json:"good"`
	Bad []struct {
		Name   string `json:"name"`
		Spec   string `json:"spec"`
		Line   int    `json:"line"`
		Column int    `json:"column"`
		Error  string `json:"error"`
	} `json:"bad"`
}

type vectorField struct {
	Name     string
	Type     string `json:",omitempty"`
	Optional bool   `json:",omitempty"`
	Max      int64  `json:",omitempty"`
}

type vectorSection struct {
	Name   string
	Fields []vectorField `json:",omitempty"`
}

func loadVectors(t testing.TB) (vectors, map[string]*canon.Spec) {
	t.Helper()
	var v vectors
	b, err := os.ReadFile(filepath.Join(vectorDir, "vectors.json"))
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	fields := func(in []vectorField) (out []canon.Field) {
		for _, f := range in {
			typ := map[string]canon.Type{"": canon.String, "int": canon.Int, "strings": canon.Strings}[f.Type]
			out = append(out, canon.Field{Name: f.Name, Type: typ, Optional: f.Optional, Max: f.Max})
		}
		return out
	}
	specs := map[string]*canon.Spec{}
	for name, s := range v.Specs {
		spec := &canon.Spec{Format: s.Format, MaxBytes: s.MaxBytes, MaxEntries: s.MaxEntries, Header: fields(s.Header)}
		for _, sec := range s.Sections {
			spec.Sections = append(spec.Sections, canon.Section{Name: sec.Name, Fields: fields(sec.Fields)})
		}
		specs[name] = spec
	}
	return v, specs
}

func vectorFile(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectorDir, dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join(vectorDir, name), got)
}

// meaning returns d as what a reader of YAML would make of it.
func (d document) meaning(spec *canon.Spec) map[string]any {
	m := map[string]any{"rye": spec.Format}
	for i, v := range d.header {
		if v != nil {
			m[spec.Header[i].Name] = v
		}
	}
	for _, e := range d.entries {
		sec := spec.Sections[e.section]
		if m[sec.Name] == nil {
			m[sec.Name] = map[string]any{}
		}
		fields := map[string]any{}
		for i, v := range e.fields {
			if v != nil {
				fields[sec.Fields[i].Name] = v
			}
		}
		m[sec.Name].(map[string]any)[e.key] = fields
	}
	return m
}

func TestGoodVectors(t *testing.T) {
	v, specs := loadVectors(t)
	for _, c := range v.Good {
		t.Run(c.Name, func(t *testing.T) {
			spec, b := specs[c.Spec], vectorFile(t, "good", c.Name+".yaml")
			d, err := readBytes(b, spec)
			if err != nil {
				t.Fatal(err)
			}
			mustRewrite(t, d, spec, b)
			for _, step := range []int{1, 7, 1 << 20} {
				got, err := read(canon.NewScanner(&chunks{b, step}, spec), spec)
				if err != nil || !reflect.DeepEqual(got, d) {
					t.Errorf("read %d bytes at a time: %v, %v", step, got, err)
				}
			}
			j, err := json.MarshalIndent(d.meaning(spec), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "good/"+c.Name+".json", append(j, '\n'))
		})
	}
}

func TestBadVectors(t *testing.T) {
	v, specs := loadVectors(t)
	for i := range v.Bad {
		c := &v.Bad[i]
		t.Run(c.Name, func(t *testing.T) {
			spec, b := specs[c.Spec], vectorFile(t, "bad", c.Name+".yaml")
			_, err := readBytes(b, spec)
			if err == nil {
				t.Fatal("accepted")
			}
			var syntax *canon.SyntaxError
			var version *canon.VersionError
			switch {
			case errors.As(err, &syntax):
			case errors.As(err, &version):
				syntax = &canon.SyntaxError{}
			default:
				t.Fatalf("error %v is of another type", err)
			}
			if goldentest.Update() {
				c.Column, c.Error = syntax.Column, err.Error()
			}
			if syntax.Line != c.Line || syntax.Column != c.Column || err.Error() != c.Error {
				t.Errorf("got %v, want line %d: %s", err, c.Line, c.Error)
			}
			for _, step := range []int{1, 7, 1 << 20} {
				_, err2 := read(canon.NewScanner(&chunks{b, step}, spec), spec)
				if !sameError(err, err2) {
					t.Errorf("read %d bytes at a time: %v, want %v", step, err2, err)
				}
			}
		})
	}
	j, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "vectors.json", append(j, '\n'))
}

// sameError reports whether two ways of reading refused the same thing. The words may differ: what has left
// the buffer can't be named.
func sameError(a, b error) bool {
	var x, y *canon.SyntaxError
	if errors.As(a, &x) && errors.As(b, &y) {
		return x.Line == y.Line && x.Column == y.Column
	}
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// The example of the package comment is a vector.
func TestDocExample(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	example := vectorFile(t, "good", "example.yaml")
	comment := append([]byte("//\t"), bytes.ReplaceAll(bytes.TrimSuffix(example, []byte("\n")), []byte("\n"),
		[]byte("\n//\t"))...)
	if !bytes.Contains(doc, append(comment, '\n')) {
		t.Errorf("doc.go doesn't hold\n%s", comment)
	}
}

// Every file of the folder is listed, so that a vector can't be forgotten.
func TestVectorsListed(t *testing.T) {
	v, _ := loadVectors(t)
	listed := map[string]bool{}
	for _, c := range v.Good {
		listed["good/"+c.Name+".yaml"] = true
	}
	for _, c := range v.Bad {
		listed["bad/"+c.Name+".yaml"] = true
	}
	for _, dir := range []string{"good", "bad"} {
		files, err := filepath.Glob(filepath.Join(vectorDir, dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := dir + "/" + filepath.Base(f); !listed[name] {
				t.Errorf("%s isn't in vectors.json", name)
			}
		}
	}
}
