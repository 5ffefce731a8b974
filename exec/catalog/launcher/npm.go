package launcher

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/manifest"
)

const (
	alnum   = portable.Letters + portable.Digits
	maxWord = 100
)

// npx reads the words after npx or npm exec. With first the options end at the first other word.
func npx(launcher string, args []string, first bool) (*Package, *Skip) {
	wanted, words := "", []string(nil)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			words = append(words, args[i+1:]...)
			i = len(args)
		case !strings.HasPrefix(arg, "-") && first:
			words = args[i:]
			i = len(args)
		case !strings.HasPrefix(arg, "-"):
			words = append(words, arg)
		case slices.Contains([]string{"-y", "--yes", "-q", "--quiet"}, arg):
		case name == "-p" || name == "--package":
			if !joined {
				if i++; i == len(args) {
					return nil, &Skip{"the option " + name + " lacks its package", npxForm}
				}
				value = args[i]
			}
			if wanted != "" {
				return nil, &Skip{launcher + " is to download several packages", npxForm}
			}
			if wanted = value; wanted == "" {
				return nil, &Skip{"the option " + name + " lacks its package", npxForm}
			}
		case len(words) > 0:
			return nil, &Skip{launcher + " reads the options in front of --, also " + fault.Clip(arg, maxWord),
				[]string{"npx", "-y", words[0]}}
		default:
			return nil, changes(launcher, arg, npxForm)
		}
	}
	if len(words) == 0 {
		return nil, &Skip{launcher + " starts a shell without a program", npxForm}
	}
	text := words[0]
	if wanted != "" {
		text = wanted
	}
	p, err := ParseNPM(text)
	if err != nil {
		return nil, &Skip{err.Error(), npxForm}
	}
	if wanted != "" {
		if p.Program = words[0]; !isProgram(p.Program) {
			return nil, &Skip{fmt.Sprintf("%q is not the name of a program", fault.Clip(p.Program, maxWord)), npxForm}
		}
	}
	p.Args = slices.Clone(words[1:])
	return checked(p)
}

// isProgram reports whether a word can be the name of a package's program.
func isProgram(word string) bool { return portable.Spelled(word, alnum, ".-_", maxWord) }

// ParseNPM reads NAME, or NAME@ and a version, a range or a tag.
func ParseNPM(text string) (*Package, error) {
	name, spec := text, ""
	if i := strings.LastIndexByte(text, '@'); i > 0 {
		if name, spec = text[:i], text[i+1:]; spec == "" {
			return nil, fmt.Errorf("%q lacks the version after @", fault.Clip(text, maxWord))
		}
	}
	if strings.ContainsAny(name, `:\`) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") ||
		isFile(name) {
		return nil, fmt.Errorf("%q is an address or a path, not a package of the registry", fault.Clip(text, maxWord))
	}
	parts := strings.Split(strings.TrimPrefix(name, "@"), "/")
	if scoped := strings.HasPrefix(name, "@"); len(parts) > 2 || (len(parts) == 2) != scoped {
		return nil, fmt.Errorf("%q is not the name of an npm package", fault.Clip(name, maxWord))
	}
	for _, part := range parts {
		if portable.CheckID(part) != nil {
			return nil, fmt.Errorf("%q is not the name of an npm package", fault.Clip(name, maxWord))
		}
	}
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	return &Package{Ecosystem: packages.NPM, Name: name, Spec: spec}, nil
}

var (
	partial   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	versioned = regexp.MustCompile(`^[vV]?([0-9]|$)|^[xX]$`)
)

// checkSpec refuses what is neither a version, a range nor a tag.
func checkSpec(spec string) error {
	if spec == "" || manifest.CheckVersion(spec) == nil {
		return nil
	}
	if portable.Spelled(spec, portable.Letters, alnum+".-_", maxWord) && !versioned.MatchString(spec) &&
		!isFile(spec) {
		return nil
	}
	_, err := rangeOf(spec)
	switch {
	case err == nil:
		return nil
	case strings.ContainsAny(spec, ":/\\") || isFile(spec):
		return fmt.Errorf("%q is an address, a path or an alias, not a version, a range or a tag",
			fault.Clip(spec, maxWord))
	}
	return fmt.Errorf("%q is not a version, a range or a tag", fault.Clip(spec, maxWord))
}

// rangeOf returns a range of npm, where 1.2 is 1.2.x.
func rangeOf(spec string) (semver.Range, error) {
	if strings.Trim(spec, " ") != spec {
		return semver.Range{}, errors.New("a space is around it")
	}
	if partial.MatchString(spec) {
		spec += ".x"
	}
	return semver.Parse(spec)
}

// isFile reports whether npm or pip would take a name for that of an archive.
func isFile(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{".tgz", ".tar.gz", ".tar", ".whl", ".zip", ".tar.bz2", ".tbz", ".tar.xz",
		".txz", ".tlz", ".tar.lz", ".tar.lzma"}, func(ext string) bool { return strings.HasSuffix(name, ext) })
}

// Allows reports whether the package may be of a version, as far as its text alone decides that: a tag, and a range of
// PyPI, is the registry's to resolve.
func (p *Package) Allows(version string) bool {
	if p.Ecosystem == packages.PyPI {
		exact, ok := strings.CutPrefix(p.Spec, "==")
		return !ok || strings.ContainsAny(exact, "*,") || packages.SameVersion(exact, version)
	}
	if manifest.CheckVersion(p.Spec) == nil {
		return p.Spec == version
	}
	r, err := rangeOf(p.Spec)
	return err != nil || r.Contains(version)
}
