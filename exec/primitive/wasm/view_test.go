package wasm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// A ground is a project, and what lies around it.
type ground struct{ out, project string }

func newGround(t testing.TB) ground {
	out := sandboxtest.Dir(t)
	g := ground{out, filepath.Join(out, "project")}
	put(t, g.out, map[string]string{
		"secret": "secret", "project/src/a.txt": "alpha", "project/src/deep/b.txt": "beta", "project/secret": "secret",
		"project/out/old.txt":  "0123456789",
		"project/one/file.txt": "one", "project/one/two.txt": "two", "project/out/kept/k.txt": "kept",
		"project/out/kept/keys/key": "secret", "project/out/kept/open/": "",
	})
	return g
}

func (g ground) at(names ...string) (list []string) {
	for _, n := range names {
		list = append(list, filepath.Join(g.project, filepath.FromSlash(n)))
	}
	return list
}

// grant gives an action the files of these tests: src and one file of one to read; out to write, but in it kept only
// to read, and in kept keys denied and open to write.
func (g ground) grant(a *primitive.Action) *primitive.Action {
	a.Config["root"] = g.project
	a.Sandbox.Read, a.Sandbox.Write, a.Sandbox.Deny = g.at("src", "one/file.txt", "out/kept"),
		g.at("out", "out/kept/open"), g.at("out/kept/keys")
	return a
}

// plan returns the plan of a guest with these grants.
func (g ground) plan() *plan {
	return &plan{Root: g.project, Read: g.at("src", "one/file.txt", "out/kept"), Write: g.at("out", "out/kept/open"),
		Deny: g.at("out/kept/keys")}
}

// here runs an action in this process, without a sandbox.
func here(t testing.TB, a *primitive.Action) (out string, status uint32) {
	t.Helper()
	p, input, err := planOf(a)
	if err == nil {
		_, err = subject(t).compiled(t.Context(), confine(a, p), p, func() {})
	}
	if err != nil {
		t.Fatal(err)
	}
	code, frames := answers(t, p, input)
	last := frames[len(frames)-1]
	if code != 0 || last[0] != worker.Exit {
		t.Fatalf("status %d, %q", code, last)
	}
	for _, f := range frames {
		if f[0] == worker.Out {
			out += f[1:]
		}
	}
	return out, binary.BigEndian.Uint32([]byte(last[1:]))
}

// With the sandbox of a system around it a module sees what it sees without.
func TestBoth(t *testing.T) {
	g := newGround(t)
	const want = ".\none\none/file.txt\nout\nout/kept\nout/kept/k.txt\nout/kept/open\nout/old.txt\n" +
		"src\nsrc/a.txt\nsrc/deep\nsrc/deep/b.txt\n"
	r := run(t, g.grant(action(t, "", "walk", ".")), nil)
	if out, errs, _ := said(r); out != want {
		t.Errorf("%s%s", out, errs)
	}
	if out, status := here(t, g.grant(action(t, "", "walk", "."))); out != want {
		t.Errorf("%s, status %d", out, status)
	}
}

