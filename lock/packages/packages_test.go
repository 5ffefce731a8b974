package packages_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/lock/packages"
)

var (
	a = "sha256:" + strings.Repeat("a", 64)
	b = "sha256:" + strings.Repeat("b", 64)
)

// hashed is a line of requirements with one hash.
func hashed(text string) string { return text + " --hash=" + a + "\n" }

func TestRequirements(t *testing.T) {
	text := "# made by a program\r\n--require-hashes\n--only-binary :all:\n--only-binary=:all:\n\n" +
		"Typing.Extensions == 4.12.2 ; python_version < \"3.13\" \\\n    --hash=" + b + " \\\n    --hash=" + a +
		"\n    # via requests\n" +
		"requests[socks, use_chardet]==2.32.3+Local.1 --hash=" + a + " # why\n" +
		hashed(`numpy==1.26.4 ; python_version < "3.9"`) + hashed(`numpy==2.1.0 ; python_version >= "3.9"`)
	list, err := packages.Requirements(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		var files []string
		for _, f := range p.Files {
			files = append(files, f.Source)
		}
		got = append(got, fmt.Sprint(&p, " ", p.Line, " ", strings.Join(files, ",")))
	}
	want := []string{
		"pypi:numpy@1.26.4 11 " + a, "pypi:numpy@2.1.0 12 " + a, "pypi:requests@2.32.3+local.1 10 " + a,
		"pypi:typing-extensions@4.12.2 6 " + a + "," + b,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !list[3].Has(b) || list[2].Has(b) {
		t.Error("the files that are allowed are others")
	}
}

func TestRequirementsComments(t *testing.T) {
	// As pip has it: a comment ends what goes on, an address may have a "#" in it.
	list, err := packages.Requirements(strings.NewReader("x==1 \\\n # no end \\\n" + hashed("y==2") + "# z==3 \\\n"))
	if err == nil || !strings.Contains(err.Error(), "line 1: x==1 has no hash") {
		t.Errorf("got %v, %v", list, err)
	}
	if list, err = packages.Requirements(strings.NewReader("#\n \\\n\n")); len(list) != 0 || err != nil {
		t.Errorf("of nothing got %v, %v", list, err)
	}
}

func TestRequirementsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"requests==2.32.3": "line 1: requests==2.32.3 has no hash",
		"\n\n" + hashed(
			"requests>=2"): "line 3: requests needs exactly one version: expected requests==VERSION",
		hashed("requests"):                                              "needs exactly one version",
		hashed("requests==2.*"):                                         "needs exactly one version",
		hashed("requests===2.1"):                                        "needs exactly one version",
		hashed("requests==2.1,<3"):                                      "needs exactly one version",
		hashed("requests=="):                                            `invalid version ""`,
		hashed("requests==2 1"):                                         `invalid version "2 1"`,
		hashed("-foo==1"):                                               `unknown option "-foo"`,
		hashed("foo-==1"):                                               `invalid package name "foo-"`,
		hashed("fóo==1"):                                                `invalid package name "fóo"`,
		hashed("foo[a==1"):                                              "invalid extras",
		hashed("foo[a,]==1"):                                            "invalid extras",
		hashed("foo @ https://acme.example/f.whl"):                      "is an address or a path",
		hashed("git+https://acme.example/f"):                            "is an address or a path",
		hashed("./foo.whl"):                                             "is an address or a path",
		hashed(`..\foo.whl`):                                            "is an address or a path",
		"-r other.txt":                                                  "line 1: other files are not read",
		"--constraint=c.txt":                                            "other files are not read",
		"-e .":                                                          "an editable package",
		"-i https://pypi.acme.example/simple":                           "-i is not supported",
		"--index-url=https://pypi.acme.example":                         "--index-url is not supported",
		"--find-links wheels":                                           "--find-links is not supported",
		"--pre":                                                         `unknown option "--pre"`,
		"--only-binary numpy":                                           `unknown option "--only-binary"`,
		"--require-hashes=no":                                           `unknown option "--require-hashes"`,
		"x==1 --hash=md5:00":                                            `unsupported hash "md5"`,
		"x==1 --hash=sha256:00":                                         "must have 64 lower-case hex digits",
		"x==1 --hash=" + strings.ToUpper(a):                             `unsupported hash "SHA256"`,
		"x==1 --hash=" + a + " --hash=" + a:                             "duplicate hash",
		"x==1 --hash=" + a + " --config-settings=a":                     `invalid hash "--config-settings=a"`,
		hashed("x==1") + hashed("X==1"):                                 "line 2: x is a duplicate: line 1 has 1",
		hashed("x==1") + hashed("x==2; os_name=='nt'"):                  "is a duplicate",
		hashed("x==1 ; extra == 'a'"):                                   `unsupported variable "extra"`,
		hashed("x==1 ; "):                                               "expected a comparison",
		hashed("x==1 ; python_version"):                                 "expected a comparison",
		hashed("x==1 ; python_version > 3"):                             "must be compared with a text",
		hashed("x==1 ; python_version > 'x'"):                           "is not a release",
		hashed("x==1 ; python_version > '3.*'"):                         "is not a release",
		hashed("x==1 ; python_version ~= '3'"):                          "can't be compared with",
		hashed("x==1 ; python_version === '3'"):                         "can't be compared with",
		hashed("x==1 ; '3.1' in python_version"):                        "can't be compared with python_version",
		hashed("x==1 ; os_name < 'nt'"):                                 `os_name can't be compared by "<"`,
		hashed("x==1 ; os_name not 'nt'"):                               `os_name can't be compared by "not"`,
		hashed("x==1 ; os_name == 'nt"):                                 "unterminated text",
		hashed("x==1 ; os_name == 'nt' os_name"):                        "unexpected",
		hashed("x==1 ; (os_name == 'nt'"):                               `")" is missing`,
		hashed("x==1 ; os_name == 'nt' and"):                            "expected a comparison",
		hashed("x==1 ; os_name & 'nt'"):                                 "unexpected",
		hashed("x==1 ; " + strings.Repeat("(", 17) + "os_name == 'nt'"): "nested more than 16 deep",
		"x==1 \\\n" + strings.Repeat("--hash="+a+" \\\n", 4000):         "is longer than 256 KiB",
		"\xff":                                   "is not valid UTF-8",
		strings.Repeat("#\n", 8<<20+1):           "has more than 16 MiB",
		manyLines(10_001):                        "more than 10000 packages",
		hashed(strings.Repeat("x", 101) + "==1"): "invalid package name",
		hashed("x==" + strings.Repeat("1", 61)):  "invalid version",
		hashed("\"" + strings.Repeat("x", 200)):  "…",
		hashed("x==1 ; python_version < '" + strings.Repeat("1.", 9) + "1'"): "is not a release",
	} {
		list, err := packages.Requirements(strings.NewReader(text))
		own, ok := errors.AsType[*packages.Error](err)
		if !ok || list != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v; expected %q", text, err, want)
		} else if own.Line == 0 != (strings.HasPrefix(want, "is not valid UTF-8") ||
			strings.HasPrefix(want, "has more than 16")) {
			t.Errorf("%.60q: line %d", text, own.Line)
		}
	}
}

