//go:build unix

package starlark_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
)

// project makes a project with files, links, and what no tool may have.
func project(t testing.TB) string {
	dir := put(t, sandboxtest.Dir(t), map[string]string{
		"README.md": "one\ntwo\n", "docs/a.md": "a", "docs/deep/b.md": "bb", "docs/deep/c.go": "c",
		"src/main.go":    "package main\n",
		".ai/tools/x.py": "x", ".ai/keys/k": "key", ".git/config": "[core]\n", "rye.yaml": "rye: 2\n",
		"rye.lock":   "lock\n",
		"docs/ä.txt": "äöü", "docs/binary": "a\xff\xfe",
	})
	outside := put(t, sandboxtest.Dir(t), map[string]string{"secret": "secret"})
	for name, to := range map[string]string{
		"in": "docs/a.md", "up": "docs/../README.md", "docs/out": filepath.Join(outside, "secret"),
		"docs/dir": outside, "git": ".git/config", "key": ".ai/keys/k",
		"round": "round", "docs/abs": filepath.Join(dir, "README.md"), "docs/gone": "nothing",
		"above": "../" + filepath.Base(outside) + "/secret",
	} {
		if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// in calls an expression with the files of a project: all is read, and docs, src and README.md are written.
func in(t testing.TB, dir, expression string) *primitive.Result {
	t.Helper()
	a := action(t, "def main(params):\n    return "+expression+"\n", nil)
	granted(a, dir, []string{".", ".ai", ".git", "rye.lock", "rye.yaml"}, []string{"docs", "src", "README.md"})
	a.Sandbox.Deny = []string{filepath.Join(dir, ".ai", "keys")}
	return here(t, a)
}

func TestFiles(t *testing.T) {
	dir := project(t)
	for text, want := range map[string]string{
		"fs.read('README.md')":                                         `"one\ntwo\n"`,
		"fs.read('./docs/../README.md')":                               `"one\ntwo\n"`,
		"fs.read('" + dir + "/README.md')":                             `"one\ntwo\n"`,
		"fs.read('README.md', offset=4)":                               `"two\n"`,
		"fs.read('README.md', 4, 2 << 2)":                              `"two\n"`,
		"fs.read('README.md', offset=100)":                             `""`,
		"fs.read('README.md', limit=4)":                                `"one\n"`,
		"fs.read('docs/ä.txt', limit=5)":                               `"äö"`,
		"fs.read('docs/ä.txt', offset=4)":                              `"ü"`,
		"fs.read('in')":                                                `"a"`,
		"fs.read('up')":                                                `"one\ntwo\n"`,
		"fs.read('docs/abs')":                                          `"one\ntwo\n"`,
		"fs.read('git')":                                               `"[core]\n"`,
		"fs.read('rye.lock')":                                          `"lock\n"`,
		"fs.read('docs/binary', otherwise=None)":                       `null`,
		"fs.read('README.md', otherwise='x')":                          `"one\ntwo\n"`,
		"fs.exists('README.md')":                                       `true`,
		"fs.exists('docs/none/x')":                                     `false`,
		"fs.exists('docs/gone')":                                       `false`,
		"fs.stat('none')":                                              `null`,
		"fs.stat('README.md')":                                         `{"name":"README.md","path":"README.md","size":8,"type":"file"}`,
		"fs.stat('docs/deep/').type":                                   `"directory"`,
		"fs.stat('.').type":                                            `"directory"`,
		"[e.path for e in fs.list('docs/deep')]":                       `["docs/deep/b.md","docs/deep/c.go"]`,
		"[e.name + ' ' + e.type for e in fs.list('docs')]":             `["a.md file","abs link","binary file","deep directory","dir link","gone link","out link","ä.txt file"]`,
		"[e.name for e in fs.list('.ai')]":                             `["tools"]`,
		"[e.path for e in fs.walk(skip=['docs', '.*'])]":               `["README.md","above","git","in","key","round","rye.lock","rye.yaml","src","src/main.go","up"]`,
		"[e.path for e in fs.walk('docs/deep')]":                       `["docs/deep/b.md","docs/deep/c.go"]`,
		"fs.glob('*.go')":                                              `["docs/deep/c.go","src/main.go"]`,
		"fs.glob('**/*.go', skip=['src'])":                             `["docs/deep/c.go"]`,
		"fs.glob('docs/*.md')":                                         `["docs/a.md"]`,
		"fs.glob('./docs/**/*.md')":                                    `["docs/a.md","docs/deep/b.md"]`,
		"fs.glob('deep/*', path='docs')":                               `["docs/deep/b.md","docs/deep/c.go"]`,
		"fs.glob('[a-b].{md,go}')":                                     `["docs/a.md","docs/deep/b.md"]`,
		"[fs.write('docs/a.md', 'new'), fs.read('docs/a.md')]":         `[false,"new"]`,
		"[fs.write('docs/n/e/w.txt', 'x'), fs.read('docs/n/e/w.txt')]": `[true,"x"]`,
		"[fs.write('README.md', 'me'), fs.read('README.md')]":          `[false,"me"]`,
	} {
		r := in(t, project(t), strings.ReplaceAll(text, dir, "@"))
		if strings.Contains(text, dir) {
			r = in(t, dir, text)
		}
		if got, err := jcs.Append(nil, r.Value); err != nil || string(got) != want {
			t.Errorf("%s is %s, %s; want %s", text, got, r.Failure, want)
		}
	}
}

// What isn't granted isn't had, on whatever way, and what is wrong is said.
func TestRefused(t *testing.T) {
	dir := project(t)
	for text, want := range map[string]string{
		"fs.read('.ai/keys/k')":            `".ai/keys/k" is not granted`,
		"fs.read('.AI/KEYS/k')":            `".AI/KEYS/k" is not granted`,
		"fs.read('key')":                   `".ai/keys/k" is not granted`,
		"fs.read('docs/../.ai/keys/k')":    `".ai/keys/k" is not granted`,
		"fs.exists('.ai/keys')":            `".ai/keys" is not granted`,
		"fs.list('.ai/keys')":              `".ai/keys" is not granted`,
		"fs.read('/etc/passwd')":           `"/etc/passwd" is not in the project`,
		"fs.read('../x')":                  `"../x" is not in the project`,
		"fs.read('docs/../../x')":          `is not in the project`,
		"fs.read('a\\0b')":                 `is not in the project`,
		"fs.read('')":                      `"" is not in the project`,
		"fs.read('above')":                 `"above" is a symbolic link that leads out of the project`,
		"fs.read('docs/out')":              `"docs/out" is a symbolic link that leads out of the project`,
		"fs.read('docs/dir/secret')":       `"docs/dir" is a symbolic link that leads out of the project`,
		"fs.glob('*', path='docs/dir')":    `"docs/dir" is a symbolic link that leads out of the project`,
		"fs.stat('docs/out')":              `leads out of the project`,
		"fs.read('round')":                 `"round" has too many symbolic links in its path`,
		"fs.read('none')":                  `"none" not found`,
		"fs.read('README.md/x')":           `"README.md/x" `,
		"fs.read('docs')":                  `"docs" is a directory`,
		"fs.read('docs/pipe')":             `"docs/pipe" is neither a file nor a directory`,
		"fs.read('docs/binary')":           `"docs/binary" is not text in UTF-8`,
		"fs.read('README.md', offset=-1)":  `offset must be at least 0`,
		"fs.read('README.md', limit=1)":    `limit between 4 and 67108864`,
		"fs.read('README.md', limit='x')":  `limit: `,
		"fs.list('README.md')":             `"README.md" is not a directory`,
		"fs.walk('README.md')":             `"README.md" is not a directory`,
		"fs.walk(skip=[1])":                `skip must be a list of strings, but contains a int`,
		"fs.walk(skip=['/'])":              `the pattern must be a relative path without ..`,
		"fs.walk(1)":                       `fs.walk: for parameter path: got int, want string`,
		"fs.stat('../x')":                  `is not in the project`,
		"fs.list('../x')":                  `is not in the project`,
		"fs.walk('../x')":                  `is not in the project`,
		"fs.list('none')":                  `"none" not found`,
		"fs.glob('../x')":                  `the pattern must be a relative path without ..`,
		"fs.glob('a[')":                    `unclosed`,
		"fs.glob('a{')":                    `unclosed`,
		"fs.glob()":                        `missing argument`,
		"fs.glob('a', skip=[None])":        `skip must be a list of strings`,
		"fs.read()":                        `missing argument`,
		"fs.stat()":                        `missing argument`,
		"fs.exists()":                      `missing argument`,
		"fs.list()":                        `missing argument`,
		"fs.write('docs/x')":               `missing argument`,
		"fs.write('.git/config', 'x')":     `invalid file name`,
		"fs.write('.GIT/config', 'x')":     `invalid file name`,
		"fs.write('git', 'x')":             `"git" is a symbolic link, which writing doesn't follow`,
		"fs.write('docs/dir/secret', 'x')": `"docs/dir" is a symbolic link`,
		"fs.write('docs/gone', 'x')":       `"docs/gone" is a symbolic link`,
		"fs.write('docs/pipe', 'x')":       `"docs/pipe" is not a regular file`,
		"fs.write('docs', 'x')":            `"docs" is not a regular file`,
		"fs.write('README.md/x', 'x')":     `"README.md/x" `,
		"fs.write('rye.lock', 'x')":        `"rye.lock" may be read but not written`,
		"fs.write('new.txt', 'x')":         `"new.txt" may be read but not written`,
		"fs.write('.ai/tools/x.py', 'x')":  `".ai/tools/x.py" may be read but not written`,
		"fs.write('.Ai/tools/x.py', 'x')":  `".Ai/tools/x.py" may be read but not written`,
		"fs.write('docs/a:b', 'x')":        `invalid file name`,
		"fs.write('docs/a~1', 'x')":        `invalid file name`,
		"fs.write('../x', 'x')":            `is not in the project`,
	} {
		if err := pipe(filepath.Join(dir, "docs", "pipe")); err != nil {
			t.Fatal(err)
		}
		if r := in(t, dir, text); !r.Failed || !strings.Contains(r.Failure, want) {
			t.Errorf("%s is %v, %s; want %s", text, r.Value, r.Failure, want)
		}
	}
	for at, want := range map[string]string{".git/config": "[core]\n", ".ai/tools/x.py": "x", "rye.lock": "lock\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, at)); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v", at, b, err)
		}
	}
}