// What a module does with files, by what came of it.
func TestFiles(t *testing.T) {
	g := newGround(t)
	cases := []struct {
		do   string // words
		want string // of standard output; "!" is a failure
	}{
		{"read src/a.txt", "alpha"}, {"read /src/a.txt", "alpha"}, {"read src/../src/deep/b.txt", "beta"},
		{"read one/file.txt", "one"},
		{"read src", "!"}, {"read src/none", "!"}, {"read one/two.txt", "!"}, {"read secret", "!"},
		{"read ../secret", "!"},
		{"read /../secret", "!"},
		{"read src/../../secret", "!"}, {"read ../../../../../../etc/passwd", "!"}, {"read /etc/passwd", "!"},
		{"read /proc/self/environ", "!"},
		{"read /dev/null", "!"}, {"read " + filepath.ToSlash(filepath.Join(g.out, "secret")), "!"},
		{"read out/kept/k.txt", "kept"}, {"read out/kept/keys/key", "!"},
		{"list /", "one true\nout true\nsrc true\n"}, {"list one", "file.txt false\n"},
		{"list src", "a.txt false\ndeep true\n"}, {"list out/kept", "k.txt false\nopen true\n"},
		{"list src/a.txt", "!"}, {"list ..", "one true\nout true\nsrc true\n"}, {"list out/kept/keys", "!"},
		{"write src/new x", "!"}, {"write src/a.txt x", "!"}, {"append src/a.txt x", "!"},
		{"write one/file.txt x", "!"},
		{"write one/new x", "!"}, {"write new x", "!"},
		{"mkdir new", "!"}, {"mkdir src/new", "!"}, {"rm src/a.txt", "!"}, {"mv src/a.txt src/b.txt", "!"},
		{"mv src/a.txt out/b.txt", "!"},
		{"write out/kept/new x", "!"}, {"write out/kept/k.txt x", "!"}, {"rm out/kept/k.txt", "!"},
		{"write out/kept/keys/new x", "!"}, {"mkdir out/kept/keys/x", "!"},
		{"mv out/kept out/moved", "!"}, {"rm out/kept", "!"}, {"mv out/kept/open out/kept/closed", "!"},
		{"rm out", "!"},
		{"mv out away", "!"},
		{"write out/new hello", ""}, {"append out/new !", ""}, {"read out/new", "hello!"},
		{"mv out/new out/newer", ""},
		{"read out/newer", "hello!"}, {"read out/new", "!"},
		{"mkdir out/dir", ""}, {"mkdir out/dir", "!"}, {"write out/dir/x y", ""}, {"mv out/dir/x out/x", "!"},
		{"rm out/dir", "!"}, {"rm out/dir/x", ""}, {"rm out/dir", ""}, {"rm out/none", "!"},
		{"write out/kept/open/new x", ""}, {"edit out/old.txt", "1234 01EDIT67"}, {"append out/kept/open/new y", ""},
		{"read out/kept/open/new", "xy"}, {"write out/newer short", ""}, {"read out/newer", "short"},
		{"ln ../secret out/link", "!"}, {"ln a.txt out/link", "!"}, {"link src/a.txt out/hard", "!"},
		{"link out/newer out/hard", "!"},
		{"write out/a\\b x", map[bool]string{true: "!", false: ""}[runtime.GOOS == "windows"]},
	}
	var lines []string
	for _, c := range cases {
		lines = append(lines, c.do)
	}
	said, status := here(t, g.grant(action(t, strings.Join(lines, "\n"), "each")))
	var got []string // for each what it has written, and its error
	if err := json.Unmarshal([]byte(said), &got); err != nil || len(got) != 2*len(cases) {
		t.Fatalf("%d answers for %d questions: %v, status %d", len(got), len(cases), err, status)
	}
	for i, c := range cases {
		out, failed := got[2*i], got[2*i+1]
		if (failed != "") != (c.want == "!") || failed == "" && out != c.want || failed != "" && out != "" {
			t.Errorf("%d %s: %q, %s; want %q", i, c.do, out, failed, c.want)
		}
	}
	for at, want := range map[string]string{"src/a.txt": "alpha", "one/file.txt": "one", "out/kept/k.txt": "kept",
		"out/kept/keys/key": "secret"} {
		if b, err := os.ReadFile(g.at(at)[0]); string(b) != want {
			t.Errorf("%s is %q, %v", at, b, err)
		}
	}
}

// Without a grant there is no file at all, and no other descriptor than the three.
func TestNoFiles(t *testing.T) {
	g := newGround(t)
	for _, root := range []string{"", g.project} {
		for _, do := range []string{"read src/a.txt", "read /", "list /", "write /x y", "read " + g.out + "/secret"} {
			a := action(t, "", strings.Fields(do)...)
			a.Config["root"] = root
			if r := run(t, a, nil); !r.Failed {
				t.Errorf("root %q: %s: %+v", root, do, r)
			}
		}
		a := action(t, "", "fds")
		a.Config["root"] = root
		if r := run(t, a, nil); r.Value != "" {
			t.Errorf("root %q: it has the files %q", root, r.Value)
		}
	}
	if r := run(t, g.grant(action(t, "", "fds")), nil); r.Value != "3" {
		t.Errorf("with a grant it has the files %q", r.Value)
	}
}

