package sign_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/sign"
)

var long = strings.Repeat("x", 1000)

// At @ the lines stand.
var places = map[sign.Style][]string{
	sign.Hash: {
		"@x = 1\n", "@", "@x", "@\n", "@\r\n", "@x\r\n", "\ufeff@", "\ufeff@x\n", "@\ufffe", "@\x00\xff",
		"#!/bin/sh\n@echo\n", "#!/bin/sh\r\n@echo\r\n", "#!/bin/sh\n@", "#!/bin/sh\n@\n", "#!\n@",
		"\ufeff#!/bin/sh\n@", "@ #!/bin/sh\n", "@\n#!/bin/sh\n",
		"#! rye\rx\n@", "#!/bin/sh\n@# the next line restarts it \\\nexec tclsh $0\n", "#!/bin/sh \\ \n@x\n",
		"#!/bin/sh \\\n# coding: x\n@x\n", "@# \\\nx\n",
		"# -*- coding: utf-8 -*-\n@x\n", "#!/bin/sh\n# coding: utf-8\n@x\n", "#!/bin/sh\r\n# coding: utf-8\r\n@x\n",
		"\ufeff#!/bin/sh\n#coding=utf-8\n@",
		"# vim: set fileencoding=latin-1 :\n@x\n", "# hi\n# vim: set fileencoding=latin-1 :\n@x\n",
		"\n\t\f #coding:x\n@", " # hi\n # coding: x\n@",
		"#!/usr/bin/python3 # coding: x\n@# coding: y\n", "# coding:\ty\n@#!/bin/sh\n", "# encoding coding=a\n@",
		"#codingcoding: a\n@",
		"@x = 1\n# coding: utf-8\n", "@# a\n# b\n# coding: utf-8\n", "@# coding\n", "@# coding:\n", "@# coding : x\n",
		"@coding: x\n", "@# coding: é\n",
		"#!/bin/sh\n@x\n# coding: utf-8\n", "#!/bin/sh\n@\n# coding: utf-8\n",
		"---\n@a: 1\n---\nb\n", "---\r\n@a: 1\n", "---\n@", "---\n@---\n", "\ufeff---\n@", "@----\n", "@--- \n",
		"@ ---\n", "@--\n", "@---x", "@\n---\n",
		"---\n@# coding: x\n", "@# a\n---\n", "#!/bin/sh\n@---\n",
		"#!" + long[:997] + "\n@x\n", "@#!" + long[:998] + "\n", "@#!" + long, "@#" + long + "\n# coding: x\n",
		"@# a\n# coding: " + long + "\n",
	},
	sign.Slashes: {
		"@x\n", "@", "@x", "\ufeff@x", "#!/usr/bin/env node\n@x\n", "#!/usr/bin/env node\r\n@x\r\n",
		"#![allow(x)]\n@x\n",
		"@# coding: utf-8\n", "@// coding: utf-8\n", "#!/usr/bin/env node\n@# coding: x\n", "---\n@x\n",
		"---\r\n@x\r\n", "@// ---\n", "@package x\n", "@/* x\n*/\n",
	},
	sign.Angle: {
		"@# Title\n", "@", "@x", "\ufeff@x", "#!/bin/x\n@x\n", "---\n@a: 1\n---\n# Title\n", "---\r\n@a: 1\r\n---\r\n",
		"---\n@",
		"<?xml version=\"1.0\"?>\n@<a/>\n", "<?xml version=\"1.0\"?>\r\n@<a/>\n",
		"\ufeff<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n@",
		"@<?xml version=\"1.0\"?><a/>\n", "@<?xml\n version=\"1.0\"?>\n", "@<?xml-stylesheet href=\"x\"?>\n",
		"@<!DOCTYPE html>\n", "@# coding: utf-8\n", "@\n# coding: utf-8\n",
	},
	sign.Dashes: {
		"@x\n", "@", "@x", "\ufeff@x", "#!/usr/bin/lua\n@x\n", "---\n@x\n", "---\r\n@x\n", "@--- @meta\n", "@-- x\n",
		"@# coding: x\n",
	},
}