// A file that is replaced keeps its mode, nothing else is left beside it, and of two grants about one path the
// narrower counts.
func TestReplaced(t *testing.T) {
	dir := put(t, sandboxtest.Dir(t), map[string]string{"d/run.sh": "x", "d/.rye-0.tmp": "another's"})
	if err := os.Chmod(filepath.Join(dir, "d", "run.sh"), 0o770); err != nil {
		t.Fatal(err)
	}
	a := granted(action(t, "def main(params):\n    fs.write('d/run.sh', 'y')\n", nil), dir, []string{"d"},
		[]string{"d"})
	if r := here(t, a); r.Failed {
		t.Fatalf("%+v", r)
	}
	info, err := os.Stat(filepath.Join(dir, "d", "run.sh"))
	if err != nil || info.Mode().Perm() != 0o770 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "d"))
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	a.Sandbox.Deny = []string{filepath.Join(dir, "d")}
	if r := here(t, a); !strings.Contains(r.Failure, "is not granted") {
		t.Errorf("%+v", r)
	}
	// Of a file that was granted by itself nothing is below.
	a = granted(action(t, "def main(params):\n    fs.write('d/run.sh/x', 'y')\n", nil), dir, nil, []string{"d/run.sh"})
	if r := here(t, a); !r.Failed {
		t.Errorf("%+v", r)
	}
	a = granted(action(t, "def main(params):\n    return fs.stat('d/run.sh').size\n", nil), dir, nil,
		[]string{"d/run.sh"})
	if r := here(t, a); r.Failed || fmt.Sprint(r.Value) != "1" {
		t.Errorf("%+v", r)
	}
	// A file too large to be read at once is read in parts.
	big := filepath.Join(dir, "d", "big")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, starlark.MaxRead+1); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"fs.read('d/big')": `"d/big" has more than 67108864 bytes: read it in parts`,
		"fail(fs.read('d/big', otherwise='otherwise'))":   "otherwise",
		"fail(str(len(fs.read('d/big', limit=1 << 20))))": "1048576",
	} {
		a := granted(action(t, "def main(params):\n    return "+text+"\n", nil), dir, []string{"d"}, nil)
		if r := here(t, a); r.Failure != want {
			t.Errorf("%s: %+v", text, r)
		}
	}
	a = granted(action(t, "def main(params):\n    fs.write('d/run.sh', 'y')\n", nil), dir, []string{"d"},
		[]string{"d"})
	// The system refuses a directory that is not writable.
	a.Sandbox.Deny = nil
	a.Files.Write = []string{filepath.Join(dir, "gone")}
	if r := here(t, a); !r.Failed {
		t.Errorf("%+v", r)
	}
}

