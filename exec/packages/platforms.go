package packages

import (
	"fmt"
	"strconv"
	"strings"
)

// A Machine is the platform of an interpreter, as the interpreter describes it.
type Machine struct {
	Platform string // by Python's name: linux-x86_64, macosx-11.0-arm64, win-amd64
	Libc     string // on Linux: "glibc 2.36" or "musl"
	Release  string // on macOS: "14.5"
	Bits     int    // of the interpreter
}

// Platforms returns the platform tags of the wheels that the machine runs, the best first. The version of musl is
// unknown, so all three tags are accepted.
func (m *Machine) Platforms() []string {
	kind, arch := m.Platform, ""
	if i := strings.LastIndexByte(m.Platform, '-'); i >= 0 {
		kind, arch = m.Platform[:i], strings.NewReplacer("-", "_", ".", "_").Replace(m.Platform[i+1:])
	}
	switch {
	case kind == "linux":
		return m.linux(arch)
	case strings.HasPrefix(kind, "macosx-"):
		return m.mac(arch)
	case m.Platform == "":
		return nil
	}
	return []string{strings.NewReplacer("-", "_", ".", "_").Replace(m.Platform)}
}

// legacy maps glibc versions to their older tags.
var legacy = map[int]string{17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}

func (m *Machine) linux(arch string) (list []string) {
	if m.Bits == 32 {
		switch arch {
		case "x86_64":
			arch = "i686"
		case "aarch64":
			arch = "armv7l"
		}
	}
	// Wheels for older versions exist only for the first two.
	oldest := 17
	if arch == "x86_64" || arch == "i686" {
		oldest = 5
	}
	switch major, minor := numbers(strings.TrimPrefix(m.Libc, "glibc ")); {
	case m.Libc == "musl":
		for minor := 2; minor >= 0; minor-- {
			list = append(list, fmt.Sprintf("musllinux_1_%d_%s", minor, arch))
		}
	case strings.HasPrefix(m.Libc, "glibc ") && major == 2 && minor < 1000:
		for ; minor >= oldest; minor-- {
			list = append(list, fmt.Sprintf("manylinux_2_%d_%s", minor, arch))
			if old := legacy[minor]; old != "" {
				list = append(list, old+"_"+arch)
			}
		}
	}
	return append(list, "linux_"+arch)
}

func (m *Machine) mac(arch string) (list []string) {
	major, minor := numbers(m.Release)
	kinds := []string{arch, "universal2"}
	if arch == "x86_64" {
		kinds = append(kinds, "intel", "universal")
	}
	add := func(major, minor int, kinds []string) {
		for _, k := range kinds {
			list = append(list, fmt.Sprintf("macosx_%d_%d_%s", major, minor, k))
		}
	}
	for n := min(major, 100); n >= 11; n-- {
		add(n, 0, kinds)
	}
	switch {
	case major >= 11:
		minor = 16
	case major < 10:
		return nil
	}
	if arch != "x86_64" {
		kinds = []string{"universal2"} // other wheels predate the processor
	}
	for n := min(minor, 16); n >= 4; n-- {
		add(10, n, kinds)
	}
	return list
}

// numbers returns the first two numbers of a version; 0 for missing ones.
func numbers(s string) (major, minor int) {
	first, rest, _ := strings.Cut(s, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, _ = strconv.Atoi(first)
	minor, _ = strconv.Atoi(second)
	return max(major, 0), max(minor, 0)
}