var extensions = map[sign.Style]string{
	sign.Hash:    "py sh bash yaml yml toml rb pl tcl star",
	sign.Slashes: "js mjs cjs ts go rs java c",
	sign.Angle:   "md html xml",
	sign.Dashes:  "lua sql",
	sign.NoStyle: "json txt exe p y jsx htm yamll d",
}

var opens = map[sign.Style]string{sign.Hash: "#", sign.Slashes: "//", sign.Angle: "<!--", sign.Dashes: "--"}

func TestStyleOf(t *testing.T) {
	for style, list := range extensions {
		for _, ext := range strings.Fields(list) {
			for _, name := range []string{"." + ext, "a." + ext, "a/b.c/d." + strings.ToUpper(ext)} {
				if got := sign.StyleOf(name); got != style {
					t.Errorf("%s has style %d", name, got)
				}
			}
		}
	}
	for _, name := range []string{"", "py", "a", "a.py/b", "a.py.", "a.py~"} {
		if got := sign.StyleOf(name); got != sign.NoStyle {
			t.Errorf("%s has style %d", name, got)
		}
	}
	for style, open := range opens {
		if got, ok := sign.ParseStyle(open); !ok || got != style {
			t.Errorf("%s is style %d", open, got)
		}
	}
	for _, open := range []string{"", "# ", ";", "%", "/*", "--  "} {
		if _, ok := sign.ParseStyle(open); ok {
			t.Errorf("%q is a style", open)
		}
	}
}

// lineIn returns a line as a comment: in front matter it is YAML's.
func lineIn(style sign.Style, before, line string) string {
	before = strings.TrimPrefix(before, "\ufeff")
	open, end := opens[style], ""
	if style != sign.Dashes && (before == "---\n" || before == "---\r\n") {
		open = "#"
	}
	if open == "<!--" {
		end = " -->"
	}
	return open + " " + line + end + "\n"
}

func TestPlaces(t *testing.T) {
	for style, list := range places {
		for _, text := range list {
			t.Run(fmt.Sprintf("%s%.40q", opens[style], text), func(t *testing.T) {
				before, after, found := strings.Cut(text, "@")
				if style == sign.Dashes && strings.HasPrefix(text, "@--- @") {
					before, after = "", text[1:]
				}
				if !found {
					t.Fatal("no place")
				}
				file := before + after
				signed := mustSign(t, file, style, alice)
				s := mustRead(t, signed, style)
				if want := before + lineIn(style, before, s.Lines[0].String()) + after; string(signed) != want {
					t.Fatalf("got\n%q, want\n%q", signed, want)
				}
				both := mustSign(t, string(signed), style, bob)
				if s := mustRead(t, both, style); len(s.Lines) != 2 {
					t.Errorf("%d lines", len(s.Lines))
				}
				mustCheck(t, both, style, alice, bob)
				if got, err := sign.Strip(both, style); err != nil || string(got) != file {
					t.Errorf("stripped: %q, %v", got, err)
				}
				if !strings.HasPrefix(string(both), before) || !strings.HasSuffix(string(both), after) {
					t.Errorf("got %q", both)
				}
			})
		}
	}
}

