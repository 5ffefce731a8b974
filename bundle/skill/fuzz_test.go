package skill

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func addShapes(f *testing.F) {
	all, err := filepath.Glob(shapes + "/*/" + Main)
	if err != nil || len(all) == 0 {
		f.Fatal(all, err)
	}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzText: what is accepted is the same bytes again, and makes the same text again.
func FuzzText(f *testing.F) {
	addShapes(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := ParseText(Main, b)
		if err != nil {
			return
		}
		if !bytes.Equal(text.Bytes(), b) {
			t.Fatalf("%q became %q", b, text.Bytes())
		}
		if !IsName(text.Name) || text.Description == "" {
			t.Fatalf("%+v", text)
		}
	})
}

// FuzzArchive: whatever bytes are read, what is accepted can be packed again and gives the same skills.
func FuzzArchive(f *testing.F) {
	files := []in{{"s/greet/SKILL.md", greet, 0o644}, {"s/greet/scripts/a.sh", "#!/bin/sh\n", 0o755},
		{"s/readme", "x", 0o644}}
	f.Add(zipOf(f, files...))
	f.Add(tarOf(f, files...))
	f.Fuzz(func(t *testing.T, b []byte) {
		skills, err := ReadArchive(b)
		if err != nil {
			return
		}
		var again []in
		for _, s := range skills {
			for _, file := range s.Files {
				mode := 0o644
				if file.Exec {
					mode = 0o755
				}
				again = append(again, in{"s/" + s.Name + "/" + file.Path, string(file.Bytes), os.FileMode(mode)})
			}
		}
		for _, packed := range [][]byte{zipOf(t, again...), tarOf(t, again...)} {
			got, err := ReadArchive(packed)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range got {
				if !reflect.DeepEqual(s.Files, skills[i].Files) {
					t.Fatalf("%+v became %+v", skills[i].Files, s.Files)
				}
			}
		}
	})
}
