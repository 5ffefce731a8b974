package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/lock/packages"
)

// fromLauncher returns what FromLauncher makes of a command for which a resolver wrote something.
func fromLauncher(written string, command ...string) (*catalog.Spec, []catalog.Beside, error) {
	s := &catalog.Spec{Transport: catalog.Stdio, Command: command[0], Args: command[1:], Timeout: 7}
	return catalog.FromLauncher(context.Background(), s, "s",
		func(context.Context, *launcher.Package) ([]byte, error) { return []byte(written), nil })
}

// npmList is a list of the package @x/a at 1.0.0 with some fields.
func npmList(fields string) string {
	return `{"lockfileVersion": 3, "packages": {"": {}, "node_modules/@x/a": {"version": "1.0.0", "integrity": "sha512-` +
		strings.Repeat("A", 86) + `=="` + fields + `}}}`
}

func TestFromLauncherNPM(t *testing.T) {
	for _, test := range []struct{ bin, program, want string }{
		{`, "bin": "main.js"`, "", "main.js"},
		{`, "bin": "main.js"`, "a", "main.js"},
		{`, "bin": "main.js"`, "b", ""},
		{`, "bin": "./dist/main.js"`, "", "dist/main.js"},
		{`, "bin": {"other": "x.js"}`, "", "x.js"},
		{`, "bin": {"other": "x.js"}`, "a", ""},
		{`, "bin": {"other": "x.js", "a": "y.js"}`, "", "y.js"},
		{`, "bin": {"other": "x.js", "a": "y.js"}`, "other", "x.js"},
		{`, "bin": {"other": "x.js", "more": "y.js"}`, "", ""},
		{`, "bin": {"a": 3}`, "", ""},
		{`, "bin": "../x.js"`, "", ""},
		{`, "bin": "/x.js"`, "", ""},
		{`, "bin": "{user_space}/x.js"`, "", ""},
		{``, "", ""},
	} {
		command := []string{"npx", "-y", "@x/a@^1", "--y"}
		if test.program != "" {
			command = []string{"npx", "-p", "@x/a", test.program, "--y"}
		}
		s, files, err := fromLauncher(npmList(test.bin), command...)
		if test.want == "" {
			if err == nil {
				t.Errorf("%+v: %+v", test, s)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		again, err := catalog.SpecOf(item(t, catalog.PlaceOf("s").Ref(), s.File(at)).Model)
		if err != nil || again.Command != "node" || again.Packages != "_s/package-lock.json" || again.Lib != "_s" ||
			strings.Join(again.Args, " ") != "{packages_path}/node_modules/@x/a/"+test.want+" --y" ||
			again.Timeout != 7 || len(files) != 1 || files[0].Path != again.Packages ||
			string(files[0].Bytes) != npmList(test.bin) {
			t.Errorf("%+v: %+v, %v, %v", test, again, files, err)
		}
	}
	for text, list := range map[string]string{"b": npmList(`, "bin": "x.js"`), "@x/a@^2": npmList(`, "bin": "x.js"`),
		"@x/a@1.0.1": npmList(`, "bin": "x.js"`), "@x/a": "{}"} {
		if s, _, err := fromLauncher(list, "npx", text); err == nil {
			t.Errorf("%s: %+v", text, s)
		}
	}
}

// pipReport is pip's report of some wheels, name==version.
func pipReport(wheels ...string) string {
	var parts []string
	for _, wheel := range wheels {
		name, version, _ := strings.Cut(wheel, "==")
		parts = append(parts, fmt.Sprintf(`{"metadata": {"name": %q, "version": %q}, "download_info": {"url":`+
			`"https://e.e/%s-%s-py3-none-any.whl", "archive_info": {"hashes": {"sha256": %q}}}}`, name, version, name,
			version, strings.Repeat("ab", 32)))
	}
	return `{"version": "1", "pip_version": "23.0.1", "install": [` + strings.Join(parts, ", ") + `]}`
}

func TestFromLauncherPython(t *testing.T) {
	s, files, err := fromLauncher(pipReport("Dep_B==2.0", "acme.Server==1.2"), "uvx", "--from", "acme_server>=1",
		"serve", "--x")
	if err != nil {
		t.Fatal(err)
	}
	again, err := catalog.SpecOf(item(t, catalog.PlaceOf("s").Ref(), s.File(at)).Model)
	if err != nil || again.Command != "${RYE_PYTHON}" || !again.Python || again.Lib != "_s" ||
		again.Packages != "_s/requirements.txt" ||
		strings.Join(again.Args, " ") != "-I -S -B -u -X utf8 {runtime_lib}/start.py acme-server serve --x" {
		t.Errorf("%+v, %v", again, err)
	}
	if len(files) != 2 || files[0].Path != again.Packages || files[1].Path != "_s/start.py" {
		t.Fatalf("%v", files)
	}
	all, err := packages.Requirements(strings.NewReader(string(files[0].Bytes)))
	if err != nil || len(all) != 2 || all[0].String() != "pypi:acme-server@1.2" ||
		all[1].String() != "pypi:dep-b@2.0" || !all[0].Has("sha256:"+strings.Repeat("ab", 32)) {
		t.Errorf("%v, %v of %s", all, err, files[0].Bytes)
	}
	good := pipReport("a==1.0")
	old := strings.Replace(good, `"hashes": {"sha256": "`, `"hash": "sha256=`, 1)
	old = strings.Replace(old, `"}}}}`, `"}}}`, 1)
	if s, _, err = fromLauncher(old, "uvx", "a"); err != nil || s.Args[len(s.Args)-1] != "a" {
		t.Errorf("%+v, %v", s, err)
	}
	for name, report := range map[string]string{
		"none":            pipReport("b==1.0"),
		"another version": pipReport("a==2.0"),
		"no wheel":        strings.Replace(good, ".whl", ".tar.gz", 1),
		"no hash":         strings.Replace(good, "sha256", "md5", 1),
		"a name":          strings.Replace(good, `"name": "a"`, `"name": "a\n-e ."`, 1),
		"a version":       strings.Replace(good, `"version": "1.0"`, `"version": "1.0 --hash=x"`, 1),
		"twice":           pipReport("a==1.0", "a==1.0"),
		"nothing":         "{}",
		"no JSON":         "",
	} {
		if s, _, err := fromLauncher(report, "uvx", "a@1.0"); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestFromLauncherOther(t *testing.T) {
	s, files, err := fromLauncher("", "node", "server.js")
	if err != nil || files != nil || s.Command != "node" || s.Packages != "" {
		t.Errorf("%+v, %v, %v", s, files, err)
	}
	_, _, err = fromLauncher("", "sh", "-c", "npx -y a")
	if skip, ok := errors.AsType[*launcher.Skip](err); !ok || strings.Join(skip.Form, " ") != "npx -y a" {
		t.Errorf("%v", err)
	}
	none := errors.New("none")
	_, _, err = catalog.FromLauncher(t.Context(), &catalog.Spec{Transport: catalog.Stdio, Command: "uvx",
		Args: []string{"a"}}, "s", func(context.Context, *launcher.Package) ([]byte, error) { return nil, none })
	if !errors.Is(err, none) {
		t.Error(err)
	}
	http := &catalog.Spec{Transport: catalog.HTTP, URL: "https://e.e"}
	if s, _, err := catalog.FromLauncher(t.Context(), http, "s", nil); err != nil || s != http {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestResolver(t *testing.T) {
	for _, test := range []struct {
		command  []string
		registry string
		roots    bool
		program  string
		has, not []string
		hosts    string
	}{
		{[]string{"npx", "a@^1"}, "", false, "npm", []string{"--ignore-scripts", "--package-lock-only", "a@^1"},
			[]string{"--registry=", "--cafile="}, "registry.npmjs.org"},
		{[]string{"npx", "a"}, "https://r.e", true, "npm", []string{"--registry=https://r.e", "--cafile=roots.pem",
			"a"}, nil, "r.e"},
		{[]string{"uvx", "a>=1"}, "", false, "${RYE_PYTHON}", []string{"--only-binary=:all:", "--dry-run",
			"--isolated", "--index-url=https://pypi.org/simple", "a>=1"}, []string{"--cert="}, "files.pythonhosted.org pypi.org"},
		{[]string{"uvx", "a[b]"}, "https://r.e", true, "${RYE_PYTHON}", []string{"--index-url=https://r.e",
			"--cert=roots.pem", "a[b]"}, nil, "r.e"},
	} {
		p, skip := launcher.Read(test.command[0], test.command[1:])
		if skip != nil {
			t.Fatal(skip)
		}
		r := catalog.NewResolver(p, test.registry, "r.e", test.roots)
		it := item(t, catalog.PlaceOf("list").Ref(), []byte(strings.Replace(string(r.Item()), "category: "+r.Name,
			"category: mcp/servers", 1)))
		s, err := catalog.SpecOfProgram(it.Model)
		if err != nil || s.Command != test.program || strings.Join(s.Network, " ") != test.hosts ||
			!slices.Equal(s.Write, []string{"work"}) || len(s.Read) > 0 ||
			(s.Env["PIP_CONFIG_FILE"] != "") != s.Python || s.Python != (test.program != "npm") || r.Hint(p) == "" ||
			r.Written == "" ||
			r.Name != catalog.ResolverOf(p) {
			t.Errorf("%v: %+v, %v", test.command, s, err)
			continue
		}
		for _, arg := range test.has {
			if !slices.Contains(s.Args, arg) {
				t.Errorf("%v: no %s in %q", test.command, arg, s.Args)
			}
		}
		for _, prefix := range test.not {
			if slices.ContainsFunc(s.Args, func(arg string) bool { return strings.HasPrefix(arg, prefix) }) {
				t.Errorf("%v: %s in %q", test.command, prefix, s.Args)
			}
		}
	}
}

// The program of a package is a file of it, whatever its list says, and a list of pip is one that rye reads.
func FuzzFromLauncher(f *testing.F) {
	for _, bin := range []string{`"main.js"`, `{"a": "./x.js"}`, `"../../x"`, `"a/../../x"`, `"C:\\x"`, `"x\u0000"`,
		`{"a": "x", "b": "y"}`} {
		f.Add("npx", "@x/a@1.0.0", npmList(`, "bin": `+bin))
	}
	f.Add("uvx", "a>=1", pipReport("a==1.0", "b==2"))
	f.Fuzz(func(t *testing.T, command, name, written string) {
		p, skip := launcher.Read(command, []string{name})
		if skip != nil || p == nil {
			return
		}
		s, files, err := fromLauncher(written, command, name)
		if err != nil {
			return
		}
		if p.Ecosystem == packages.PyPI {
			if _, err := packages.Requirements(strings.NewReader(string(files[0].Bytes))); err != nil {
				t.Errorf("%q of %s: %v", files[0].Bytes, written, err)
			}
			return
		}
		below, ok := strings.CutPrefix(s.Args[0], "{packages_path}/node_modules/"+p.Name+"/")
		if !ok || below == "" || slices.Contains(strings.Split(below, "/"), "..") ||
			strings.ContainsAny(below, "{}$\\\x00") {
			t.Errorf("%q of %s", s.Args[0], written)
		}
	})
}
