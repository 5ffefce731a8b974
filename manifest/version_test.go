package manifest

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// The order is that of the examples of semver.org, and their neighbours.
func TestVersions(t *testing.T) {
	ordered := strings.Fields(
		"0.0.0-0 0.0.0 0.0.1 0.1.0 0.10.0 1.0.0-0.3.7 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 " +
			"1.0.0-beta.11 1.0.0-rc.1 1.0.0-x.7.z.92 1.0.0-x-y-z.-- 1.0.0 1.0.1 1.2.0 1.10.0 2.0.0-1 2.0.0-2 2.0.0-10 2.0.0-99999999999999999999999 2.0.0-1a 2.0.0 10.0.0 99999999999999999999.0.0")
	for i, a := range ordered {
		if err := CheckVersion(a); err != nil {
			t.Error(err)
		}
		for j, b := range ordered {
			got := CompareVersions(a, b)
			if got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
			if CompareVersions(a+"+b.1", b+"+001") != got {
				t.Errorf("%s and %s with builds", a, b)
			}
		}
	}
	for _, bad := range []string{"", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.00.0", "1.0.0-", "1.0.0+",
		"1.0.0-01", "1.0.0-a..b", "1.0.0-a_b",
		"1.0.0 ", " 1.0.0", "1.0.0\n", "1.0.-1", "+1.0.0", "1.0.0-é", "١.0.0", "latest", "1.0.0+a+b",
		"1.0.0-" + strings.Repeat("a", 100)} {
		if err := CheckVersion(bad); err == nil || fault.CodeOf(err) != fault.Validation {
			t.Errorf("%q is a version", bad)
		}
	}
	for _, good := range []string{"1.0.0-0a", "1.0.0--", "1.0.0+-", "1.0.0+001", "1.0.0-a+b-c", "0.0.0"} {
		if err := CheckVersion(good); err != nil {
			t.Error(err)
		}
	}
}
