package skill

import (
	"io/fs"
	"strings"
	"testing"
)

// TestLicences: the nearest licence above a skill goes along, but one that couldn't be a file of the skill.
func TestLicences(t *testing.T) {
	main := in{"r/s/greet/SKILL.md", greet, 0o644}
	for name, c := range map[string]struct {
		more    []in
		want    string
		warning bool
	}{
		"none": {nil, "", false},
		"above": {[]in{{"r/LICENSE", "a", 0o644}, {"r/COPYING.txt", "b", 0o755}, {"r/LICENSES.md", "c", 0o644}},
			"COPYING.txt b, LICENSE a", false},
		"nearer":     {[]in{{"r/LICENSE", "a", 0o644}, {"r/s/licence", "b", 0o644}}, "licence b", false},
		"elsewhere":  {[]in{{"r/other/LICENSE", "a", 0o644}}, "", false},
		"its own":    {[]in{{"r/LICENSE", "a", 0o644}, {"r/s/greet/License.md", "b", 0o644}}, "", false},
		"further in": {[]in{{"r/LICENSE", "a", 0o644}, {"r/s/greet/assets/LICENSE", "b", 0o644}}, "LICENSE a", false},
		"twice": {[]in{{"r/license", "b", 0o644}, {"r/LICENSE", "a", 0o644}, {"r/LICENSE.a", "c", 0o644}},
			"LICENSE a, LICENSE.a c", true},
		"a link": {[]in{{"r/LICENSE", "a", 0o777 | fs.ModeSymlink}}, "", false},
		"hidden": {[]in{{"r/LICENSE", "a\u202eb", 0o644}}, "", true},
		"large":  {[]in{{"r/LICENSE", strings.Repeat("a", maxLicence+1), 0o644}}, "", false},
	} {
		skills, err := ReadArchive(zipOf(t, append(c.more, main)...))
		if err != nil {
			t.Fatal(name, err)
		}
		var got []string
		for _, f := range skills[0].Licences {
			got = append(got, f.Path+" "+string(f.Bytes))
		}
		if all := strings.Join(got, ", "); all != c.want || (len(skills[0].Warnings) > 0) != c.warning {
			t.Errorf("%s: %q, warnings %q", name, all, skills[0].Warnings)
		}
	}
}

// TestManyLicences: a licence counts once for each skill that it goes along with.
func TestManyLicences(t *testing.T) {
	all := []in{{"r/LICENSE", strings.Repeat("a", maxLicence), 0o644}}
	for _, c := range strings.Split(strings.Repeat("a", MaxBytes/maxLicence), "") {
		name := c + strings.Repeat("b", len(all))
		all = append(all, in{"r/" + name + "/SKILL.md", "---\nname: " + name + "\ndescription: x\n---\n", 0o644})
	}
	if _, err := ReadArchive(zipOf(t, all...)); err == nil || !strings.Contains(err.Error(), "is too much") {
		t.Error(err)
	}
	if _, err := ReadArchive(zipOf(t, all[:len(all)-1]...)); err != nil {
		t.Error(err)
	}
}
