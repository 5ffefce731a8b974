package packages

import (
	"slices"
	"strings"
	"testing"
)

func TestPlatforms(t *testing.T) {
	for _, c := range []struct {
		of           Machine
		n            int
		first, last  string
		has, without string
	}{
		{Machine{Platform: "linux-x86_64", Libc: "glibc 2.36", Bits: 64}, 36, "manylinux_2_36_x86_64", "linux_x86_64",
			"manylinux1_x86_64", "manylinux_2_37_x86_64"},
		{Machine{Platform: "linux-x86_64", Libc: "glibc 2.36", Bits: 32}, 36, "manylinux_2_36_i686", "linux_i686",
			"manylinux2010_i686", "linux_x86_64"},
		{Machine{Platform: "linux-aarch64", Libc: "glibc 2.17", Bits: 64}, 3, "manylinux_2_17_aarch64",
			"linux_aarch64", "manylinux2014_aarch64", "manylinux_2_16_aarch64"},
		{Machine{Platform: "linux-aarch64", Libc: "glibc 2.17", Bits: 32}, 3, "manylinux_2_17_armv7l", "linux_armv7l",
			"", "linux_aarch64"},
		{Machine{Platform: "linux-x86_64", Libc: "musl", Bits: 64}, 4, "musllinux_1_2_x86_64", "linux_x86_64",
			"musllinux_1_0_x86_64", "manylinux1_x86_64"},
		{Machine{Platform: "linux-x86_64", Bits: 64}, 1, "linux_x86_64", "linux_x86_64", "", "manylinux1_x86_64"},
		{Machine{Platform: "linux-x86_64", Libc: "glibc 2.99999999", Bits: 64}, 1, "linux_x86_64", "linux_x86_64", "",
			""},
		{Machine{Platform: "macosx-11.0-arm64", Release: "14.5"}, 21, "macosx_14_0_arm64", "macosx_10_4_universal2",
			"macosx_11_0_universal2", "macosx_10_9_arm64"},
		{Machine{Platform: "macosx-10.9-x86_64", Release: "10.15.7"}, 48, "macosx_10_15_x86_64",
			"macosx_10_4_universal", "macosx_10_9_intel", "macosx_11_0_x86_64"},
		{Machine{Platform: "macosx-10.9-x86_64", Release: "x"}, 0, "", "", "", ""},
		{Machine{Platform: "win-amd64"}, 1, "win_amd64", "win_amd64", "", ""},
		{Machine{Platform: "win32"}, 1, "win32", "win32", "", ""},
		{Machine{}, 0, "", "", "", ""},
	} {
		list := c.of.Platforms()
		if len(list) != c.n || c.n > 0 && (list[0] != c.first || list[len(list)-1] != c.last) {
			t.Errorf("%+v: %d, %s", c.of, len(list), strings.Join(list, " "))
		}
		if c.has != "" && !slices.Contains(list, c.has) || c.without != "" && slices.Contains(list, c.without) {
			t.Errorf("%+v: %s", c.of, strings.Join(list, " "))
		}
	}
}
