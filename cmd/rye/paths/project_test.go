package paths

import "testing"

func TestRelease(t *testing.T) {
	for v, want := range map[string]bool{"1.2.3": true, "0.0.0-20261122010203-abcdef": false, "devel": false,
		"1.2": false} {
		if IsRelease(v) != want {
			t.Errorf("%q: %t", v, !want)
		}
	}
}
