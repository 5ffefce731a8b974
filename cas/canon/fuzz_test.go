package canon_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/canon"
)

// fuzzSpecs are tried each on every input: all types, nothing but entries, tight limits, optional everything.
func fuzzSpecs(tb testing.TB) []*canon.Spec {
	_, specs := loadVectors(tb)
	return []*canon.Spec{specs["tree"], specs["sample"], specs["small"], listSpec, {
		Format: "loose/7", MaxBytes: 1 << 20, MaxEntries: 50,
		Header: []canon.Field{{Name: "a", Optional: true}, {Name: "b", Type: canon.Int, Optional: true}},
		Sections: []canon.Section{
			{Name: "c", Fields: []canon.Field{
				{Name: "d", Type: canon.Strings, Optional: true, Max: 3}, {Name: "e", Optional: true, Max: 20},
				{Name: "f", Type: canon.Int, Optional: true}, {Name: "g", Type: canon.Int},
			}},
			{Name: "h"},
		},
	}}
}

// What is accepted has one form: reading and writing it again gives the same bytes. And reading from a reader
// in pieces is the same as reading from memory.
func FuzzScanner(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		files, err := filepath.Glob(filepath.Join(vectorDir, dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			f.Fatal(dir, err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte(
		"rye: \"loose/7\"\nb: 1\nc:\n  \"x\": {d: [\"\\\\\"], f: 2, g: 3}\n  \"y\": {g: 0}\nh:\n  \"\\u0000\": {}\n"))
	specs := fuzzSpecs(f)
	// The scanners are used again and again, so that nothing of one document may show in the next.
	var memory, reader []*canon.Scanner
	for _, spec := range specs {
		memory = append(memory, canon.NewScannerBytes(nil, spec))
		reader = append(reader, canon.NewScanner(&chunks{}, spec))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, spec := range specs {
			memory[i].ResetBytes(b)
			d, err := read(memory[i], spec)
			if err == nil {
				mustRewrite(t, d, spec, b)
			}
			if int64(len(b)) > spec.MaxBytes || len(b) > canon.MaxLine {
				continue // refused at different places
			}
			for _, step := range []int{1, 13} {
				reader[i].Reset(&chunks{b, step})
				d2, err2 := read(reader[i], spec)
				if !sameError(err, err2) || err == nil && !reflect.DeepEqual(d, d2) {
					t.Fatalf("%s: from memory %v, from a reader %v", spec.Format, err, err2)
				}
			}
		}
	})
}

// What the encoder writes, the scanner reads back. The input is cut into values at its newlines.
func FuzzEncoder(f *testing.F) {
	f.Add(uint8(1), "name\n12\na,b\n\na\ntitle\n3\nx,y\nme\nb\nother\n\n\n")
	f.Add(uint8(4), "\n\n\x01\n\u2028\n\U0001fffe\n\xff")
	f.Add(uint8(3), "a\nb\nc\nd,e,\x00\ne\n\\,\"")
	specs := fuzzSpecs(f)
	f.Fuzz(func(t *testing.T, which uint8, input string) {
		spec := specs[int(which)%len(specs)]
		d := invent(spec, strings.Split(input, "\n"))
		b, err := writeBytes(d, spec)
		if err != nil {
			return
		}
		got, err := readBytes(b, spec)
		if err != nil || !reflect.DeepEqual(got, d) {
			t.Fatalf("wrote %v as\n%s\nand read %v, %v", d, b, got, err)
		}
	})
}

// invent makes a document out of the parts: headers, then entries, each a key and its fields. It may be one
// that can't be written.
func invent(spec *canon.Spec, parts []string) document {
	next := func() string {
		if len(parts) == 0 {
			return ""
		}
		p := parts[0]
		parts = parts[1:]
		return p
	}
	value := func(f canon.Field) any {
		p := next()
		switch {
		case p == "" && f.Optional:
			return nil
		case f.Type == canon.Int:
			var n int64
			for _, c := range []byte(p) {
				n = n*31 + int64(c)
			}
			return n
		case f.Type == canon.Strings:
			return strings.Split(p, ",")
		}
		return p
	}
	d := document{comments: []string{}}
	for _, f := range spec.Header {
		d.header = append(d.header, value(f))
	}
	section := 0
	for len(parts) > 0 {
		e := entry{section: section, key: next()}
		if e.key == "" {
			section = (section + 1) % len(spec.Sections)
			continue
		}
		for _, f := range spec.Sections[section].Fields {
			e.fields = append(e.fields, value(f))
		}
		d.entries = append(d.entries, e)
	}
	return d
}
