package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes files below a new directory; a name that ends with / is a directory.
func tree(t *testing.T, names ...string) string {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		path := filepath.Join(base, n)
		if strings.HasSuffix(n, "/") {
			err = os.MkdirAll(path, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return base
}

// shown lists the rules and mounts below a directory.
func shown(v *view, base string) (list []string) {
	for _, r := range v.rules {
		if path, ok := strings.CutPrefix(string(r.Path), base); ok {
			how := map[bool]string{false: "read ", true: "write "}[r.Write]
			if r.NoExec {
				how = "data "
			}
			list = append(list, how+path)
		}
	}
	for _, m := range v.mounts {
		list = append(list, []string{"mount-write ", "mount-read ",
			"mount-hide ", "mount-data "}[m.How]+strings.TrimPrefix(string(m.Path), base))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestView(t *testing.T) {
	base := tree(t, "p/.ai/tools/t", "p/.ai/outputs/", "p/.ai/keys/k", "p/src/a", "p/b", "r/x", "r/s/k", "r/s/y")
	if err := os.Symlink("b", base+"/p/link"); err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) (list []string) {
		for _, n := range names {
			list = append(list, base+"/"+n)
		}
		return list
	}
	for _, c := range []struct {
		name          string
		spec          Spec
		rules, mounts string
	}{
		{"one of each", Spec{Read: in("r"), Write: in("p")}, "read /r, write /p", "mount-write /p, read /r, write /p"},
		{"read-only inside", Spec{Read: in("p/.ai"), Write: in("p", "p/.ai/outputs")},
			"read /p, read /p/.ai, write /p/.ai/outputs, write /p/b, write /p/src",
			"mount-read /p/.ai, mount-write /p, mount-write /p/.ai/outputs, read /p/.ai, write /p, write /p/.ai/outputs"},
		{"denied inside", Spec{Read: in("r"), Deny: in("r/s/k")}, "read /r/s/y, read /r/x",
			"mount-hide /r/s/k, read /r"},
		{"denied directory", Spec{Read: in("r"), Deny: in("r/s")}, "read /r/x", "mount-hide /r/s, read /r"},
		{"denied that isn't there", Spec{Write: in("p"), Deny: in("p/new"), Read: in("p/.ai")},
			"read /p/.ai, write /p/b, write /p/src",
			"mount-write /p, read /p/.ai, write /p/b, write /p/src"},
		{"given below denied", Spec{Read: in("r", "r/s/y"), Deny: in("r/s")}, "read /r/s/y, read /r/x",
			"read /r/s/y, read /r/x"},
		{"denied and given", Spec{Read: in("r"), Write: in("r"), Deny: in("r")}, "", ""},
		{"read and write", Spec{Read: in("r"), Write: in("r")}, "write /r", "mount-write /r, write /r"},
		{"data", Spec{Data: in("r")}, "data /r", "data /r, mount-data /r"},
		{"data in what is read", Spec{Read: in("r"), Data: in("r/s")}, "data /r/s, read /r/x",
			"data /r/s, mount-data /r/s, read /r"},
		{"data in what is written", Spec{Write: in("p"), Data: in("p/src")}, "data /p/src, write /p/.ai, write /p/b",
			"data /p/src, mount-data /p/src, mount-write /p, write /p"},
		{"data in what is denied", Spec{Deny: in("p"), Data: in("p/src")}, "data /p/src",
			"data /p/src, mount-data /p/src"},
		{"data with something denied", Spec{Data: in("r"), Deny: in("r/s/k")}, "data /r/s/y, data /r/x",
			"data /r, mount-data /r, mount-hide /r/s/k"},
		{"a file", Spec{Write: in("p/b")}, "write /p/b", "mount-write /p/b, write /p/b"},
	} {
		for mayMount, want := range map[bool]string{false: c.rules, true: c.mounts} {
			v, err := newView(c.spec, mayMount)
			if err != nil {
				t.Errorf("%s, %v: %v", c.name, mayMount, err)
				continue
			}
			if got := strings.Join(shown(v, base), ", "); got != want {
				t.Errorf("%s, %v:\n %s\nwant\n %s", c.name, mayMount, got, want)
			}
		}
	}
	for path, want := range map[string]string{
		"/": "can't be given", "/proc": "can't be given", "/sys/kernel": "can't be given",
		"/dev/kvm": "can't be given", "r": "clean absolute",
		base + "/r/../r": "clean absolute", base + "/none": "no such file",
		base + "/p/link": "name " + base + "/p/b instead", base + "/a\x00": "clean",
	} {
		_, err := newView(Spec{Read: []string{path}}, false)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%q ", path)) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// TestDataAlone: what is in Data would be executable in another list.
func TestDataAlone(t *testing.T) {
	base := tree(t, "d/a")
	for _, s := range []Spec{{Read: []string{base + "/d/a"}}, {Write: []string{base + "/d/a"}}} {
		s.Data = []string{base + "/d"}
		if _, err := newView(s, true); err == nil || !strings.Contains(err.Error(), "in another way") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A directory with too many entries to leave some out is refused.
func TestSplitBound(t *testing.T) {
	base := tree(t, "d/secret")
	for i := range maxSplit + 1 {
		if err := os.Mkdir(fmt.Sprintf("%s/d/%d", base, i), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, err := newView(Spec{Read: []string{base + "/d"}, Deny: []string{base + "/d/secret"}}, false)
	if err == nil || !strings.Contains(err.Error(), "too many entries") {
		t.Error(err)
	}
}

// Of PATH those directories stay that a program sees something of, and it is never empty.
func TestPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own, other, link := filepath.Join(dir, "own"), filepath.Join(dir, "own-not"), filepath.Join(dir, "link")
	err = errors.Join(os.MkdirAll(filepath.Join(own, "bin"), 0o700), os.Mkdir(other, 0o700),
		os.Symlink("own/bin", link))
	if err != nil {
		t.Fatal(err)
	}
	v, err := newView(Spec{Read: []string{own}}, false)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		other + ":" + own + "/bin:" + dir + "/gone:" + link + ":/usr/bin:/bin:" + dir: own + "/bin:" + link +
			":/usr/bin:/bin:" + dir,
		other: other, "": "",
	} {
		env := []string{"A=" + other, "PATH=" + path}
		if got := v.path(env); !slices.Equal(got, []string{"A=" + other, "PATH=" + want}) || env[1] != "PATH="+path {
			t.Errorf("%q: %q, %q", path, got, env)
		}
	}
}
