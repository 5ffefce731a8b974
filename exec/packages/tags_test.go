package packages

import (
	"fmt"
	"testing"
)

var linux311 = &Interpreter{Name: "cpython", Major: 3, Minor: 11, Platforms: []string{
	"manylinux_2_31_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64",
}}

func TestBest(t *testing.T) {
	free := &Interpreter{Name: "cpython", Major: 3, Minor: 14, Threads: true, Platforms: []string{"linux_x86_64"}}
	pypy := &Interpreter{Name: "pypy", Major: 3, Minor: 10, Platforms: []string{"linux_x86_64"}}
	for i, c := range []struct {
		of    *Interpreter
		want  string // "" for none
		names []string
	}{
		{linux311, "a-1-py3-none-any.whl", []string{"a-1-py3-none-any.whl"}},
		{linux311, "a-1-py2.py3-none-any.whl", []string{"a-1-py2.py3-none-any.whl"}},
		{linux311, "", []string{"a-1-py2-none-any.whl", "a-1-py312-none-any.whl", "a-1.tar.gz",
			"a-1-cp311-cp311-win_amd64.whl", "a-1-cp310-cp310-linux_x86_64.whl"}},
		{linux311, "a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", []string{
			"a-1-py3-none-any.whl", "a-1-cp310-abi3-linux_x86_64.whl", "a-1-cp311-cp311-linux_x86_64.whl",
			"a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "a-1-cp311-none-linux_x86_64.whl"}},
		{linux311, "a-1-cp39-abi3-linux_x86_64.whl", []string{"a-1-cp32-abi3-linux_x86_64.whl",
			"a-1-cp39-abi3-linux_x86_64.whl", "a-1-cp3-abi3-linux_x86_64.whl", "a-1-cp312-abi3-linux_x86_64.whl"}},
		{linux311, "a-1-cp32-abi3-linux_x86_64.whl", []string{"a-1-cp32-abi3-linux_x86_64.whl",
			"a-1-cp311-none-linux_x86_64.whl", "a-1-py3-none-any.whl"}},
		{linux311, "a-1-py311-none-linux_x86_64.whl",
			[]string{"a-1-py3-none-linux_x86_64.whl", "a-1-py311-none-linux_x86_64.whl",
				"a-1-py39-none-linux_x86_64.whl"}},
		{linux311, "a-1-cp311-none-any.whl", []string{"a-1-py3-none-any.whl", "a-1-cp311-none-any.whl",
			"a-1-cp310-none-any.whl"}},
		{linux311, "a-1-py3-none-linux_x86_64.whl", []string{"a-1-py3-none-linux_x86_64.whl",
			"a-1-py39-none-linux_x86_64.whl", "a-1-py3-none-any.whl"}},
		{linux311, "a-1-10b-py3-none-any.whl", []string{"a-1-9-py3-none-any.whl", "a-1-10b-py3-none-any.whl",
			"a-1-10a-py3-none-any.whl"}},
		{linux311, "", []string{"a-1-cp3111-none-any.whl", "a-1-ip311-none-any.whl", "a-1-py3-abi3-any.whl",
			"a-1-cp311-cp311-any.whl", "a-1-py9999-none-any.whl", "a-1-py3x-none-any.whl"}},
		{free, "a-1-cp314-cp314t-linux_x86_64.whl", []string{"a-1-cp314-cp314-linux_x86_64.whl",
			"a-1-cp39-abi3-linux_x86_64.whl", "a-1-cp314-cp314t-linux_x86_64.whl"}},
		{free, "", []string{"a-1-cp314-cp314-linux_x86_64.whl", "a-1-cp39-abi3-linux_x86_64.whl"}},
		{pypy, "a-1-py3-none-any.whl", []string{"a-1-cp310-cp310-linux_x86_64.whl", "a-1-cp310-none-any.whl",
			"a-1-py3-none-any.whl"}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			got := ""
			if at := Best(c.names, c.of); at >= 0 {
				got = c.names[at]
			}
			if got != c.want {
				t.Errorf("%q, expected %q", got, c.want)
			}
		})
	}
}

func TestParseWheel(t *testing.T) {
	n, err := ParseWheel("Some.Thing-1.0+cu118-2x-py2.py3-none-any.whl")
	if err != nil || n.Project != "Some.Thing" || n.Version != "1.0+cu118" || n.Build != "2x" || !n.Pure() ||
		folded(n.Project) != "some-thing" {
		t.Errorf("%+v, %v", n, err)
	}
	for _, name := range []string{
		"", ".whl", "a-1-py3-none.whl", "a-1-x-py3-none-any.whl", "a-1-1-2-py3-none-any.whl", "a--py3-none-any.whl",
		"a-1-py3-none-any.tar.gz",
		"dir/a-1-py3-none-any.whl", `dir\a-1-py3-none-any.whl`,
		"a-1-1.1.1.1.1.1.1.1.1.1.1-1.1.1.1.1.1.1.1.1.1.1-1.1.1.1.1.1.1.1.1.1.whl",
	} {
		if n, err := ParseWheel(name); err == nil {
			t.Errorf("%q is %+v", name, n)
		}
	}
}

func FuzzParseWheel(f *testing.F) {
	f.Add("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
	f.Add("a-1-2b-py2.py3-none-any.whl")
	f.Fuzz(func(t *testing.T, name string) {
		n, err := ParseWheel(name)
		if err != nil {
			return
		}
		if at := Best([]string{name}, linux311); n.Pure() && at != 0 {
			t.Errorf("%q is for every Python 3, and not for 3.11", name)
		}
	})
}
