package portable

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDevices builds every device name in several disguises from the list, instead of from the code.
func TestDevices(t *testing.T) {
	names := []string{"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"}
	for _, d := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"} {
		names = append(names, "com"+d, "lpt"+d)
	}
	for _, n := range names {
		for _, v := range []string{n, strings.ToUpper(n), strings.ToUpper(n[:1]) + n[1:]} {
			for _, disguise := range []string{v, v + ".txt", v + ".tar.gz", v + " .x", v + "..x"} {
				if got := ruleOf(t, Check("a/"+disguise+"/b")); got != ruleDevice {
					t.Errorf("%q: got rule %q, expected %q", disguise, got, ruleDevice)
				}
			}
			for _, file := range []string{v + "x", "x" + v, v + "-1", "." + v, v + "_.txt"} {
				if err := CheckName(file); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestDroppings(t *testing.T) {
	for n, names := range droppingNames {
		for _, name := range names {
			if len(name) != n || Fold(name) != name {
				t.Errorf("%q stands in the wrong place", name)
			}
			for _, v := range []string{name, strings.ToUpper(name)} {
				if !Droppings(v) {
					t.Errorf("%q is no dropping", v)
				}
				if CheckName(v) == nil {
					t.Errorf("%q is a dropping and allowed", v)
				}
			}
			if Droppings(name + "x") {
				t.Errorf("%q is a dropping", name+"x")
			}
		}
	}
	for _, name := range []string{"Icon\r", "thumbſ.db", "._x", ".rye-tmp-", ".NFS0123456789abcdef",
		".fuse_hidden00000001"} {
		if !Droppings(name) {
			t.Errorf("%q is no dropping", name)
		}
	}
	for _, name := range []string{"", ".", "..", ".x", "._", "a", ".nfs", ".nfs0123456", ".nfs0123456x9", ".trash-",
		".trash-x", "\xff", ".g\u200cit"} {
		if Droppings(name) {
			t.Errorf("%q is a dropping", name)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, rule := range map[string]string{
		"":           ruleEmpty,
		"a":          "",
		"a/b":        ruleCharacter,
		"/":          ruleCharacter,
		"..":         ruleDot,
		"nul":        ruleDevice,
		"\u00e4":     "",
		"a\u0308":    ruleNFC,
		"\u00c4.Txt": "",
	} {
		if got := ruleOf(t, CheckName(name)); got != rule {
			t.Errorf("CheckName(%+q): got rule %q, expected %q", name, got, rule)
		}
	}
}

func TestErrorMessages(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{Check(""), `path "" is empty`},
		{Check("a//b"), `path "a//b" has an empty segment`},
		{Check("/etc/passwd"), `path "/etc/passwd" is absolute, expected a relative path`},
		{Check("a/CON"), `path "a/CON": "CON" is a device on Windows`},
		{Check("con"), `path "con" is a device on Windows`},
		{CheckName("a:b"), `name "a:b" has ':' in it, which some systems don't allow in a name`},
		{Check("x/\u202egpj.exe"), `path "x/\u202egpj.exe": "\u202egpj.exe" has U+202E in it, which is invisible`},
		{CheckName("\x1b[2J"), `name "\x1b[2J" has U+001B in it, which is a control character or a line separator`},
		{CheckName("a\u0308"), `name "a\u0308" is not in Unicode Normalization Form C, expected "\u00e4"`},
		{CheckName("\u0378"), `name "\u0378" has U+0378 in it, which is not assigned in Unicode 15.0.0`},
		{CheckName(strings.Repeat("x", 300)), `name "` + strings.Repeat("x",
			200) + `"… (300 bytes) is longer than 255 bytes`},
		{CheckID("-x"),
			`path "-x" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`},
		{CheckSet(slices.Values([]string{"x/A", "x/a"})),
			`path "x/a": "a" is "A" where upper and lower case are the same`},
		{CheckSet(slices.Values([]string{"A/x", "a/y"})), `path "a" is "A" where upper and lower case are the same`},
		{CheckSet(slices.Values([]string{"a", "a-b", "a/b"})), `path "a" is a file, and a directory in path "a/b"`},
		{CheckSet(slices.Values([]string{"b", "a"})), `path "a" is out of order: it comes after "b"`},
		{CheckSet(slices.Values([]string{"a", "a"})), `path "a" is a duplicate`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", c.err, c.want)
		}
	}
}

// TestLimits has the sizes of security case PTH-07 that are too long for a file of vectors.
func TestLimits(t *testing.T) {
	for path, rule := range map[string]string{
		strings.Repeat("a/", 10000) + "a": rulePathLength,
		strings.Repeat("x", 4097):         rulePathLength,
		strings.Repeat("a/", 499) + "a":   "",
		strings.Repeat("a/", 499) + "aa":  "",
		strings.Repeat("a/", 500) + "a":   rulePathLength,
		strings.Repeat("../", 333):        ruleDot,
	} {
		if got := ruleOf(t, Check(path)); got != rule {
			t.Errorf("path of %d bytes: got rule %q, expected %q", len(path), got, rule)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	path := ".ai/tools/rye/bash/README_Bash-2.py"
	wide := make([]string, 1000)
	for i := range wide {
		wide[i] = fmt.Sprintf("dir%02d/name%03d.txt", i/100, i%100)
	}
	for name, c := range map[string]struct {
		f   func()
		max float64
	}{
		"Check":             {func() { _ = Check(path) }, 0},
		"CheckName":         {func() { _ = CheckName("Conclusion.md") }, 0},
		"Droppings":         {func() { _ = Droppings("Node_modules") }, 0},
		"Fold lower":        {func() { _ = Fold("a/b-c_d.txt") }, 0},
		"Check not ASCII":   {func() { _ = CheckName("grüße-日本語.md") }, 1},
		"Fold upper":        {func() { _ = Fold("README.md") }, 1},
		"CheckSet, a 1000 ": {func() { _ = CheckSet(slices.Values(wide)) }, 15},
	} {
		if n := testing.AllocsPerRun(100, c.f); n > c.max {
			t.Errorf("%s: %v allocations, expected at most %v", name, n, c.max)
		}
	}
}

func TestSetStops(t *testing.T) {
	seen := 0
	err := CheckSet(func(yield func(string) bool) {
		for _, p := range []string{"a", "..", "b"} {
			if seen++; !yield(p) {
				return
			}
		}
	})
	if err == nil || seen != 2 {
		t.Errorf("error %v after %d paths", err, seen)
	}
}