// The patterns of package comment.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"*.go", "**/*.go", "a/**/b", "a/**", "**", "[a-z]x", "[!a]?", "{a,b}/c", "a,b", "}",
		"[]a]", "[!]a]", `\`, "ä*", "[z-a]", "**/**/x", "a**b"} {
		f.Add(s, "a/b/x.go")
	}
	f.Fuzz(func(t *testing.T, text, at string) {
		matches, err := starlark.Matches(text, at)
		if err != nil {
			return
		}
		if again, err := starlark.Matches(text, at); err != nil || again != matches {
			t.Errorf("%q and %q: %v, then %v, %v", text, at, matches, again, err)
		}
		if !strings.ContainsAny(text, "*?[{,}/") && matches != (at == text || strings.HasSuffix(at, "/"+text) &&
			!strings.Contains(at, "//") && at[0] != '/') && strings.Count(at, "/") == 0 {
			t.Errorf("%q means %q: %v", text, at, matches)
		}
	})
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, yes, no string
	}{
		{"*.go", "a.go b/a.go b/c/.go", "a.gox a/b.go/c"},
		{"**/*.go", "a.go b/c/a.go", "a.py"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "b x/a/b a/bb"},
		{"a/**", "a/b a/b/c", "a b/a"},
		{"**", "a a/b", ""},
		{"src/*.py", "src/a.py", "x/src/a.py src/x/a.py"},
		{"?.md", "a.md b/ä.md", "ab.md"},
		{"[!a]x", "bx", "ax /x"},
		{"[]a]x", "]x ax", "bx"},
		{"[!]a]x", "bx", "]x ax"},
		{"[a-c^]", "b ^", "d"},
		{"{a,b*}.x", "a.x bcd.x", "c.x"},
		{"a,b", "a,b", "a b"},
		{"a.b+c", "a.b+c", "aXb+c a.bbc"},
		{"a**b", "axb ab", "a/b"},
		{"**/**/x", "x a/x a/b/x", "ax"},
	} {
		for list, want := range map[string]bool{test.yes: true, test.no: false} {
			for _, at := range strings.Fields(list) {
				if got, err := starlark.Matches(test.pattern, at); got != want || err != nil {
					t.Errorf("%q and %q: %v, %v", test.pattern, at, got, err)
				}
			}
		}
	}
	for _, bad := range []string{"", "/a", "../a", "a/..", "[", "{a", "[z-a]"} {
		if _, err := starlark.Matches(bad, "a"); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

// No path leads where no grant is.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a", "../a", "/etc/passwd", "docs/../../x", ".git/config", ".GIT", "docs/a", "in",
		"docs//a/.", "\x00", "docs/out", "~", ".."} {
		f.Add(s)
	}
	dir := project(f)
	f.Fuzz(func(t *testing.T, at string) {
		text, err := starlark.ReadBelow(dir, []string{filepath.Join(dir, "docs")}, at)
		if err == nil && !strings.Contains("a bb c äöü a\xff\xfe", string(text)) {
			t.Errorf("%q is read: %q", at, text)
		}
	})
}