func TestNoPlace(t *testing.T) {
	for style, list := range map[sign.Style][]string{
		sign.Hash: {"#!/bin/sh", "#!", "---", "# coding: x", "# a\n# coding: x", "#!/bin/sh\n# coding: x", "\ufeff---",
			"\xff\xfex\x00", "\xfe\xff\x00x",
			"#!/usr/bin/tclsh \\\nexec sh\n", "#!x\\\r\nexec sh\r\n", "# coding: x \\\nexec sh\n",
			"#!/bin/sh\n# coding: x \\\nexec tclsh $0\n", "\ufeff#!\\\n"},
		sign.Slashes: {"#!/bin/node", "#!x \\\nint x;\n", "---", "\xff\xfe"},
		sign.Angle:   {"---", "<?xml ?>", "\ufeff<?xml ?>", "#!x"},
		sign.Dashes:  {"---", "#!/bin/lua", "#!/bin/lua \\\nx\n"},
	} {
		for _, file := range list {
			got, err := sign.Sign([]byte(file), style, claim, alice, now, nil)
			if !says(err, "no place for a signature line: ") {
				t.Errorf("%q: %q, %v", file, got, err)
			}
			// Such a file is unsigned, not broken.
			if _, err := sign.Check(mustRead(t, []byte(file), style), claim, known(alice)); err != sign.ErrUnsigned {
				t.Errorf("%q: %v", file, err)
			}
		}
	}
	_, err := sign.Sign([]byte("{}\n"), sign.StyleOf("a.json"), claim, alice, now, nil)
	if !says(err, "files of this type have no comments, ") {
		t.Errorf("json: %v", err)
	}
	// In a file that can't carry lines, what looks like one is content.
	file := mustSign(t, "{}\n", sign.Hash, alice)
	if s := mustRead(t, file, sign.NoStyle); s.Format != sign.None || s.Stripped != s.Raw {
		t.Errorf("%+v", s)
	}
}

// Lines that stand elsewhere are content, if not where one would look for lines; then they are an error.
func TestElsewhere(t *testing.T) {
	file := string(mustSign(t, "x = 1\n", sign.Hash, alice))
	line, _, _ := strings.Cut(file, "\n")
	for _, content := range []string{"\n" + file, " " + file, "x\n" + file, "# hi\n" + file,
		"#!/bin/sh\nx\n" + line + "\n", "x" + file, "---\nx\n" + line + "\n",
		"#" + line[2:] + "\n", "#  " + line[2:] + "\n", "#\t" + line[2:] + "\n", "// " + line[2:] + "\n",
		"<!-- " + line[2:] + " -->\n", "# rye:signed: yes\n", "# rye:signed:x:\n",
		"# rye:signed:v2\n", "# rye:signed:vx:\n", "# rye:signed:v:\n", "# Rye:signed:v2:\n",
		"# rye:signed:2026-02-18T07:59:34Z:placeholder\n", "# rye:signed:v2:" + long + "\n"} {
		s := mustRead(t, []byte(content), sign.Hash)
		if _, err := sign.Check(s, claim, known(alice)); err != sign.ErrUnsigned || s.Raw != s.Stripped {
			t.Errorf("%q: %v", content, err)
		}
		signed := mustSign(t, content, sign.Hash, bob)
		if got, err := sign.Strip(signed, sign.Hash); err != nil || string(got) != content {
			t.Errorf("%q is stripped to %q, %v", content, got, err)
		}
	}
	for _, content := range []string{line + "\n#!/bin/sh\n", line + "\n---\n", line + "\n# coding: x\n",
		line + "\n# a\n# coding: x\n", line + "\n\ufeffx",
		"#!/bin/sh\n" + line + "\n# coding: x\n", "#!/usr/bin/tclsh \\\n" + line + "\nexec sh\n",
		"# coding: x\\\r\n" + line + "\nx\n", "# a\n# coding: x\\\n" + line + "\nx\n", line + "\n\xff\xfe",
		line + "\n#!/bin/sh"} {
		s, err := sign.ReadBytes([]byte(content), sign.Hash)
		var integrity *sign.IntegrityError
		if !errors.As(err, &integrity) || !strings.Contains(err.Error(), "in the wrong place") {
			t.Errorf("%q: %v", content, err)
		}
		if _, err2 := sign.Check(s, claim, known(alice)); err2 != err {
			t.Errorf("%q: check says %v", content, err2)
		}
	}
}

// says reports whether an error is a refusal that begins so.
func says(err error, text string) bool {
	return err != nil && fault.CodeOf(err) == fault.Validation && strings.HasPrefix(err.Error(), text)
}
