package bundle_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/manifest"
)

// repack replaces a text in the tar stream of an archive.
func repack(t testing.TB, b []byte, old, new string) []byte {
	t.Helper()
	plain, err := plainOf(b)
	if err != nil || !bytes.Contains(plain, []byte(old)) || len(old) != len(new) {
		t.Fatalf("%q isn't there: %v", old, err)
	}
	return frameOf(t, bytes.Replace(plain, []byte(old), []byte(new), 1))
}

func mentions(all []bundle.Mention) (text []string) {
	for _, m := range all {
		text = append(text, m.What+" <- "+strings.Join(m.Paths, " "))
	}
	return text
}

func TestInspect(t *testing.T) {
	p := newPack(t)
	p.files[".ai/tools/acme/hello.sh"].Data = []byte(hello) // needs no signature
	p.make(manifest.FileList{Description: "A demo"}, eve)
	const helloAt, multiAt, runAt = ".ai/tools/acme/hello.sh", ".ai/tools/acme/multi/multi.py", "docs/run.sh"
	for where, src := range p.sources() {
		n, err := bundle.Inspect(t.Context(), src, []*ai.Space{library()}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		want := func(what string, got []bundle.Mention, lines ...string) {
			t.Helper()
			if text := mentions(got); !slices.Equal(text, lines) {
				t.Errorf("%s, %s: got %q, want %q", where, what, text, lines)
			}
		}
		want("executable", n.Executable, "#!/bin/sh -e <- "+runAt, "#!/usr/bin/env bash <- "+helloAt,
			"mode <- "+helloAt, "tool <- "+helloAt+" "+multiAt)
		want("hosts", n.Hosts, "api.example.com <- "+helloAt, "api.example.net <- "+helloAt)
		want("places", n.Places, "../up <- "+helloAt, "/usr/bin/env <- "+helloAt)
		want("secrets", n.Secrets, "acme-token <- "+helloAt)
		want("capabilities", n.Capabilities, "execute:tool:acme/multi <- "+helloAt)
		want("outside", n.Outside, "/bin/sh -e <- "+runAt, "/usr/bin/env bash <- "+helloAt,
			"tool:rye/core/runtimes/bash_runtime <- "+helloAt,
			"tool:rye/core/runtimes/python_script_runtime <- "+multiAt)
		if len(n.Failures) != 0 || len(n.Items) != 3 || n.Bundle.Description != "A demo" {
			t.Errorf("%s: %q, %+v", where, lines(n.Failures), n.Items)
		}
		if h := n.Items[1]; fmt.Sprint(h.Ref, h.Version, h.Type, h.Risk, h.Network,
			h.Executor) != "tool:acme/hello1.0.0shellwriteapi.example.comrye/core/runtimes/bash_runtime" {
			t.Errorf("%s: %+v", where, h)
		}
	}
	b := p.archive()
	n, err := bundle.Inspect(t.Context(), bundle.InArchive(bytes.NewReader(b[:len(b)-5])), nil, t.TempDir())
	if err != nil || len(n.Failures) != 1 || n.Failures[0].Check != bundle.CheckArchive {
		t.Errorf("cut off: %v, %q", err, lines(n.Failures))
	}
	n, err = bundle.Inspect(t.Context(), bundle.InArchive(strings.NewReader("")), nil, "")
	if err != nil || n.Bundle != nil || len(n.Failures) != 1 {
		t.Errorf("nothing: %v, %+v", err, n)
	}
	n, err = bundle.Inspect(t.Context(), bundle.InArchive(bytes.NewReader(repack(t, b, "echo hello", "echo help!"))),
		nil, "")
	if err != nil || len(n.Items) != 2 || len(n.Failures) != 2 {
		t.Errorf("damaged: %v, %q", err, lines(n.Failures))
	}
}

// TestInspectHostile: problems of items are reported.
func TestInspectHostile(t *testing.T) {
	p := newPack(t)
	add := func(name, ref, text string) {
		p.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		p.refs[name] = ref
	}
	const oddAt, configAt, goAt = ".ai/tools/acme/odd.yaml", ".ai/config/web.yaml", ".ai/directives/acme/go.md"
	add(oddAt, "tool:acme/odd 1.0.0", `version: 1.0.0
tool_type: test
executor_id: null
category: acme
description: odd https://no.host.example/
network: all
config: {url: "https://${HOST}/x", again: ["C:\\\\x", "a/../../b", "~/.ssh/id", "//share/x", "/", "http://[::1", "x://", "cat </etc/shadow", "<b>x</b> </b", "</usr/x>"]}
`)
	add(configAt, "config:web", "provider: {url: 'https://search.example:8443/q'}\n")
	add(goAt, "directive:acme/go 1.0.0", `# Go

`+"```xml"+`
<directive name="go" version="1.0.0">
  <metadata>
    <description>Goes</description>
    <category>acme</category>
    <author>me</author>
    <model tier="general" />
    <permissions><execute><tool>acme.hello</tool></execute></permissions>
  </metadata>
</directive>
`+"```"+`
`)
	add(".ai/tools/acme/huge.py", "tool:acme/huge", strings.Repeat("# x\n", 9<<20/4))
	add(".ai/tools/acme/none.yaml", "tool:acme/none", "x: 1\n") // no item at all
	p.make(manifest.FileList{})
	n, err := bundle.Inspect(t.Context(), bundle.InDir(p.dir(), "acme/demo"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	has := func(what string, got []bundle.Mention, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !slices.Contains(mentions(got), line) {
				t.Errorf("%s: %q lacks %q", what, mentions(got), line)
			}
		}
	}
	has("hosts", n.Hosts, "* <- "+oddAt, "${HOST} <- "+oddAt, "search.example:8443 <- "+configAt)
	has("places", n.Places, `C:\\x <- `+oddAt, "a/../../b <- "+oddAt, "~/.ssh/id <- "+oddAt)
	has("places", n.Places, "/etc/shadow <- "+oddAt, "/usr/x <- "+oddAt)
	for _, m := range n.Places {
		if strings.HasPrefix(m.What, "/directive") || slices.Contains(m.Paths, goAt) {
			t.Errorf("the end of an element is no place: %q", mentions(n.Places))
		}
	}
	has("executable", n.Executable, "primitive <- "+oddAt)
	has("capabilities", n.Capabilities, "execute:tool:acme/hello <- "+goAt)
	if strings.Contains(fmt.Sprint(mentions(n.Hosts)), "no.host") ||
		strings.Contains(fmt.Sprint(mentions(n.Hosts)), "not.a.host") {
		t.Errorf("a host that is only spoken of: %q", mentions(n.Hosts))
	}
	if len(n.Failures) != 1 || n.Failures[0].Path != ".ai/tools/acme/huge.py" ||
		n.Failures[0].Check != bundle.CheckItem || n.Failures[0].Unwrap() == nil {
		t.Errorf("failures: %q", lines(n.Failures))
	}
	r := verify(t, bundle.InDir(p.dir(), "acme/demo"), p.options())
	if !slices.ContainsFunc(r.Failures, func(f *bundle.Failure) bool {
		return f.Check == bundle.CheckItem && f.Ref == "tool:acme/huge"
	}) ||
		!slices.ContainsFunc(r.Failures, func(f *bundle.Failure) bool {
			return f.Check == bundle.CheckRef && f.Ref == "tool:acme/none"
		}) {
		t.Errorf("verified: %q", lines(r.Failures))
	}
}