// The view alone holds, where no sandbox of a system does.
func TestView(t *testing.T) {
	g := newGround(t)
	if err := os.Symlink(filepath.Join("..", "..", "secret"), g.at("src/out")[0]); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"out/dir": g.project, "out/top": "/", "out/near": "old.txt",
		"out/into": "kept/keys", "src/dir": "deep", "out/lost": "none"} {
		if err := os.Symlink(to, g.at(from)[0]); err != nil {
			t.Fatal(err)
		}
	}
	v := newView(g.plan())
	defer v.close()
	const write = experimentalsys.O_RDWR | experimentalsys.O_CREAT | experimentalsys.O_TRUNC
	for _, name := range []string{
		"../secret", "..", "src/../../secret", "/etc/passwd", "", "src/./a.txt", "src//a.txt", "src/a.txt/",
		"src/a.txt/x",
		"src/out", "src/dir/b.txt", "out/dir/secret",
		"out/top/etc/passwd", "out/near", "out/into/key", "out/lost", "out/kept/keys", "out/kept/keys/key",
		"one/two.txt",
		"secret", "none", "out/dir",
	} {
		for _, flag := range []experimentalsys.Oflag{0, experimentalsys.O_DIRECTORY, write, experimentalsys.O_WRONLY,
			write | experimentalsys.O_EXCL, experimentalsys.O_APPEND | experimentalsys.O_WRONLY} {
			if f, no := v.OpenFile(name, flag, 0o600); no == 0 {
				t.Errorf("%q with %b was opened: %+v", name, flag, f)
			}
		}
		if _, no := v.Stat(name); no == 0 {
			t.Errorf("%q is there", name)
		}
		if v.Mkdir(name, 0o700) == 0 || v.Rmdir(name) == 0 {
			t.Errorf("%q was made a directory, or removed", name)
		}
	}
	for _, name := range []string{"src", "out", "one", "out/kept", "."} {
		if st, no := v.Stat(name); no != 0 || !st.Mode.IsDir() {
			t.Errorf("%q: %v, %v", name, st.Mode, no)
		}
		if _, no := v.OpenFile(name, write, 0o600); no != experimentalsys.EISDIR && no != experimentalsys.EACCES {
			t.Errorf("%q was opened to be written: %v", name, no)
		}
		if v.Rename(name, "out/new") == 0 || v.Rename("out/old.txt", name) == 0 || v.Unlink(name) == 0 ||
			v.Rmdir(name) == 0 {
			t.Errorf("%q was renamed or removed", name)
		}
	}
	if st, no := v.Lstat("src/out"); no != 0 || st.Mode&fs.ModeSymlink == 0 {
		t.Errorf("a link: %v, %v", st.Mode, no)
	}
	if no := v.Symlink("a", "out/b"); no == 0 {
		t.Error("a link was made")
	}
	if no := v.Unlink("out/lost"); no != 0 || there(g.at("out/lost")[0]) {
		t.Errorf("a link isn't removed: %v", no)
	}
	if v.Unlink("out/old.txt") != 0 || v.Mkdir("out/made", 0o700) != 0 || v.Unlink("out/made") == 0 ||
		v.Rmdir("out/made") != 0 || v.Mkdir("out/none/x", 0o700) == 0 {
		t.Error("what may be removed isn't, or is in another way")
	}
	for _, l := range []string{"src/a.txt", "one/file.txt", "out/kept/k.txt", "out/kept/keys/key"} {
		if b, err := os.ReadFile(g.at(l)[0]); err != nil || len(b) == 0 {
			t.Errorf("%s: %q, %v", l, b, err)
		}
	}
}

