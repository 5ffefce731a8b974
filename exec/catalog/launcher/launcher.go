package launcher

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/lock/packages"
)

// A Package is a program of a package that a launcher would download and start.
type Package struct {
	Ecosystem string   // packages.NPM or packages.PyPI
	Name      string   // as registries compare it
	Extras    []string // of PyPI
	Spec      string   // of npm a version, a range or a tag, of PyPI specifiers, such as ">=1,<2"; "" for the newest
	Program   string   // the name of the program; "" for the one that npm chooses, or that is named as the package
	Args      []string // of the program
}

// String returns the package as its ecosystem writes it: name@^1, or name[extra]>=1.
func (p *Package) String() string {
	switch {
	case p.Ecosystem == packages.PyPI && len(p.Extras) > 0:
		return p.Name + "[" + strings.Join(p.Extras, ",") + "]" + p.Spec
	case p.Ecosystem == packages.PyPI || p.Spec == "":
		return p.Name + p.Spec
	}
	return p.Name + "@" + p.Spec
}

// Command returns the words of a command that Read reads as this package.
func (p *Package) Command() []string {
	words := []string{"npx", "-y"}
	switch {
	case p.Ecosystem == packages.PyPI && p.Program != "":
		words = []string{"uvx", "--from", p.String(), p.Program}
	case p.Ecosystem == packages.PyPI:
		words = []string{"uvx", p.String()}
	case p.Program != "":
		words = append(words, "-p", p.String(), p.Program)
	default:
		words = append(words, p.String())
	}
	return append(words, p.Args...)
}

// A Skip is why a command that downloads what it runs can't be pinned.
type Skip struct {
	Reason string
	Form   []string // the words of a command that can; words in capitals are to be replaced
}

// Error returns the reason.
func (s *Skip) Error() string { return s.Reason }

// The forms of commands whose package isn't known.
var (
	npxForm = []string{"npx", "-y", "PACKAGE"}
	uvxForm = []string{"uvx", "PACKAGE"}
)

// Read reads a command. It returns a package, a reason to skip it, or neither for any other program.
func Read(command string, args []string) (*Package, *Skip) {
	p, skip := read(command, args)
	if skip != nil && len(skip.Form) > 0 && !slices.Contains(skip.Form, "PACKAGE") {
		if p, _ := read(skip.Form[0], skip.Form[1:]); p == nil {
			skip.Form = nil // it would be skipped for another reason
		}
	}
	return p, skip
}

func read(command string, args []string) (*Package, *Skip) {
	name := program(command)
	switch name {
	case "npx":
		return npx(name, args, true)
	case "npm":
		if len(args) > 0 && (args[0] == "exec" || args[0] == "x") {
			return npx("npm "+args[0], args[1:], false)
		}
	case "uvx":
		return uvx(name, args)
	case "uv":
		if len(args) > 1 && args[0] == "tool" && args[1] == "run" {
			return uvx("uv tool run", args[2:])
		}
	}
	if s := downloads(name, args); s != nil {
		return nil, s
	}
	return nil, behind(name, args)
}

// program returns the name of the program that a command starts, "" for a relative path.
func program(command string) string {
	name := command
	if i := strings.LastIndexAny(command, `/\`); i >= 0 {
		if command[0] != '/' && command[0] != '\\' && (len(command) < 3 || command[1] != ':') {
			return ""
		}
		name = command[i+1:]
	}
	name = strings.ToLower(name)
	for _, ext := range []string{".cmd", ".exe", ".bat", ".ps1"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// launchers are packages of programs that download what they run.
var launchers = []string{"npm", "npx", "pnpm", "yarn", "bun", "deno", "corepack", "uv", "pip", "pipx"}

// checked returns a package unless it is a launcher.
func checked(p *Package) (*Package, *Skip) {
	if slices.Contains(launchers, p.Name) {
		return nil, &Skip{p.Name + " downloads what it runs, which would not be pinned", formOf(p)}
	}
	if len(p.Args) == 0 {
		p.Args = nil
	}
	return p, nil
}

func formOf(p *Package) []string {
	if p.Ecosystem == packages.PyPI {
		return uvxForm
	}
	return npxForm
}

// changes is why a command with an option is skipped.
func changes(launcher, option string, form []string) *Skip {
	option, _, _ = strings.Cut(option, "=")
	return &Skip{"the option " + option + " changes what " + launcher + " downloads or runs", form}
}