func manyLines(n int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(hashed(fmt.Sprintf("x%d==1", i)))
	}
	return all.String()
}

func TestReadFails(t *testing.T) {
	broken := errors.New("broken")
	for name, read := range map[string]packages.Reader{"requirements": packages.Requirements,
		"package-lock": packages.PackageLock} {
		if _, err := read(io.MultiReader(strings.NewReader("{"), failing{broken})); err != broken {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestMarkers(t *testing.T) {
	env := map[string]string{"python_version": "3.12", "python_full_version": "3.12.0rc1", "os_name": "posix",
		"sys_platform": "linux"}
	for text, want := range map[string]bool{
		`python_version >= "3.8"`: true, `python_version < "3.8"`: false, `python_version > "3.2"`: true,
		`python_version <= "3.12"`:   true,
		`python_version == "3.12.0"`: true, `python_version != "3.12"`: false, `python_version == "3.*"`: true,
		`python_version != "3.1.*"`: true,
		`python_version ~= "3.8"`:   true, `python_version ~= "3.13"`: false, `python_version ~= "2.7"`: false,
		`python_version ~= "3.12.1"`: false,
		`"3.8" <= python_version`:    true, `"3.12" < python_version`: false, `"3.13" > python_version`: true,
		`"3.12" == python_version`:      true,
		`python_full_version >= "3.12"`: true,
		`sys_platform == "linux"`:       true, `"linux" != sys_platform`: false,
		`sys_platform in "linux darwin"`: true, `sys_platform not in "linux darwin"`: false,
		`"lin" in sys_platform`: true, `os_name == 'nt' or os_name=='posix'`: true,
		`os_name == 'nt' and python_version > "3"`:                    false,
		`os_name == 'nt' and os_name == 'nt' or os_name == 'posix'`:   true,
		`os_name == 'nt' and (os_name == 'nt' or os_name == 'posix')`: false,
		`(os_name == 'posix')`:                                        true, `os_name == ''`: false,
	} {
		list, err := packages.Requirements(strings.NewReader(hashed("x==1 ; " + text)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := list[0].Wanted(packages.Environment{Markers: env}); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		`platform_machine == "x"`:                        "uses platform_machine, which is unknown here",
		`os_name == 'posix' and platform_machine == "x"`: "is unknown here",
	} {
		list, err := packages.Requirements(strings.NewReader(hashed("x==1 ; " + text)))
		if err == nil {
			_, err = list[0].Wanted(packages.Environment{Markers: env})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	list, err := packages.Requirements(strings.NewReader(hashed(`x==1 ; python_version == "3"`)))
	if err == nil {
		_, err = list[0].Wanted(packages.Environment{Markers: map[string]string{"python_version": "new"}})
	}
	if err == nil || !strings.Contains(err.Error(), `python_version is "new": invalid release`) {
		t.Errorf("got %v", err)
	}
}

func TestChoose(t *testing.T) {
	list, err := packages.Requirements(strings.NewReader(hashed("a==1") + hashed(`n==1 ; python_version < "3.9"`) +
		hashed(`n==2 ; python_version >= "3.8"`)))
	if err != nil {
		t.Fatal(err)
	}
	choose := func(version string) ([]string, error) {
		chosen, err := packages.Choose(list,
			packages.Environment{Markers: map[string]string{"python_version": version}})
		var names []string
		for _, p := range chosen {
			names = append(names, p.String())
		}
		return names, err
	}
	if got, err := choose("3.12"); err != nil || !slices.Equal(got, []string{"pypi:a@1", "pypi:n@2"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := choose("3.8"); err == nil || err.Error() != "line 3: pypi:n@1 and pypi:n@2 are both needed here" {
		t.Errorf("got %v", err)
	}
	if _, err := packages.Choose(list, packages.Environment{}); err == nil {
		t.Error("no Python version was given")
	}
}

func TestSameVersion(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.0", "1.0", true}, {"1.0", "1.0.0", true}, {"1", "1.0.0", true}, {"1.0+cpu", "1.0_cpu", true},
		{"1.0RC1", "1.0rc1", true}, {"0", "0.0", true},
		{"1.0", "1.1", false}, {"1.0", "10", false}, {"1.0.1", "1.0", false}, {"1.0", "0.1", false},
		{"1.0", "1.0rc1", false}, {"1.0+cpu", "1.0", false},
		{"1.0", "", false}, {"0", "", false},
	} {
		if packages.SameVersion(c.a, c.b) != c.want || packages.SameVersion(c.b, c.a) != c.want {
			t.Errorf("%q and %q: expected %v", c.a, c.b, c.want)
		}
	}
}

func TestFor(t *testing.T) {
	for name, want := range map[string]string{
		"requirements.txt": packages.PyPI, "tools/acme/_requirements.txt": packages.PyPI,
		"_dev-requirements.txt": packages.PyPI,
		"package-lock.json":     packages.NPM, "a/_package-lock.json": packages.NPM,
		"__package-lock.json": "", "poetry.lock": "", "requirements.txt/x": "", "": "",
	} {
		ecosystem, read := packages.For(name)
		if ecosystem != want || (read == nil) != (want == "") {
			t.Errorf("%q: got %q", name, ecosystem)
		}
	}
	if _, read := packages.For("package-lock.json"); reflect.ValueOf(read).
		Pointer() != reflect.ValueOf(packages.PackageLock).Pointer() {
		t.Error("another reader")
	}
}

// lockOf is a package-lock with one entry.
func lockOf(key, fields string) string {
	return `{"lockfileVersion": 3, "packages": {"": {"name": "acme"}, "` + key + `": {` + fields + `}}}`
}

// entry is the fields of an entry that is as it should be, and others.
func entry(more string) string {
	fields := map[string]string{
		"version": `"1.2.3"`, "resolved": `"https://registry.acme.example/a/-/a-1.2.3.tgz"`,
		"integrity": `"sha512-` + strings.Repeat("A", 85) + `A=="`,
	}
	for name, value := range fields {
		if !strings.Contains(more, `"`+name+`"`) {
			fields[name] = `"` + name + `": ` + value
		} else {
			delete(fields, name)
		}
	}
	all := slices.Sorted(maps.Values(fields))
	if more != "" {
		all = append(all, more)
	}
	return strings.Join(all, ", ")
}

func TestPackageLock(t *testing.T) {
	one := func(key, more string) string { return `"` + key + `": {` + entry(more) + `}` }
	text :=
		`{"name": "acme", "lockfileVersion": 2, "requires": true, "packages": {"": {"dependencies": {"a": "^1"}}, ` +
			strings.Join([]string{
				one("node_modules/a", ""), one("node_modules/a/node_modules/@b/c",
					`"optional": true, "os": ["linux"], "cpu": ["x64", "arm64"], "libc": "musl"`),
				one("node_modules/alias", `"name": "@real/thing", "license": "MIT"`),
				one("node_modules/d", `"devOptional": true, "os": ["!win32"]`),
				one("node_modules/dev", `"dev": true`), `"node_modules/in": {"inBundle": true}`,
				one("node_modules/sun", `"optional": true, "os": ["sunos"]`),
				one("node_modules/script", `"optional": true, "hasInstallScript": true`),
				one("node_modules/e", `"integrity": "sha1-x sha512-`+strings.Repeat("A", 85)+`A==?x"`),
			}, ", ") + `}, "dependencies": {}}`
	list, err := packages.PackageLock(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		got = append(got, fmt.Sprint(&p, " ", p.At, " ", p.Optional, p.OS, p.CPU, p.Libc))
		want := []packages.File{{Name: "a-1.2.3.tgz", URL: "https://registry.acme.example/a/-/a-1.2.3.tgz",
			Source: "sha512:" + strings.Repeat("0", 128)}}
		if !slices.Equal(p.Files, want) {
			t.Errorf("%s: got %v", &p, p.Files)
		}
	}
	want := []string{
		"npm:@b/c@1.2.3 node_modules/a/node_modules/@b/c true [linux] [x64 arm64] [musl]",
		"npm:@real/thing@1.2.3 node_modules/alias false [] [] []",
		"npm:a@1.2.3 node_modules/a false [] [] []", "npm:d@1.2.3 node_modules/d true [!win32] [] []",
		"npm:e@1.2.3 node_modules/e false [] [] []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, test := range []struct {
		env  packages.Environment
		want int
	}{
		{packages.Environment{OS: "linux", CPU: "x64"}, 5},
		{packages.Environment{OS: "linux", CPU: "x64", Libc: "glibc"}, 4},
		{packages.Environment{OS: "linux", CPU: "x64", Libc: "musl"}, 5},
		{packages.Environment{OS: "linux", CPU: "ppc64"}, 4},
		{packages.Environment{OS: "win32", CPU: "x64"}, 3},
	} {
		if chosen, err := packages.Choose(list, test.env); err != nil || len(chosen) != test.want {
			t.Errorf("%v: got %d, %v", test.env, len(chosen), err)
		}
	}
}

// TestPackageLockNoAddress: npm omits addresses if so configured.
func TestPackageLockNoAddress(t *testing.T) {
	text := strings.Replace(lockOf("node_modules/@a/b", entry("")),
		`"resolved": "https://registry.acme.example/a/-/a-1.2.3.tgz", `, "", 1)
	list, err := packages.PackageLock(strings.NewReader(text))
	if err != nil || strings.Contains(text, "resolved") {
		t.Fatal(text, err)
	}
	if f := list[0].Files[0]; f.Name != "b-1.2.3.tgz" || f.URL != "" {
		t.Errorf("got %+v", f)
	}
}

func TestPackageLockElsewhere(t *testing.T) {
	list, err := packages.PackageLock(strings.NewReader(lockOf("node_modules/a", entry(`"os": ["darwin"]`))))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	_, err = packages.Choose(list, packages.Environment{OS: "linux", CPU: "x64"})
	if err == nil || err.Error() != `"node_modules/a" doesn't support linux x64, only os darwin, cpu any` {
		t.Errorf("got %v", err)
	}
}

func TestPackageLockRefused(t *testing.T) {
	sum := strings.Repeat("A", 85) + "A=="
	for text, want := range map[string]string{
		"":                                      "expected a value",
		"[]":                                    "is not a package-lock.json of lockfileVersion 2 or 3",
		`{"lockfileVersion": 1, "packages":{}}`: "is not a package-lock.json of lockfileVersion 2 or 3",
		`{"lockfileVersion": 3}`:                "is not a package-lock.json of lockfileVersion 2 or 3",
		`{"lockfileVersion": 3, "lockfileVersion": 3, "packages":{}}`: "duplicate",
		`{"lockfileVersion": 3, "packages": {"node_modules/a": 1}}`:   `"node_modules/a" is not an object`,
		lockOf("node_modules/a", `"link": true, "resolved": "lib"`):   "is a link",
		lockOf("packages/a",
			entry("")): "is a directory of the project",
		lockOf("node_modules/..", entry("")):                         "is not the place",
		lockOf("node_modules/@a", entry("")):                         "is not the place",
		lockOf("node_modules/@/a", entry("")):                        "is not the place",
		lockOf("node_modules/a/b", entry("")):                        "is not the place",
		lockOf("node_modules/node_modules", entry("")):               "is not the place",
		lockOf("node_modules/a/node_modules/", entry("")):            "is not the place",
		lockOf("node_modules/é", entry("")):                          "is not the place",
		lockOf("node_modules/"+strings.Repeat("a", 215), entry("")):  "is not the place",
		lockOf("node_modules/"+strings.Repeat("a", 1000), entry("")): "is longer than",
		lockOf("node_modules/a"+strings.Repeat("/node_modules/a", 32),
			entry("")): "is nested in more than 32 packages",
		lockOf("node_modules/a",
			entry(`"name": 1`)): "has an invalid name",
		lockOf("node_modules/a",
			entry(`"name": "../a"`)): "has an invalid name",
		lockOf("node_modules/a", entry(`"version": "1"`)):  "has a missing or invalid version",
		lockOf("node_modules/a", entry(`"version": null`)): "has a missing or invalid version",
		lockOf("node_modules/a", entry(`"os": [1]`)):       "has an invalid os: expected a list",
		lockOf("node_modules/a",
			entry(`"cpu": 1`)): "has an invalid cpu: expected a list",
		lockOf("node_modules/a",
			entry(`"libc": ["a/b"]`)): "has an invalid libc: expected a list",
		lockOf("node_modules/a",
			entry(`"hasInstallScript": true`)): "has an install script",
		lockOf("node_modules/a", entry(`"resolved": null`)):                              "it has no address",
		lockOf("node_modules/a", entry(`"resolved": false`)):                             "it has no address",
		lockOf("node_modules/a", entry(`"resolved": "file:../a.tgz"`)):                   "not the https address",
		lockOf("node_modules/a", entry(`"resolved": "http://a.example/a.tgz"`)):          "not the https address",
		lockOf("node_modules/a", entry(`"resolved": "git+ssh://git@a.example/a.git#1"`)): "not the https address",
		lockOf("node_modules/a", entry(`"resolved": "https://u:p@a.example/a.tgz"`)):     "not the https address",
		lockOf("node_modules/a", entry(`"resolved": "https://a.example/a.tgz?t=1"`)):     "not the https address",
		lockOf("node_modules/a", entry(`"resolved": "https://a.example/a.zip"`)):         "not the https address",
		lockOf("node_modules/a", entry(`"resolved": "https://%zz/a.tgz"`)):               "not the https address",
		lockOf("node_modules/a", entry(`"integrity": null`)):                             "has no sha512",
		lockOf("node_modules/a", entry(`"integrity": "sha1-AAAA"`)):                      "only a sha1",
		lockOf("node_modules/a", entry(`"integrity": "sha512-AAAA"`)):                    "an invalid sha512",
		lockOf("node_modules/a", entry(`"integrity": "sha512-!"`)):                       "an invalid sha512",
		lockOf("node_modules/a", entry(`"integrity": "sha512-`+sum+` sha512-`+sum+`"`)):  "two sha512 digests",
		`"` + strings.Repeat("a", 16<<20) + `"`:                                          "has more than 16 MiB",
		manyEntries(
			10_001): "has more than 10000 packages",
	} {
		list, err := packages.PackageLock(strings.NewReader(text))
		_, ok := errors.AsType[*packages.Error](err)
		if !ok || list != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90q: got %v; expected %q", text, err, want)
		}
	}
}

func manyEntries(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `, "node_modules/a%d": {}`, i)
	}
	return `{"lockfileVersion": 3, "packages": {` + all.String()[1:] + `}}`
}

// What a reader takes is what a lock can name: short, visible, without "@" in a version, and with digests of the form.
func check(t *testing.T, list []packages.Package) {
	for i := range list {
		p := &list[i]
		if p.Key() == "" || len(p.String()) > 400 || strings.ContainsAny(p.Version, "@: ") ||
			strings.ContainsAny(p.Name, " :\\") || len(p.Files) == 0 {
			t.Errorf("got %q", p)
		}
		for _, f := range p.Files {
			if _, digits, ok := strings.Cut(f.Source, ":"); !ok || len(digits) != 64 && len(digits) != 128 {
				t.Errorf("%s: got %q", p, f.Source)
			}
		}
		if strings.Contains(p.At, "..") && strings.Contains("/"+p.At+"/", "/../") {
			t.Errorf("%s lies at %q", p, p.At)
		}
	}
	env := packages.Environment{OS: "linux", CPU: "x64",
		Markers: map[string]string{"python_version": "3.12", "python_full_version": "3.12.4",
			"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64",
			"platform_python_implementation": "CPython", "implementation_name": "cpython"}}
	for i := range list {
		if _, err := list[i].Wanted(env); err != nil && list[i].Ecosystem == packages.PyPI {
			t.Errorf("%s: %v", &list[i], err)
		}
	}
}

func FuzzRequirements(f *testing.F) {
	f.Add(hashed("requests[socks]==2.32.3 ; python_version >= '3.8' and (os_name == 'nt' or 'x' in sys_platform)"))
	f.Add("--require-hashes\nx==1 \\\n --hash=" + a + " \\\n --hash=" + b + "\n # via y\n")
	f.Add("-r x\n")
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := packages.Requirements(strings.NewReader(text)); err == nil {
			check(t, list)
		}
	})
}

func FuzzPackageLock(f *testing.F) {
	f.Add(lockOf("node_modules/a", entry("")))
	f.Add(lockOf("node_modules/a/node_modules/@b/c", entry(`"optional": true, "os": ["!win32"], "name": "@d/e"`)))
	f.Add(lockOf("packages/a", `"link": true`))
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := packages.PackageLock(strings.NewReader(text)); err == nil {
			check(t, list)
		}
	})
}