// A file does what a module asks, and no more.
func TestFile(t *testing.T) {
	g := newGround(t)
	v := newView(g.plan())
	defer v.close()
	f, no := v.OpenFile("out/old.txt", experimentalsys.O_RDWR|experimentalsys.O_APPEND, 0)
	if no != 0 {
		t.Fatal(no)
	}
	if n, no := f.Write([]byte("ab")); n != 2 || no != 0 {
		t.Error(n, no)
	}
	if f.Truncate(-1) != experimentalsys.EINVAL || f.Truncate(11) != 0 || f.Datasync() != 0 || f.Close() != 0 {
		t.Error("it isn't cut, or not written, or not closed")
	}
	if b, _ := os.ReadFile(g.at("out/old.txt")[0]); string(b) != "0123456789a" {
		t.Errorf("%q", b)
	}
	if no := v.Mkdir("out/old.txt/x", 0o700); no != experimentalsys.ENOTDIR {
		t.Error(no)
	}
	if f, no := v.OpenFile("one/file.txt/", 0, 0); no == 0 {
		t.Error(f)
	}
	if no := v.Rename("out/none", "out/new"); no != experimentalsys.ENOENT {
		t.Error(no)
	}
}

// By another name of a file that has a rule of its own one doesn't get around that.
func TestOtherNames(t *testing.T) {
	g := newGround(t)
	if err := os.Link(g.at("one/file.txt")[0], g.at("out/same.txt")[0]); err != nil {
		t.Fatal(err)
	}
	v := newView(g.plan())
	defer v.close()
	if _, no := v.OpenFile("out/same.txt", experimentalsys.O_RDWR, 0); no != experimentalsys.EACCES {
		t.Errorf("a file that may be read was opened to be written by another name: %v", no)
	}
	// Where the machine takes capitals for small letters this is out/kept.
	if _, no := v.OpenFile("out/KEPT/new", experimentalsys.O_RDWR|experimentalsys.O_CREAT, 0o600); no == 0 ||
		there(g.at("out/kept/new")[0]) {
		t.Errorf("%v", no)
	}
}

