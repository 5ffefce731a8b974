package launcher

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/packages"
)

// uvx reads the words after uvx or uv tool run.
func uvx(launcher string, args []string) (*Package, *Skip) {
	from := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, joined := strings.Cut(args[0], "=")
		switch {
		case args[0] == "-q" || args[0] == "--quiet":
			args = args[1:]
			continue
		case name != "--from":
			return nil, changes(launcher, args[0], uvxForm)
		case from != "":
			return nil, &Skip{launcher + " is to download several packages", uvxForm}
		}
		if args = args[1:]; !joined && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if from = value; from == "" {
			return nil, &Skip{"the option --from lacks its package", uvxForm}
		}
	}
	if len(args) == 0 {
		return nil, &Skip{launcher + " lacks a program", uvxForm}
	}
	text := args[0]
	if from != "" {
		text = from
	}
	p, err := ParsePython(text)
	if err != nil {
		return nil, &Skip{err.Error(), uvxForm}
	}
	program := p.Name
	if from != "" {
		if program = args[0]; !isProgram(program) {
			return nil, &Skip{fmt.Sprintf("%q is not the name of a program", fault.Clip(program, maxWord)), uvxForm}
		}
		p.Program = program
	}
	if strings.HasPrefix(strings.ToLower(program), "python") && strings.Trim(program[6:], "0123456789.w") == "" {
		return nil, &Skip{launcher + " " + program + " starts a Python, not a program of a package", uvxForm}
	}
	p.Args = slices.Clone(args[1:])
	return checked(p)
}

// operators are those of version specifiers, the longer ones first.
var operators = []string{"===", "==", "!=", "<=", ">=", "~=", "<", ">"}

// ParsePython reads NAME, NAME@VERSION or NAME and version specifiers, each with extras in brackets.
func ParsePython(text string) (*Package, error) {
	shown := fault.Clip(text, maxWord)
	if strings.ContainsAny(text, `:/\;`) {
		return nil, fmt.Errorf("%q is an address, a path or a condition, not a package of the registry", shown)
	}
	name, rest := text, ""
	if end := strings.IndexAny(text, "[@<>=!~, "); end >= 0 {
		name, rest = text[:end], strings.TrimSpace(text[end:])
	}
	if !packages.IsPythonName(name) || isFile(name) {
		return nil, fmt.Errorf("%q is not the name of a Python package", fault.Clip(name, maxWord))
	}
	p := &Package{Ecosystem: packages.PyPI, Name: packages.Normal(name)}
	if list, ok := strings.CutPrefix(rest, "["); ok {
		list, after, ok := strings.Cut(list, "]")
		for extra := range strings.SplitSeq(list, ",") {
			if extra = strings.TrimSpace(extra); !ok || !packages.IsPythonName(extra) {
				return nil, fmt.Errorf("%q has invalid extras", shown)
			}
			p.Extras = append(p.Extras, packages.Normal(extra))
		}
		rest = strings.TrimSpace(after)
	}
	if version, ok := strings.CutPrefix(rest, "@"); ok {
		if version == "latest" {
			return p, nil
		}
		rest = "==" + version
		if strings.Contains(version, "*") {
			return nil, fmt.Errorf("%q is not a version", fault.Clip(version, maxWord))
		}
	}
	var all []string
	for part := range strings.SplitSeq(rest, ",") {
		if part = strings.TrimSpace(part); part == "" && rest == "" {
			break
		}
		i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(part, op) })
		if i <= 0 {
			return nil, fmt.Errorf("%q is not a version specifier", fault.Clip(part, maxWord))
		}
		version := strings.TrimSpace(part[len(operators[i]):])
		base := version
		if operators[i] == "==" || operators[i] == "!=" {
			base = strings.TrimSuffix(version, ".*")
		}
		if !portable.Spelled(base, alnum, ".+!-_", maxWord) {
			return nil, fmt.Errorf("%q is not a version", fault.Clip(version, maxWord))
		}
		all = append(all, operators[i]+version)
	}
	p.Spec = strings.Join(all, ",")
	return p, nil
}
