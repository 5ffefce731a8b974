package packages

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A WheelName is a parsed file name of a wheel.
type WheelName struct {
	Project, Version, Build string
	Pythons, ABIs, Machines []string // any combination: "py2.py3-none-any"
}

var errNoWheel = errors.New("is not the name of a wheel: expected PROJECT-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl")

// ParseWheel parses the file name of a wheel.
func ParseWheel(name string) (*WheelName, error) {
	stem, ok := strings.CutSuffix(name, ".whl")
	parts := strings.Split(stem, "-")
	if !ok || len(parts) < 5 || len(parts) > 6 || slices.Contains(parts, "") || len(name) > 255 ||
		strings.ContainsAny(name, "/\\") {
		return nil, invalid(name, "", errNoWheel)
	}
	n := &WheelName{Project: parts[0], Version: parts[1]}
	if len(parts) == 6 {
		if n.Build = parts[2]; n.Build[0] < '0' || n.Build[0] > '9' {
			return nil, invalid(name, "", errNoWheel)
		}
	}
	last := parts[len(parts)-3:]
	n.Pythons, n.ABIs, n.Machines = strings.Split(last[0], "."), strings.Split(last[1], "."),
		strings.Split(last[2], ".")
	if len(n.Pythons)*len(n.ABIs)*len(n.Machines) > 1000 {
		return nil, invalid(name, "", errNoWheel)
	}
	return n, nil
}

// Pure reports whether every Python 3 accepts the wheel.
func (n *WheelName) Pure() bool {
	return slices.Contains(n.Pythons, "py3") && slices.Contains(n.ABIs, "none") && slices.Contains(n.Machines, "any")
}

// folded returns the normalised name of a project.
func folded(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return r == '-' || r == '_' || r == '.'
	}), "-")
}

// An Interpreter is a Python, as it describes itself.
type Interpreter struct {
	Name         string // of the implementation: cpython
	Major, Minor int
	Threads      bool     // free-threaded, with its own ABI
	Platforms    []string // platform tags, the best first: manylinux_2_17_x86_64, linux_x86_64
}

// String returns the interpreter and its best tag: "cpython 3.11, cp311-cp311-manylinux_2_36_x86_64".
func (i *Interpreter) String() string {
	s := fmt.Sprintf("%s %d.%d", i.Name, i.Major, i.Minor)
	if i.Name != "cpython" || len(i.Platforms) == 0 {
		return s
	}
	own := fmt.Sprintf("cp%d%d", i.Major, i.Minor)
	abi := own
	if i.Threads {
		abi += "t"
	}
	return s + ", " + own + "-" + abi + "-" + i.Platforms[0]
}

// worst is the rank of a wheel that doesn't fit.
const worst = 1 << 30

// fit returns how well a wheel fits an interpreter: lower is better. Wheels for exactly this Python precede those for
// the stable ABI, and those precede wheels without an ABI.
func (n *WheelName) fit(i *Interpreter) int {
	best := worst
	for _, p := range n.Pythons {
		for _, a := range n.ABIs {
			for _, m := range n.Machines {
				best = min(best, i.fit(p, a, m))
			}
		}
	}
	return best
}

// rowABI and the others are the ranks of PEP 425 and pip. In each row newer Pythons come first, then better platforms.
const (
	rowABI    = iota // cp313-cp313-PLATFORM
	rowStable        // cp3x-abi3-PLATFORM, of this Python or an older one
	rowNative        // cp313-none-PLATFORM
	rowPlain         // py3x-none-PLATFORM
	rowAny           // cp313-none-any
	rowPure          // py3x-none-any
)

func (i *Interpreter) fit(python, abi, machine string) int {
	// The platform counts least, then the age of the Python tag.
	at := slices.Index(i.Platforms, machine)
	if machine == "any" {
		at = 0
	}
	if at < 0 {
		return worst
	}
	rank := func(row, age int) int { return row<<20 + age<<10 + min(at, 1<<10-1) }
	own := "cp" + strconv.Itoa(i.Major) + strconv.Itoa(i.Minor)
	ofABI := own
	if i.Threads {
		ofABI += "t"
	}
	age, generic := i.age(python)
	cpython := i.Name == "cpython"
	switch {
	case age < 0 || generic != strings.HasPrefix(python, "py") || !generic && !cpython:
		return worst
	case !generic && machine != "any" && abi == ofABI && python == own:
		return rank(rowABI, 0)
	case !generic && machine != "any" && abi == "abi3" && !i.Threads && i.Major == 3:
		return rank(rowStable, age)
	case abi != "none":
		return worst
	case !generic && python == own && machine != "any":
		return rank(rowNative, 0)
	case generic && machine != "any":
		return rank(rowPlain, age)
	case !generic && python == own:
		return rank(rowAny, 0)
	case generic:
		return rank(rowPure, age)
	}
	return worst
}

// age returns how many minor versions a tag, such as py3, py38 or cp38, is older than the interpreter; -1 if it
// doesn't fit. A tag without a minor version ranks after the interpreter's own and before older ones.
func (i *Interpreter) age(tag string) (age int, generic bool) {
	digits, generic := strings.CutPrefix(tag, "py")
	if !generic {
		var ok bool
		if digits, ok = strings.CutPrefix(tag, "cp"); !ok {
			return -1, false
		}
	}
	major, minor := digits, ""
	if len(digits) > 1 {
		major, minor = digits[:1], digits[1:]
	}
	if major != strconv.Itoa(i.Major) || len(minor) > 3 || strings.Trim(digits, "0123456789") != "" {
		return -1, generic
	}
	if minor == "" {
		if !generic {
			return -1, false
		}
		return 1, true
	}
	n, err := strconv.Atoi(minor)
	if err != nil || n > i.Minor {
		return -1, generic
	}
	if age = i.Minor - n; age > 0 {
		age++ // rank after the tag without a minor version
	}
	return age, generic
}

// Best returns the index of the best wheel for an interpreter, with the latest build; -1 if none fits. Names that are
// no wheels' never fit.
func Best(names []string, i *Interpreter) int {
	best, rank := -1, worst
	var build string
	for at, name := range names {
		n, err := ParseWheel(name)
		if err != nil {
			continue
		}
		r := n.fit(i)
		if r < rank || r == rank && r < worst && compareBuilds(n.Build, build) > 0 {
			best, rank, build = at, r, n.Build
		}
	}
	return best
}

// compareBuilds compares builds by their leading number, then by the rest.
func compareBuilds(a, b string) int {
	number := func(s string) (int, string) {
		rest := strings.TrimLeft(s, "0123456789")
		n, _ := strconv.Atoi(s[:len(s)-len(rest)])
		return n, rest
	}
	n, x := number(a)
	m, y := number(b)
	return cmp.Or(cmp.Compare(n, m), cmp.Compare(x, y))
}
