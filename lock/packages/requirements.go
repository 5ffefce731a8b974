package packages

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

const (
	maxLine    = 256 << 10
	maxVersion = 60
	maxName    = 100
)

// Requirements reads a pip requirements file in which every package has hashes. An *Error has the line.
func Requirements(r io.Reader) ([]Package, error) {
	b, err := contents(r)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, &Error{Reason: "is not valid UTF-8"}
	}
	var list []Package
	files := 0
	first := map[string][]int{} // name → its positions in the list
	err = eachLine(string(b), func(line int, text string) error {
		if strings.HasPrefix(text, "-") {
			return option(line, text)
		}
		pkg, err := requirement(line, text)
		if err != nil {
			return err
		}
		if files += len(pkg.Files); len(list) == maxPackages || files > maxFiles {
			return &Error{Line: line, Reason: fmt.Sprintf("the list has more than %d packages or %d files",
				maxPackages, maxFiles)}
		}
		for _, i := range first[pkg.Name] {
			if twin := &list[i]; twin.Version == pkg.Version || twin.marker == nil || pkg.marker == nil {
				return &Error{Line: line, Reason: fmt.Sprintf("%s is a duplicate: line %d has %s", pkg.Name, twin.Line,
					twin.Version)}
			}
		}
		first[pkg.Name] = append(first[pkg.Name], len(list))
		list = append(list, pkg)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sorted(list), nil
}

// eachLine calls visit with each joined, non-empty line without its comment, and its first line number.
func eachLine(text string, visit func(line int, text string) error) error {
	var joined strings.Builder
	start, n := 0, 0
	flush := func() error {
		line := strings.TrimSpace(joined.String())
		joined.Reset()
		if i := comment(line); i >= 0 {
			line = strings.TrimSpace(line[:i])
		}
		at := start
		start = 0
		if line == "" {
			return nil
		}
		return visit(at, line)
	}
	for one := range strings.Lines(text) {
		n++
		one = strings.TrimSuffix(strings.TrimSuffix(one, "\n"), "\r")
		if start == 0 {
			start = n
		}
		text := comment(one) < 0 || strings.TrimSpace(one[:comment(one)]) != ""
		more, continues := strings.CutSuffix(one, `\`)
		if !text {
			more, continues = " "+one, false // a comment ends the continuation
		}
		if joined.Len()+len(more) > maxLine {
			return &Error{Line: start, Reason: fmt.Sprintf("is longer than %d KiB", maxLine>>10)}
		}
		joined.WriteString(more)
		if continues {
			joined.WriteString(" ")
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return flush()
}

// comment returns the start of a line's comment, or -1.
func comment(line string) int {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return i
		}
	}
	return -1
}

const elsewhere = `say in rye.yaml under "packages" where packages come from`

// option accepts the options that are already the rule here.
func option(line int, text string) error {
	word, rest, _ := strings.Cut(strings.ReplaceAll(text, "=", " "), " ")
	switch word {
	case "--require-hashes":
		if rest == "" {
			return nil
		}
	case "--only-binary":
		if strings.TrimSpace(rest) == ":all:" {
			return nil
		}
	case "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--trusted-host":
		return &Error{Line: line, Reason: word + " is not supported", Hint: elsewhere}
	case "-r", "--requirement", "-c", "--constraint":
		return &Error{Line: line, Reason: "other files are not read: list all packages in this file"}
	case "-e", "--editable":
		return &Error{Line: line, Reason: "an editable package can't be pinned"}
	}
	return &Error{Line: line, Reason: fmt.Sprintf("unknown option %q", fault.Clip(word, 80))}
}

// requirement parses one package.
func requirement(line int, text string) (Package, error) {
	fail := func(format string, args ...any) (Package, error) {
		return Package{}, &Error{Line: line, Reason: fmt.Sprintf(format, args...)}
	}
	pkg := Package{Ecosystem: PyPI, Line: line}
	words, hashes, found := strings.Cut(text, " --")
	var err error
	if found {
		if pkg.Files, err = hashed(line, "--"+hashes); err != nil {
			return pkg, err
		}
	}
	words, condition, marked := strings.Cut(words, ";")
	words = strings.TrimSpace(words)
	if marked {
		if pkg.marker, err = parseMarker(condition); err != nil {
			return fail("the marker %q: %v", fault.Clip(strings.TrimSpace(condition), 80), err)
		}
	}
	if strings.ContainsAny(words, "@/") || strings.Contains(words, "\\") {
		return fail("%q is an address or a path, not a package of a registry", fault.Clip(words, 80))
	}
	end := strings.IndexAny(words, "=<>!~[( \t,")
	if end < 0 {
		end = len(words)
	}
	name, rest := words[:end], strings.TrimSpace(words[end:])
	if !IsPythonName(name) {
		return fail("invalid package name %q", fault.Clip(name, 80))
	}
	pkg.Name = Normal(name)
	if strings.HasPrefix(rest, "[") {
		extras, after, ok := strings.Cut(rest[1:], "]")
		for e := range strings.SplitSeq(extras, ",") {
			if ok = ok && IsPythonName(strings.TrimSpace(e)); !ok {
				return fail("invalid extras %q", fault.Clip(rest, 80))
			}
		}
		rest = strings.TrimSpace(after)
	}
	version, ok := strings.CutPrefix(rest, "==")
	version = strings.TrimSpace(version)
	switch {
	case !ok || strings.ContainsAny(version, "=*,<>"):
		return Package{},
			&Error{Line: line, Reason: fmt.Sprintf("%s needs exactly one version: expected %s==VERSION, got %q",
				pkg.Name, pkg.Name, fault.Clip(words, 80)),
				Hint: "let pip-compile --generate-hashes or uv pip compile --generate-hashes choose the versions"}
	case !isPyVersion(version):
		return fail("invalid version %q", fault.Clip(version, 80))
	case len(pkg.Files) == 0:
		return Package{}, &Error{Line: line, Reason: fmt.Sprintf("%s==%s has no hash", pkg.Name, version),
			Hint: "make the list with pip-compile --generate-hashes or uv pip compile --generate-hashes"}
	}
	pkg.Version = strings.ToLower(version)
	return pkg, nil
}

// hashed parses the hashes of a package.
func hashed(line int, text string) ([]File, error) {
	var files []File
	for word := range strings.FieldsSeq(text) {
		digest, ok := strings.CutPrefix(word, "--hash=")
		if !ok {
			return nil, &Error{Line: line, Reason: fmt.Sprintf("invalid hash %q: expected --hash=sha256:…",
				fault.Clip(word, 80))}
		}
		algorithm, digits, _ := strings.Cut(digest, ":")
		if algorithm != "sha256" {
			return nil, &Error{Line: line, Reason: fmt.Sprintf("unsupported hash %q: registries find files by sha256",
				fault.Clip(algorithm, 80))}
		}
		if len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
			return nil, &Error{Line: line, Reason: fmt.Sprintf("%q must have 64 lower-case hex digits",
				fault.Clip(digest, 80))}
		}
		f := File{Source: digest}
		if slices.Contains(files, f) {
			return nil, &Error{Line: line, Reason: fmt.Sprintf("duplicate hash %s", digest)}
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Source, b.Source) })
	return files, nil
}

// Normal returns the normalised name of a Python package, as registries compare it.
func Normal(name string) string {
	var text strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == '-' || c == '_' || c == '.':
			if i > 0 && strings.IndexByte("-_.", name[i-1]) >= 0 {
				continue
			}
			text.WriteByte('-')
		case 'A' <= c && c <= 'Z':
			text.WriteByte(c | 0x20)
		default:
			text.WriteByte(c)
		}
	}
	return text.String()
}

// SameVersion reports whether two texts are the same version of a Python package, although lists and file names spell
// versions differently: "1.0" is "1.0.0", and "1.0+cpu" is "1.0_cpu".
func SameVersion(a, b string) bool {
	parts := func(s string) []string {
		all := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return strings.ContainsRune("-_.+", r) })
		for len(all) > 1 && all[len(all)-1] == "0" {
			all = all[:len(all)-1]
		}
		return all
	}
	return slices.Equal(parts(a), parts(b))
}

// IsPythonName reports whether a text is the name of a Python package, or of an extra of one.
func IsPythonName(s string) bool {
	return portable.Spelled(s, alnum, "-_.", maxName) && strings.IndexByte(alnum, s[len(s)-1]) >= 0
}

// isPyVersion accepts the characters of Python versions. Versions aren't ordered here.
func isPyVersion(s string) bool { return portable.Spelled(s, alnum, ".+!-_", maxVersion) }

const alnum = portable.Letters + portable.Digits
