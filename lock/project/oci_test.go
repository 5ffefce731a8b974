package project

import (
	"strings"
	"testing"
)

// Images are written in one way, and a lock has them by digest.
func TestImages(t *testing.T) {
	digest := "@sha256:" + commit256
	for text, want := range map[string]string{
		"oci://h.example/a/b":               "",
		"oci://h.example:5000/a:1.0.0":      "",
		"oci://h.example/a:stable" + digest: "",
		"oci-layout:../stick":               "",
		"oci-layout:./stick:stable":         "oci-layout:stick:stable",
	} {
		if want == "" {
			want = text
		}
		s, err := ParseSource(text, false)
		ref, image := s.OCI()
		if err != nil || s.Where != want || !image || ref.String() != want ||
			s.Pinned() != strings.Contains(text, "@") || s.Remote() != (ref.Dir == "") {
			t.Errorf("%q is %+v, %+v, %v", text, s, ref, err)
		}
	}
	for text, want := range map[string]string{
		"oci://h.example":             "a name has",
		"oci://H.example/a":           "lower case",
		"oci://u:p@h.example/a":       "the host is invalid",
		"oci://h.example/A":           "a name has",
		"oci://h.example/a:":          "a tag has",
		"oci://h.example/a@sha256:00": "a digest is",
		"oci-layout:":                 "a directory is missing",
		"oci-layout:./":               "empty",
		"oci-layout:/media/stick":     "is",
		"oci-layout:~/stick":          "~ is not supported",
		"oci-layout:..\\stick":        "is",
	} {
		if s, err := ParseSource(text, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", text, s, err, want)
		}
	}
	if _, err := ParseSource("oci://h.example/a", true); err == nil ||
		!strings.Contains(err.Error(), "holds bundles") {
		t.Errorf("an index: %v", err)
	}
	for _, c := range []struct {
		from, locked string
		same, allows bool
	}{
		{"oci://h.example/a", "oci://h.example/a:1.0.0" + digest, true, true},
		{"oci://h.example/a:1.0.0", "oci://h.example/a:1.0.0" + digest, true, true},
		{"oci://h.example/a:1.0.0", "oci://h.example/a:1.1.0" + digest, true, false},
		{"oci://h.example/a:1.0.0", "oci://h.example/a:1.0.0", true, true},
		{"oci://h.example/a" + digest, "oci://h.example/a:1.0.0" + digest, true, false},
		{"oci://h.example/a", "oci://h.example/b:1.0.0" + digest, false, false},
		{"oci-layout:../a", "oci://h.example/a:1.0.0" + digest, false, false},
		{"oci-layout:../a", "oci-layout:../a:1.0.0" + digest, true, true},
	} {
		from, locked := Source{Where: c.from}, Source{Where: c.locked}
		if same, allows := from.SamePlace(locked), from.Allows(locked); same != c.same || allows != c.allows {
			t.Errorf("%s and %s: same place %t, allows %t", c.from, c.locked, same, allows)
		}
	}
}
