package fetch

import (
	"net/url"
	"strings"
	"testing"
)

func TestLinks(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	const base = "https://pypi.acme.example/simple/x/"
	for text, want := range map[string]string{
		`<a href="x-1-py3-none-any.whl#sha256=` + sum + `">x</a>`: base +
			"x-1-py3-none-any.whl",
		`<A rel=internal HREF='../../f/x.whl#sha256=` + sum +
			`'>`: "https://pypi.acme.example/f/x.whl",
		"<a\n data-x\n href = https://files.example/x.whl?a=1&amp;b=2#sha256=" + sum +
			">": "https://files.example/x.whl?a=1&b=2",
		`<a data-y="href=>" href="x.whl#sha256=` + sum + `" href="y.whl">`: base + "x.whl",
		`<a/href="x.whl#sha256=` + sum + `">`:                              base + "x.whl",
		`<a href="http://files.example/x.whl#sha256=` + sum + `">`:         "",
		`<a href="x.whl#md5=` + sum + `">`:                                 "",
		`<a href="x.whl#sha256=AB">`:                                       "",
		`<a href="%zz#sha256=` + sum + `">`:                                "",
		`<!-- <a href="x.whl#sha256=` + sum + `"> -->`:                     "",
		`<abbr href="x.whl#sha256=` + sum + `">`:                           "",
		`<a href="x.whl#sha256=` + sum:                                     "",
		`<a href`:                                                          "", `<a href=`: "", `<a =x>`: "", `<`: "",
		`<a`: "",
	} {
		got := ""
		for _, at := range links(text, base) {
			got = at.at
		}
		if got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	if len(links("<a href=x>", "%zz")) != 0 {
		t.Error("a page that stands nowhere has links")
	}
}

func TestWheelTags(t *testing.T) {
	for name, want := range map[string]string{
		"a_b-1.0-py3-none-any.whl":                 "py3-none-any",
		"A.B-1.0-1build-cp312-cp312-win_amd64.whl": "1build-cp312-cp312-win_amd64",
		"a_b-1.0-py3-none-any.zip":                 "", "a_b-1.0-py3-none.whl": "", "c-1.0-py3-none-any.whl": "",
		"a_b-2.0-py3-none-any.whl": "", "a_b-1-py3-none-any.whl": "py3-none-any", "a_b-1.0-1-2-py3-none-any.whl": "",
		"":                         "",
		"a_b-1.0-py3-none-a:y.whl": "", "a_b-1.0---.whl": "",
		"a_b-1.0-py3-none-" + strings.Repeat("a", 120) + ".whl": "",
	} {
		if got := wheelTags("a-b", "1.0", name); got != want {
			t.Errorf("%q: got %q", name, got)
		}
	}
}

// FuzzLinks: whatever a page says, it leads to https addresses alone, under digests.
func FuzzLinks(f *testing.F) {
	f.Add(`<!DOCTYPE html><a href="x-1-py3-none-any.whl#sha256=` + strings.Repeat("ab", 32) + `" data-x='y'>x</a>`)
	f.Add(`<a href=//x#sha256=` + strings.Repeat("0", 64) + `>`)
	f.Add(`<a <a href="<!--`)
	f.Fuzz(func(t *testing.T, text string) {
		for sum, at := range links(text, "https://pypi.acme.example/simple/x/") {
			u, err := url.Parse(at.at)
			if err != nil || u.Scheme != "https" || u.Fragment != "" || len(sum) != len("sha256:")+64 ||
				strings.Contains(at.name, "/") && at.name != "/" {
				t.Errorf("%q leads to %+v", sum, at)
			}
		}
	})
}
