package packages

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// The ecosystems.
const (
	PyPI = "pypi"
	NPM  = "npm"
)

// MaxBytes is the largest size of a list.
const MaxBytes = 16 << 20

const (
	maxPackages = 10_000
	maxFiles    = 100_000
)

// A Package is one version of a package in a list.
type Package struct {
	Ecosystem string // PyPI or NPM
	Name      string
	Version   string
	At        string // of npm: its place, such as "node_modules/a/node_modules/b"
	Line      int    // of requirements: its line
	Files     []File

	// The conditions of Wanted.
	Optional      bool     // of npm: its dependents work without it
	OS, CPU, Libc []string // of npm: as in Node, "!" before excluded values; empty: all
	marker        *marker  // of requirements; nil: everywhere
}

// A File is one file of a package that the list allows.
type File struct {
	Name   string // of a tarball, from its address or as registries name it; empty for requirements
	URL    string // of a tarball, from the list
	Source string // the registry's digest, "sha256:" or "sha512:" and lower-case hex digits
}

// String returns the package's name in a lock: "pypi:requests@2.32.3".
func (p *Package) String() string { return p.Key() + "@" + p.Version }

// Key returns the ecosystem and the name, "pypi:requests".
func (p *Package) Key() string { return p.Ecosystem + ":" + p.Name }

// Has reports whether the list allows the file with this digest.
func (p *Package) Has(source string) bool {
	return slices.ContainsFunc(p.Files, func(f File) bool { return f.Source == source })
}

// A Reader reads a list.
type Reader func(r io.Reader) ([]Package, error)

// For returns the reader for files of this name, and their ecosystem; nil if the name isn't that of a list.
func For(name string) (ecosystem string, read Reader) {
	switch name = strings.TrimPrefix(path.Base(name), "_"); {
	case strings.HasSuffix(name, "requirements.txt"):
		return PyPI, Requirements
	case name == "package-lock.json":
		return NPM, PackageLock
	}
	return "", nil
}

// An Error is an invalid or unsupported entry in a list of packages.
type Error struct {
	Line    int    // of requirements; 0 for the whole file
	Package string // of package-lock: the key of the entry; "" for the whole file
	Reason  string
	Hint    string // how to fix it; may be empty
}

func (e *Error) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
	case e.Package != "":
		return fmt.Sprintf("%q %s", e.Package, e.Reason)
	}
	return e.Reason
}

// Fault implements the interface of package fault.
func (e *Error) Fault() *fault.Error {
	f := fault.New(fault.Validation, "%v", e).From(e).Try("rye docs packages")
	if e.Hint != "" {
		f.Because(e.Hint)
	}
	return f
}

// contents reads a list and checks its size.
func contents(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case n > MaxBytes:
		return nil, &Error{Reason: fmt.Sprintf("has more than %d MiB", MaxBytes>>20)}
	}
	return b.Bytes(), nil
}

// sorted sorts packages by name, version and place.
func sorted(list []Package) []Package {
	slices.SortFunc(list, func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.At, b.At))
	})
	return list
}

// An Environment is the platform on which a tool runs, as reported by its interpreter.
type Environment struct {
	// Markers are the variables of Python's markers and their values.
	Markers map[string]string
	// OS and CPU are process.platform and process.arch of Node; Libc is "glibc", "musl", or "" if unknown, which
	// matches both.
	OS, CPU, Libc string
}

// Wanted reports whether an environment needs a package. It returns an error if the environment lacks a needed
// variable, or if a required package doesn't support this machine.
func (p *Package) Wanted(e Environment) (bool, error) {
	if p.Ecosystem == PyPI {
		if p.marker == nil {
			return true, nil
		}
		return p.marker.holds(e.Markers)
	}
	fits := allows(p.OS, e.OS) && allows(p.CPU, e.CPU) && (e.Libc == "" || allows(p.Libc, e.Libc))
	if !fits && !p.Optional {
		return false, &Error{Package: p.At, Reason: fmt.Sprintf("doesn't support %s %s, only os %s, cpu %s", e.OS,
			e.CPU, all(p.OS), all(p.CPU))}
	}
	return fits, nil
}

// Choose returns the packages of a list that an environment needs. Two needed versions of one package in the same
// place are an error.
func Choose(list []Package, e Environment) ([]Package, error) {
	var out []Package
	seen := map[[2]string]*Package{}
	for i := range list {
		pkg := &list[i]
		wanted, err := pkg.Wanted(e)
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		where := [2]string{pkg.Name, pkg.At}
		if twin := seen[where]; twin != nil {
			return nil, &Error{Line: pkg.Line, Reason: fmt.Sprintf("%s and %s are both needed here", twin, pkg)}
		}
		seen[where] = pkg
		out = append(out, *pkg)
	}
	return out, nil
}

// allows evaluates a list of Node's: "!" excludes a value, and the other entries, if any, are the only allowed ones.
func allows(list []string, have string) bool {
	among, some := false, false
	for _, w := range list {
		if not, ok := strings.CutPrefix(w, "!"); ok {
			if not == have {
				return false
			}
			continue
		}
		some = true
		among = among || w == have || w == "any"
	}
	return among || !some
}

func all(list []string) string {
	if len(list) == 0 {
		return "any"
	}
	return strings.Join(list, ", ")
}
