package launcher

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// downloads returns why a program that downloads what it runs is skipped, nil for another one.
func downloads(name string, args []string) *Skip {
	verb, rest := verbOf(args)
	switch name {
	case "pnpx", "bunx":
		return onStart(name, npxForm, args)
	case "npm":
		if slices.Contains([]string{"init", "innit", "create"}, verb) && len(rest) > 0 {
			return onStart("npm "+verb, npxForm, nil)
		}
		if slices.Contains([]string{"exec", "x"}, verb) { // behind an option
			return &Skip{"npm has an option in front of " + verb, npxForm}
		}
	case "pnpm", "yarn":
		if i := slices.Index(args, "dlx"); i >= 0 {
			return onStart(name+" dlx", npxForm, args[i+1:])
		}
	case "bun":
		if verb == "x" {
			return onStart("bun x", npxForm, rest)
		}
	case "corepack", "docker", "podman", "nerdctl":
		return onStart(name, nil, nil)
	case "pipx":
		if verb == "run" {
			return onStart("pipx run", uvxForm, rest)
		}
	case "uv":
		if verb == "run" || verb == "tool" && slices.Contains(rest, "run") {
			return onStart("uv "+verb, uvxForm, nil)
		}
	case "deno":
		for _, arg := range args {
			if p, ok := strings.CutPrefix(arg, "npm:"); ok {
				return onStart("deno", npxForm, []string{strings.TrimPrefix(p, "/")})
			}
			if strings.Contains(arg, "://") || strings.HasPrefix(arg, "jsr:") {
				return onStart("deno with an address", nil, nil)
			}
		}
	case "go":
		if verb == "run" && slices.ContainsFunc(rest, func(arg string) bool { return strings.Contains(arg, "@") }) {
			return onStart("go run with a version", nil, nil)
		}
	}
	return nil
}

// verbOf returns the first word that isn't an option, and the words after it.
func verbOf(args []string) (string, []string) {
	i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if i < 0 {
		return "", nil
	}
	return args[i], args[i+1:]
}

// onStart returns the reason, with the form for the package that is named first, if one is.
func onStart(name string, form, args []string) *Skip {
	s := &Skip{name + " downloads what it runs whenever it starts", form}
	for len(args) > 0 && slices.Contains([]string{"-y", "--yes", "-q", "--quiet", "--silent", "--bun"}, args[0]) {
		args = args[1:]
	}
	if len(args) == 0 || len(form) == 0 {
		return s
	}
	var p *Package
	if form[0] == "uvx" {
		p, _ = uvx("uvx", args)
	} else {
		p, _ = npx("npx", args, true)
	}
	if p != nil {
		s.Form = p.Command()
	}
	return s
}

var (
	shells = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"}

	// starters start the program that their words name.
	starters = []string{"env", "nice", "nohup", "timeout", "time", "setsid", "stdbuf", "sudo", "doas", "xargs", "exec",
		"command", "builtin", "eval", "start", "call", "busybox", "if", "then", "do", "else", "elif", "while", "until",
		"!"}

	// valued are options of starters that have a value.
	valued = []string{"-u", "--unset", "-C", "--chdir", "-n", "-s", "--signal", "-k", "--kill-after", "-I", "-P", "-L"}
)

// behind returns why a program that starts another one is skipped: because that one is.
func behind(name string, args []string) *Skip {
	switch {
	case slices.Contains(starters, name):
		if name == "env" {
			for i, arg := range args {
				text, ok := strings.CutPrefix(arg, "--split-string=")
				if !ok && strings.HasPrefix(arg, "-S") {
					text, ok = arg[2:], true
				} else if arg == "--split-string" {
					ok = true
				}
				if ok {
					return within("env -S", text+" "+strings.Join(args[i+1:], " "))
				}
			}
		}
		return after(name, args)
	case slices.Contains(shells, name):
		for i, arg := range args {
			if arg == "--command" || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") &&
				strings.Contains(arg, "c") {
				return within(name+" -c", strings.Join(args[i+1:], " "))
			}
		}
	case name == "cmd":
		for i, arg := range args {
			if arg := strings.ToLower(arg); strings.HasPrefix(arg, "/c") || strings.HasPrefix(arg, "/k") {
				return within("cmd /c", arg[2:]+" "+strings.Join(args[i+1:], " "))
			}
		}
	case name == "powershell" || name == "pwsh":
		for i, arg := range args {
			switch arg := strings.ToLower(arg); {
			case strings.HasPrefix(arg, "-e") && !strings.HasPrefix(arg, "-ex"):
				return &Skip{name + " has an encoded command, which could download what it runs", nil}
			case strings.HasPrefix(arg, "-c"):
				return within(name+" -Command", strings.Join(args[i+1:], " "))
			case !strings.HasPrefix(arg, "-"):
				return within(name, strings.Join(args[i:], " "))
			}
		}
	}
	return nil
}

// within reads the text of a shell.
func within(name, text string) *Skip {
	text = strings.NewReplacer(`"`, "", "'", "").Replace(text)
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";&|()`{}\n", r) }) {
		if s := after(name, strings.Fields(part)); s != nil {
			return s
		}
	}
	return nil
}

// after reads the program that follows options, assignments and numbers.
func after(name string, words []string) *Skip {
	for len(words) > 0 {
		w := words[0]
		switch {
		case slices.Contains(valued, w):
			words = words[min(2, len(words)):]
			continue
		case w == "" || strings.HasPrefix(w, "-") || strings.Contains(w, "=") || w[0] >= '0' && w[0] <= '9':
			words = words[1:]
			continue
		}
		break
	}
	if len(words) == 0 {
		return nil
	}
	p, s := Read(words[0], words[1:])
	if p != nil {
		return &Skip{fault.Clip(words[0], maxWord) + " is behind " + name + ", which could start anything",
			p.Command()}
	}
	if s != nil && !strings.Contains(s.Reason, " is behind ") {
		s.Reason += " (behind " + name + ")"
	}
	return s
}