// What is put in the way after the view was opened leads nowhere.
func TestSwapped(t *testing.T) {
	g := newGround(t)
	v := newView(g.plan())
	defer v.close()
	swap := func(name, to string) {
		t.Helper()
		at := g.at(name)[0]
		if err := os.Rename(at, at+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	swap("src/deep", g.out)
	swap("src/a.txt", filepath.Join(g.out, "secret"))
	swap("one/file.txt", filepath.Join(g.out, "secret"))
	for _, name := range []string{"src/deep/secret", "src/a.txt", "one/file.txt"} {
		if f, no := v.OpenFile(name, 0, 0); no == 0 {
			t.Errorf("%q was opened: %v", name, f)
		}
	}
	// What was granted is the directory that stood there, not the name.
	swap("src", g.out)
	if f, no := v.OpenFile("src/a.txt.old", 0, 0); no != 0 {
		t.Errorf("what was granted is gone: %v, %v", f, no)
	}
	// And one that was swapped before is not opened.
	w := newView(g.plan())
	defer w.close()
	if _, no := w.OpenFile("src/secret", 0, 0); no == 0 {
		t.Error("a link was taken for what was granted")
	}
}

// What is said of a directory that the root is in holds for the root.
func TestAbove(t *testing.T) {
	g := newGround(t)
	for name, c := range map[string]struct {
		p    plan
		want string
	}{
		"read":        {plan{Read: []string{g.out}}, "r"},
		"write":       {plan{Write: []string{g.out}}, "rw"},
		"deny nearer": {plan{Write: []string{filepath.Dir(g.out)}, Deny: []string{g.out}}, ""},
		"own":         {plan{Read: []string{g.project}, Write: []string{g.out}}, "r"},
		"nothing":     {plan{Read: []string{filepath.Join(g.out, "secret")}}, ""},
	} {
		c.p.Root = g.project
		v := newView(&c.p)
		got := ""
		if _, no := v.OpenFile("src/a.txt", experimentalsys.O_RDONLY, 0); no == 0 {
			got += "r"
		}
		if _, no := v.OpenFile("src/a.txt", experimentalsys.O_RDWR, 0); no == 0 {
			got += "w"
		}
		if got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
		v.close()
	}
}

// A listing comes in pieces, and anew.
func TestListing(t *testing.T) {
	g := newGround(t)
	v := newView(g.plan())
	defer v.close()
	for name, want := range map[string][]string{"src": {"a.txt", "deep"}, "one": {"file.txt"},
		".": {"one", "out", "src"}, "out/kept": {"k.txt", "open"}} {
		f, no := v.OpenFile(name, experimentalsys.O_DIRECTORY, 0)
		if no != 0 {
			t.Fatalf("%s: %v", name, no)
		}
		for range 2 {
			var got []string
			for {
				some, no := f.Readdir(1)
				if no != 0 || len(some) == 0 {
					break
				}
				got = append(got, some[0].Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q; want %q", name, got, want)
			}
			if _, no := f.Seek(0, 0); no != 0 {
				t.Errorf("%s: %v", name, no)
			}
		}
		if _, no := f.Read(make([]byte, 1)); no != experimentalsys.EISDIR {
			t.Errorf("%s was read: %v", name, no)
		}
		if st, no := f.Stat(); no != 0 || !st.Mode.IsDir() {
			t.Errorf("%s: %v, %v", name, st, no)
		}
		if no := f.Close(); no != 0 {
			t.Errorf("%s: %v", name, no)
		}
	}
}

// FuzzView holds any name, opened in any way, to what was granted.
func FuzzView(f *testing.F) {
	for _, s := range []string{"src/a.txt", "../secret", "out/x", "out/kept/keys/key", "out/kept/k.txt",
		"out/../secret", "one/two.txt", "/", "", "\x00", "src/\xff", "OUT/x"} {
		f.Add(s, uint16(0))
		f.Add(s, uint16(experimentalsys.O_WRONLY|experimentalsys.O_CREAT))
		f.Add(s, uint16(experimentalsys.O_RDWR|experimentalsys.O_TRUNC))
	}
	const changing = experimentalsys.O_RDWR | experimentalsys.O_WRONLY | experimentalsys.O_TRUNC |
		experimentalsys.O_APPEND
	g := newGround(f)
	v := newView(g.plan())
	f.Fuzz(func(t *testing.T, name string, how uint16) {
		file, no := v.OpenFile(name, experimentalsys.Oflag(how), 0o600)
		if no != 0 {
			return
		}
		defer file.Close()
		within := func(tops ...string) bool {
			return slices.ContainsFunc(tops, func(top string) bool {
				return strings.HasPrefix(path.Clean(name)+"/", top+"/")
			})
		}
		if name != "." && name != "one" && !within("src", "out", "one/file.txt") || within("out/kept/keys") {
			t.Fatalf("%q was opened", name)
		}
		folder, _ := file.IsDir()
		if !folder && experimentalsys.Oflag(how)&changing != 0 &&
			(!within("out") || within("out/kept") && !within("out/kept/open")) {
			t.Fatalf("%q was opened to be changed", name)
		}
		b := make([]byte, 10)
		if n, no := file.Read(b); no == 0 && strings.Contains(string(b[:n]), "secret") {
			t.Fatalf("%q: %s", name, b)
		}
	})
}

// TestErrno: a module gets an error of WASI, whatever the host calls it.
func TestErrno(t *testing.T) {
	for _, c := range []struct {
		err  error
		want experimentalsys.Errno
	}{
		{nil, 0}, {errLink, experimentalsys.ELOOP}, {&fs.PathError{Err: fs.ErrPermission}, experimentalsys.EACCES},
		{fs.ErrNotExist, experimentalsys.ENOENT},
		{fs.ErrExist, experimentalsys.EEXIST}, {experimentalsys.ENOTDIR, experimentalsys.ENOTDIR},
		{errors.New("other"), experimentalsys.EIO},
	} {
		if got := errno(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestNoModule: a directory is no module, nor is a file that is missing.
func TestNoModule(t *testing.T) {
	dir := t.TempDir()
	if err := readModule(dir, io.Discard); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Error(err)
	}
	if err := readModule(filepath.Join(dir, "none"), io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
