package registry_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// archiveWith returns an archive with these files.
func (w *world) archiveWith(id, version string, files map[string]string) []byte {
	w.Helper()
	var store cas.Memory
	var list []manifest.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		info, err := store.Put(w.Context(), cas.Blob, strings.NewReader(files[name]))
		if err != nil {
			w.Fatal(err)
		}
		list = append(list, manifest.File{Path: name, Digest: info.Digest, Size: info.Size, Mode: cas.File})
	}
	body, made, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: id, Version: version}, list)
	if err == nil {
		err = made.Sign(keytest.Alice(), noon)
	}
	var b bytes.Buffer
	if err == nil {
		err = archive.Write(w.Context(), &b, body, made.Signatures, &store,
			manifest.SignerKey{Public: keytest.Alice().Public()})
	}
	if err != nil {
		w.Fatal(err)
	}
	return b.Bytes()
}

func skillText(name string) string {
	return "---\nname: " + name + "\ndescription: It is " + name + "\n---\n\nWords.\n"
}

// TestSkills: the outermost folders with a good SKILL.md are offered by themselves, with all their files; what isn't a
// skill refuses no publish.
func TestSkills(t *testing.T) {
	w := newWorld(t)
	ada := w.caller("ada")
	w.claim(ada, "acme")
	b := w.archiveWith("acme/words", "1.0.0", map[string]string{
		"skills/greet/SKILL.md":                          skillText("greet"),
		"skills/greet/1/SKILL.md":                        skillText("1"),
		"skills/greet.md":                                "beside it\n",
		"skills/wave/SKILL.md":                           skillText("wave"),
		"skills/bad/SKILL.md":                            "no front matter\n",
		"skills/other/SKILL.md":                          skillText("another"),
		"skills/Upper/SKILL.md":                          skillText("Upper"),
		"docs/skills/say/_files/SKILL.md":                skillText("say"),
		"io.github.rye-build/items/skills/hide/SKILL.md": skillText("hide"),
		"SKILL.md":                                       skillText("top"),
	})
	v, err := w.Publish(t.Context(), ada, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for i := range v.Skills {
		s := &v.Skills[i]
		found = append(found, s.File())
		packed, err := w.Skill(t.Context(), v, s)
		if err != nil || offer.Digest(packed) != s.Digest || s.About != "It is "+s.Name {
			t.Errorf("%+v, %v", s, err)
		}
		if s.Name != "greet" {
			continue
		}
		all, err := skill.ReadArchive(packed)
		if err != nil || len(all) != 1 || all[0].Name != "greet" || len(all[0].Files) != 2 {
			t.Errorf("%+v, %v", all, err)
		}
	}
	if strings.Join(found, " ") != "say/SKILL.md greet.zip wave/SKILL.md" {
		t.Errorf("%q", found)
	}
	w.o.Limits.Ratio = 1 << 30
	w.open()
	large := map[string]string{"skills/greet/SKILL.md": skillText("greet")}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		large["data/"+name] = strings.Repeat(name, 15<<20)
	}
	b = w.archiveWith("acme/large", "1.0.0", large)
	if v, err = w.Publish(t.Context(), ada, bytes.NewReader(b)); err != nil || len(v.Skills) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
