package packages

import "testing"

func TestOfNPM(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"license":"MIT"}`: "MIT", `{"license":{"type":"ISC"}}`: "ISC",
		`{"licenses":[{"type":"MIT"},{"type":"A B"}]}`: "(MIT) OR (A B)",
		`{}`: "", `[]`: "", `no`: "", `{"license":3}`: "", `{"license":null}`: "",
		`{"license":"MIT","licenses":"MIT"}`: "MIT", `{"license":["MIT"]}`: "",
		`{"license":"GPL-3.0-only","License":"MIT"}`: "GPL-3.0-only", `{"License":"MIT"}`: "",
		"\ufeff" + `{"license":"MIT"}`: "MIT",
	} {
		if got := ofNPM([]byte(content)); got != want {
			t.Errorf("%s: %q", content, got)
		}
	}
}

func TestOfWheel(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"License-Expression: MIT\nLicense: ISC\n\n": "MIT",
		"License: isc\n": "isc",
		"License: BSD\nClassifier: License :: OSI Approved :: BSD License\n\n":                                       "BSD",
		"Classifier: License :: OSI Approved :: MIT License\n\n":                                                     "MIT",
		"License: see file\nClassifier: License :: OSI Approved :: MIT License\n\n":                                  "MIT",
		"Classifier: License :: OSI Approved :: MIT License\nClassifier: License :: OSI Approved :: BSD License\n\n": "MIT License, BSD License",
		"Classifier: License :: Other/Proprietary License\n\n":                                                       "Other/Proprietary License",
		"License: one\n two\n\n":  "one two",
		"Name: x\n\nLicense: MIT": "",
		"\x00":                    "",
		"":                        "",
	} {
		if got := ofWheel([]byte(content)); got != want {
			t.Errorf("%q: %q", content, got)
		}
	}
}

// TestDeny: what is unknown is denied by its text or as NOASSERTION.
func TestDeny(t *testing.T) {
	t.Parallel()
	all := make([]Licence, 5)
	for i, text := range []string{"mit", "MIT OR ISC", "Acme 1", "", "GPL/LGPL"} {
		all[i].declare(text)
	}
	for glob, want := range map[string][5]bool{
		"Mit": {true, false, false, false, false}, "noassertion": {false, false, true, true, true},
		"acme*": {false, false, true, false, false},
		"*":     {true, true, true, true, true}, "[MI]*": {true, true, false, false, false},
		"gpl*": {false, false, false, false, true}, "GPL/L*": {false, false, false, false, true},
	} {
		n, err := DenyLicences(all, []string{glob})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range all {
			if e.Denied != want[i] {
				t.Errorf("%s: %s: %v", glob, e.Text(), e.Denied)
			}
			if e.Denied {
				n--
			}
		}
		if n != 0 || (RefusedLicences(all) == nil) != (want == [5]bool{}) {
			t.Errorf("%s: %d", glob, n)
		}
	}
	for _, glob := range []string{"[", "", " "} { // "" is what an unset variable of a pipeline gives
		if _, err := DenyLicences(all, []string{glob}); err == nil {
			t.Errorf("%q is a glob", glob)
		}
	}
	gnu := make([]Licence, 2)
	gnu[0].declare("GPL-3.0")
	gnu[1].declare("GPL-3.0-only WITH GCC-exception-3.1")
	for _, glob := range []string{"GPL-3.0", "gpl-3.0-only"} {
		if n, err := DenyLicences(gnu, []string{glob}); err != nil || n != 2 {
			t.Errorf("%s: %d of 2: one licence has two names: %v", glob, n, err)
		}
	}
}
