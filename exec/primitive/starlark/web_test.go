package starlark

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	star "go.starlark.net/starlark"
)

// called calls a function of a module.
func called(module star.Value, name string, args ...string) (star.Value, error) {
	f, err := module.(star.HasAttrs).Attr(name)
	if err != nil {
		return nil, err
	}
	var tuple star.Tuple
	for _, a := range args {
		tuple = append(tuple, star.String(a))
	}
	return star.Call(new(star.Thread), f, tuple, nil)
}

func TestTokens(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	for text, want := range map[string]string{
		"":          `[]`,
		"a &amp; b": `[("text", "a & b")]`,
		"<!DOCTYPE html><!-- no --><P Class=x class=y ID='a&quot;b'>t</P >": `[("start", "p", {"class": "x", "id": "a\"b"}), ("text", "t"), ("end", "p")]`,
		"<br/><img src=x>":           `[("alone", "br", {}), ("start", "img", {"src": "x"})]`,
		"<script><p>1 < 2</script>x": `[("start", "script", {}), ("text", "<p>1 < 2"), ("end", "script"), ("text", "x")]`,
		"1 < 2 <":                    `[("text", "1 < 2 <")]`,
		"<p":                         `[]`,
		"a\xffb<x\xff y\xff=\xff>": `[("text", "a` + "\ufffd" + `b"), ("start", "x` + "\ufffd" + `", {"y` +
			"\ufffd" + `": "` + "\ufffd" + `"})]`,
		"\xff\xfe": `[("text", "` + "\ufffd" + `")]`,
	} {
		got, err := called(pages(), "tokens", text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, " a%d=1", i)
	}
	got, err := called(pages(), "tokens", "<p"+many.String()+">")
	if err != nil || got.(*star.List).Index(0).(star.Tuple)[2].(*star.Dict).Len() != maxAttributes {
		t.Errorf("%v, %v", got, err)
	}
	if _, err = called(pages(), "tokens", strings.Repeat("</p>", MaxTokens)); err != nil {
		t.Error(err)
	}
	if _, err = called(pages(), "tokens", strings.Repeat("</p>", MaxTokens)+"x"); err == nil ||
		!strings.Contains(err.Error(), "more than 1048576 tokens") {
		t.Error(err)
	}
	if _, err = called(pages(), "tokens"); err == nil {
		t.Error("without a text")
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct{ base, ref, want string }{
		{"https://h/a/b?c", "d", `"https://h/a/d"`}, {"https://h/a/b", "../../x?y=1#z", `"https://h/x?y=1#z"`},
		{"https://h/a", "//o/p", `"https://o/p"`},
		{"https://h/a", "mailto:a@b", `"mailto:a@b"`}, {"https://h/a", "", `"https://h/a"`},
		{"https://h/a", "%zz", "None"}, {"%zz", "a", "None"},
	} {
		if got, err := called(addresses(), "join", c.base, c.ref); err != nil || got.String() != c.want {
			t.Errorf("%s and %s: %v, %v; want %s", c.base, c.ref, got, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"//h.example/l/?a=b%2Fc&a=2&d=1+2&&=x&e&%zz=1&f=%zz": `struct(host = "h.example", path = "/l/", query = {"a": "b/c", "d": "1 2", "e": ""}, scheme = "")`,
		"HTTPS://h:1/%41%ff": `struct(host = "h:1", path = "/A` + "\ufffd" + `", query = {"": ""}, scheme = "https")`,
		"%zz":                "None",
	} {
		want = strings.Replace(want, `{"": ""}`, "{}", 1)
		if got, err := called(addresses(), "parse", text); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, name := range []string{"join", "parse"} {
		if _, err := called(addresses(), name); err == nil {
			t.Errorf("%s without anything", name)
		}
	}
}

// FuzzTokens: whatever a page is, its tokens are of the kinds there are, and text.
func FuzzTokens(f *testing.F) {
	for _, s := range []string{"<p a=b c='d' e>t</p><br/>", "<script>x</script", "<!--", "<![CDATA[x]]>",
		"<svg><title>", "&#0;&#x110000;&amp", "<a\x00b \xff=1>", "<plaintext><p>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := called(pages(), "tokens", text)
		if err != nil {
			t.Fatal(err)
		}
		list := v.(*star.List)
		if list.Len() > len(text) {
			t.Errorf("%d tokens of %d bytes", list.Len(), len(text))
		}
		for i := range list.Len() {
			token := list.Index(i).(star.Tuple)
			kind, size := string(token[0].(star.String)), 2
			if kind == "start" || kind == "alone" {
				size = 3
			} else if kind != "text" && kind != "end" {
				t.Errorf("a %s", kind)
			}
			if len(token) != size || !utf8.ValidString(token.String()) {
				t.Errorf("%v", token)
			}
		}
		if _, err := called(addresses(), "parse", text); err != nil {
			t.Error(err)
		}
		if _, err := called(addresses(), "join", "https://h.example/a/b", text); err != nil {
			t.Error(err)
		}
	})
}
