package launcher_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/lock/packages"
)

// read reads a command whose words are separated by spaces.
func read(text string) (*launcher.Package, *launcher.Skip) {
	words := strings.Split(text, " ")
	return launcher.Read(words[0], words[1:])
}

func TestPinned(t *testing.T) {
	npm := func(name, spec, program string, args ...string) *launcher.Package {
		return &launcher.Package{Ecosystem: packages.NPM, Name: name, Spec: spec, Program: program, Args: args}
	}
	pypi := func(name, spec, program string, args ...string) *launcher.Package {
		return &launcher.Package{Ecosystem: packages.PyPI, Name: name, Spec: spec, Program: program, Args: args}
	}
	extra := pypi("mcp", ">=1,<2", "mcp", "run", "x")
	extra.Extras = []string{"cli", "rich-text"}
	for text, want := range map[string]*launcher.Package{
		"npx a":                               npm("a", "", ""),
		"npx -y @x/a":                         npm("@x/a", "", ""),
		"npx --yes -q @x/a@1.2.3 --b c -- -y": npm("@x/a", "1.2.3", "", "--b", "c", "--", "-y"),
		"npx -- a -y":                         npm("a", "", "", "-y"),
		"npx a@latest":                        npm("a", "latest", ""),
		"npx a@^1.2":                          npm("a", "^1.2", ""),
		"npx a@1":                             npm("a", "1", ""),
		"npx a@1.x":                           npm("a", "1.x", ""),
		"npx a@*":                             npm("a", "*", ""),
		"npx -p a@~2 b --c":                   npm("a", "~2", "b", "--c"),
		"npx --package=@x/a -- b":             npm("@x/a", "", "b"),
		"npx --package a b":                   npm("a", "", "b"),
		"npm exec a b":                        npm("a", "", "", "b"),
		"npm x -y -- a --b":                   npm("a", "", "", "--b"),
		"npm exec a -- --b":                   npm("a", "", "", "--b"),
		"npm exec a -y b":                     npm("a", "", "", "b"),
		"npm exec b -p a":                     npm("a", "", "b"),
		"/usr/bin/npx a":                      npm("a", "", ""),
		`C:\Node\NPX.CMD a`:                   npm("a", "", ""),
		"npm.exe exec a":                      npm("a", "", ""),
		"uvx a":                               pypi("a", "", ""),
		"uvx A_b.C":                           pypi("a-b-c", "", ""),
		"uvx a@1.2 --b":                       pypi("a", "==1.2", "", "--b"),
		"uvx a@latest":                        pypi("a", "", ""),
		"uvx a>=1,<2":                         pypi("a", ">=1,<2", ""),
		"uvx -q --from a==1.* b -c":           pypi("a", "==1.*", "b", "-c"),
		"uvx --from=a~=1.2 b":                 pypi("a", "~=1.2", "b"),
		"uvx.exe a":                           pypi("a", "", ""),
		"uv tool run --from a b":              pypi("a", "", "b"),
		"uvx --from mcp[cli,rich_text]>=1,<2 mcp run x": extra,
	} {
		got, skip := read(text)
		if skip != nil {
			t.Errorf("%s: %s", text, skip.Reason)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	p, skip := launcher.Read("npx", []string{"a@>=1 <2"})
	if skip != nil || p.Spec != ">=1 <2" {
		t.Errorf("%+v, %v", p, skip)
	}
	p, skip = launcher.Read("uvx", []string{"--from", " a [ c ] >= 1 , < 2 ", "a"})
	if skip == nil { // a space in front is no name
		t.Errorf("%+v", p)
	}
	if p, skip = launcher.Read("uvx", []string{"--from", "a [ c ] >= 1 , < 2 ", "a"}); skip != nil ||
		p.String() != "a[c]>=1,<2" {
		t.Errorf("%+v, %v", p, skip)
	}
}

func TestSkipped(t *testing.T) {
	for text, want := range map[string]struct{ reason, form string }{
		"npx":                               {"starts a shell without a program", "npx -y PACKAGE"},
		"npx -p a":                          {"starts a shell without a program", "npx -y PACKAGE"},
		"npx -p a -p b c":                   {"several packages", "npx -y PACKAGE"},
		"npx -p":                            {"lacks its package", "npx -y PACKAGE"},
		"npx -p= a":                         {"lacks its package", "npx -y PACKAGE"},
		"npx -p a ../b":                     {"is not the name of a program", "npx -y PACKAGE"},
		"npx -c a":                          {"the option -c changes", "npx -y PACKAGE"},
		"npx --call=secret a":               {"the option --call changes", "npx -y PACKAGE"},
		"npx --registry https://e.e a":      {"the option --registry changes", "npx -y PACKAGE"},
		"npx --no-install a":                {"the option --no-install changes", "npx -y PACKAGE"},
		"npx -w a b":                        {"the option -w changes", "npx -y PACKAGE"},
		"npx - a":                           {"the option - changes", "npx -y PACKAGE"},
		"npm exec a --b":                    {"reads the options in front of --, also --b", "npx -y a"},
		"npm --silent exec a":               {"has an option in front of exec", "npx -y PACKAGE"},
		"npm init a":                        {"npm init downloads", "npx -y PACKAGE"},
		"npx github:a/b":                    {"an address or a path", "npx -y PACKAGE"},
		"npx a/b":                           {"is not the name of an npm package", "npx -y PACKAGE"},
		"npx ./a":                           {"an address or a path", "npx -y PACKAGE"},
		"npx a.tgz":                         {"an address or a path", "npx -y PACKAGE"},
		"npx https://e.e/a.tgz":             {"an address or a path", "npx -y PACKAGE"},
		"npx a@npm:b@1.0.0":                 {"", "npx -y PACKAGE"},
		"npx a@npm:b":                       {"an alias", "npx -y PACKAGE"},
		"npx a@file:b":                      {"an alias", "npx -y PACKAGE"},
		"npx a@b.tgz":                       {"an address, a path", "npx -y PACKAGE"},
		"npx a@v1":                          {"is not a version", "npx -y PACKAGE"},
		"npx a@":                            {"lacks the version", "npx -y PACKAGE"},
		"npx @x":                            {"is not the name", "npx -y PACKAGE"},
		"npx @x/a/b":                        {"is not the name", "npx -y PACKAGE"},
		"npx @x/..":                         {"is not the name", "npx -y PACKAGE"},
		"npx npm exec a":                    {"npm downloads what it runs", "npx -y PACKAGE"},
		"npx -p npm npx a":                  {"npm downloads what it runs", "npx -y PACKAGE"},
		"uvx":                               {"lacks a program", "uvx PACKAGE"},
		"uvx --from a":                      {"lacks a program", "uvx PACKAGE"},
		"uvx --from":                        {"lacks its package", "uvx PACKAGE"},
		"uvx --from a --from b c":           {"several packages", "uvx PACKAGE"},
		"uvx --python 3.12 a":               {"the option --python changes", "uvx PACKAGE"},
		"uvx --with b a":                    {"the option --with changes", "uvx PACKAGE"},
		"uvx --index-url=https://e a":       {"the option --index-url changes", "uvx PACKAGE"},
		"uvx --from a --with b c":           {"the option --with changes", "uvx PACKAGE"},
		"uvx git+https://e.e/a":             {"an address", "uvx PACKAGE"},
		"uvx --from git+ssh://e a":          {"an address", "uvx PACKAGE"},
		"uvx ./a":                           {"a path", "uvx PACKAGE"},
		"uvx a.whl":                         {"is not the name", "uvx PACKAGE"},
		"uvx a@main*":                       {"is not a version", "uvx PACKAGE"},
		"uvx a@":                            {"is not a version", "uvx PACKAGE"},
		"uvx a===1":                         {"is not a version specifier", "uvx PACKAGE"},
		"uvx a>=1,":                         {"is not a version specifier", "uvx PACKAGE"},
		"uvx a[":                            {"invalid extras", "uvx PACKAGE"},
		"uvx a[b":                           {"invalid extras", "uvx PACKAGE"},
		"uvx python@3.12":                   {"starts a Python", "uvx PACKAGE"},
		"uvx --from a python -m b":          {"starts a Python", "uvx PACKAGE"},
		"uvx --from a ./b":                  {"is not the name of a program", "uvx PACKAGE"},
		"uvx pipx run a":                    {"pipx downloads", "uvx PACKAGE"},
		"uv run a":                          {"uv run downloads", "uvx PACKAGE"},
		"uv -q tool run a":                  {"uv tool downloads", "uvx PACKAGE"},
		"pnpm dlx a@1 b":                    {"pnpm dlx downloads", "npx -y a@1 b"},
		"pnpm --dir x dlx a":                {"pnpm dlx downloads", "npx -y a"},
		"yarn dlx -q a":                     {"yarn dlx downloads", "npx -y a"},
		"pnpx --x a":                        {"pnpx downloads", "npx -y PACKAGE"},
		"bunx a":                            {"bunx downloads", "npx -y a"},
		"bunx --bun a":                      {"bunx downloads", "npx -y a"},
		"bun x a":                           {"bun x downloads", "npx -y a"},
		"corepack pnpm dlx a":               {"corepack downloads", ""},
		"pipx run a --b":                    {"pipx run downloads", "uvx a --b"},
		"pipx run --spec a b":               {"pipx run downloads", "uvx PACKAGE"},
		"docker run -i a":                   {"docker downloads", ""},
		"/usr/bin/podman run a":             {"podman downloads", ""},
		"deno run -A https://e.e/a.ts":      {"deno with an address", ""},
		"deno run npm:@x/a@1":               {"deno downloads", "npx -y @x/a@1"},
		"deno run jsr:@x/a":                 {"deno with an address", ""},
		"go run example.com/a@latest":       {"go run with a version", ""},
		"sh -c npx -y a":                    {"npx is behind sh -c, which could start anything", "npx -y a"},
		"bash -lc cd x && npx -y a":         {"npx is behind bash -c", "npx -y a"},
		"/bin/sh -c A=1 exec uvx a":         {"uvx is behind exec", "uvx a"},
		"sh -c if true;then npx a;fi":       {"npx is behind then", "npx -y a"},
		"sh -c echo $(npx a)":               {"npx is behind sh -c", "npx -y a"},
		`sh -c "npx" 'a'`:                   {"npx is behind sh -c", "npx -y a"},
		"sh -c bash -c 'uvx a'":             {"uvx is behind bash -c", "uvx a"},
		"sh -c docker run a":                {"docker downloads what it runs whenever it starts (behind sh -c)", ""},
		"cmd /c npx -y a":                   {"npx is behind cmd /c", "npx -y a"},
		"cmd.exe /d /s /Cnpx a":             {"npx is behind cmd /c", "npx -y a"},
		"powershell -Command npx a":         {"npx is behind powershell -Command", "npx -y a"},
		"pwsh npx a":                        {"npx is behind pwsh", "npx -y a"},
		"pwsh -enc AAAA":                    {"an encoded command", ""},
		"env npx a":                         {"npx is behind env", "npx -y a"},
		"env -i A=1 -u B npx a":             {"npx is behind env", "npx -y a"},
		"env -S npx a":                      {"npx is behind env -S", "npx -y a"},
		"env -Snpx a":                       {"npx is behind env -S", "npx -y a"},
		"/usr/bin/env --split-string=uvx a": {"uvx is behind env -S", "uvx a"},
		"timeout -k 5 10 npx a":             {"npx is behind timeout", "npx -y a"},
		"nohup env sh -c npx":               {"npx starts a shell without a program (behind sh -c)", "npx -y PACKAGE"},
	} {
		p, skip := read(text)
		switch {
		case skip == nil:
			t.Errorf("%s is not skipped: %+v", text, p)
		case p != nil || !strings.Contains(skip.Reason, want.reason) || strings.Join(skip.Form, " ") != want.form:
			t.Errorf("%s: %q, %q", text, skip.Reason, skip.Form)
		case skip.Error() != skip.Reason:
			t.Errorf("%s: %v", text, skip)
		}
		if skip != nil && strings.Contains(skip.Reason, "secret") {
			t.Errorf("%s tells the value of an option", text)
		}
	}
}

func TestUnpinned(t *testing.T) {
	for _, text := range []string{"node server.js npx", "python3 -m pipx run a", "python -I x.py", "./npx a",
		"bin/npx a",
		`..\npx a`, "${PLUGIN_ROOT}/npx a", "npxx a", "npm run start", "npm start", "npm ci", "npm init", "pnpm start",
		"yarn start", "bun run x", "pipx list", "uv pip list", "uv", "deno run a.ts", "go run ./a", "go build a@1",
		"sh script.sh npx", "sh -c node server.js npx", "sh -c", "cmd /c node x", "cmd x", "env A=npx node npx", "env",
		"env -u npx node x", "bash --rcfile npx", "powershell -File x.ps1", "timeout 5 node x", "", "uvicorn a:b"} {
		if p, skip := read(text); p != nil || skip != nil {
			t.Errorf("%s: %+v, %v", text, p, skip)
		}
	}
}

func TestAllows(t *testing.T) {
	for text, want := range map[string][2]string{ // one that it allows, one that it doesn't
		"npx a@1.2.3": {"1.2.3", "1.2.4"}, "npx a@^1": {"1.9.0", "2.0.0"}, "npx a@1.2": {"1.2.9", "1.3.0"},
		"npx a@1": {"1.9.0", "2.0.0"}, "npx a@next": {"3.0.0", ""}, "npx a": {"3.0.0", ""},
		"uvx a==1.0": {"1.0.0", "1.1"}, "uvx a@1.0": {"1.0", "2"}, "uvx a==1.*": {"1.3", ""}, "uvx a>=1": {"1.3", ""},
	} {
		p, skip := read(text)
		if skip != nil {
			t.Fatal(text, skip)
		}
		if !p.Allows(want[0]) || want[1] != "" && p.Allows(want[1]) {
			t.Errorf("%s: %s %v, %s %v", text, want[0], p.Allows(want[0]), want[1], p.Allows(want[1]))
		}
	}
}

// What is read as a package reads as the same one when it is written again, and what is skipped has a reason.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"npx\x00-y\x00@x/a@^1 || 2.x\x00-b", "npx\x00-p\x00a\x00b\x00--",
		"npm\x00exec\x00a\x00--\x00-b", "uvx\x00--from\x00a[b]>=1, <2\x00c", "uv\x00tool\x00run\x00A.b@1",
		"sh\x00-c\x00env -S 'npx a' && uvx b", "cmd\x00/cnpx a",
		"env\x00env\x00env\x00-u\x00a\x00npx", "deno\x00npm:a", "powershell\x00-c\x00x", "npm\x00exec\x00a\x7fb\x00-b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, "\x00")
		p, skip := launcher.Read(words[0], slices.Clone(words[1:]))
		if skip != nil {
			if p != nil || skip.Reason == "" {
				t.Fatalf("%q: %+v, %+v", words, p, skip)
			}
			if len(skip.Form) == 0 || slices.Contains(skip.Form, "PACKAGE") {
				return
			}
			if p, skip = launcher.Read(skip.Form[0], skip.Form[1:]); p == nil {
				t.Fatalf("%q: the form is skipped: %v", words, skip)
			}
		}
		if p == nil {
			return
		}
		again := p.Command()
		if q, skip := launcher.Read(again[0], again[1:]); skip != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%q: %+v became %+v, %v", words, p, q, skip)
		}
		if strings.ContainsAny(p.Name+p.Program, ":\\{}$ \x00") || strings.HasPrefix(p.String(), "-") ||
			strings.Contains(p.Spec, ":") || strings.Contains(p.Spec, "/") {
			t.Fatalf("%q: %+v", words, p)
		}
	})
}
