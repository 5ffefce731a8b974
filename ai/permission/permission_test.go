package permission_test

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/permission"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

const aliases = `
aliases:
  - {id: rye/file-system/fs_read, tools: [rye/file-system/read]}
  - {id: rye/file-system/fs_write, tools: [rye/file-system/write]}
`

func read(t testing.TB, text string) (*permission.Definitions, error) {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{})
	for _, p := range problems {
		t.Fatalf("%s: %v", text, p)
	}
	return permission.Read(v)
}

func parsed(t testing.TB, text string) capability.Capability {
	t.Helper()
	c, err := capability.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExpand(t *testing.T) {
	d, err := permission.Library()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"rye.execute.tool.rye.file-system.fs_write":  "execute:tool:rye/file-system/fs_write execute:tool:rye/file-system/write",
		"rye.load.tool.rye.file-system.fs_read":      "load:tool:rye/file-system/fs_read load:tool:rye/file-system/read",
		"rye.execute.tool.rye.file-system.*":         "execute:tool:rye/file-system/*",
		"rye.load.knowledge.rye.file-system.fs_read": "load:knowledge:rye/file-system/fs_read",
		"rye.*": "*:*:*",
	} {
		var got []string
		for _, c := range d.Expand([]capability.Capability{parsed(t, text)}) {
			got = append(got, c.String())
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s; want %s", text, s, want)
		}
	}
	if got := d.Tools("rye/file-system/fs_read"); len(got) != 1 || d.Tools("rye/file-system/read") != nil {
		t.Errorf("%v", got)
	}
}

// TestNarrow: config takes from permissions, and gives nothing.
func TestNarrow(t *testing.T) {
	d, err := read(t, aliases+`
narrow:
  - {id: files, capability: "execute:tool:rye/file-system/*", to: ["execute:tool:rye/file-system/read", "execute:tool:rye/file-system/ls"]}
  - {id: nothing, capability: rye.execute.tool.rye.bash.bash, to: []}
  - {id: fewer, capability: "execute:*:*", to: ["execute:tool:rye/*", "execute:tool:acme/*"]}
`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"execute:tool:rye/file-system/read": "", "execute:tool:rye/file-system/write": "files",
		"execute:tool:rye/bash/bash": "nothing", "execute:tool:acme/x": "",
		"execute:directive:acme/x": "fewer", "load:tool:rye/bash/bash": "", "execute:tool:other/x": "fewer",
	} {
		if got := d.Refuses(parsed(t, text)); got != want {
			t.Errorf("%s: %q; want %q", text, got, want)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, c := range [][2]string{
		{"{}", "only the library has aliases"},
		{"aliases: [{id: rye/file-system/read, tools: [rye/bash/bash]}]", "only the library has aliases"},
		{aliases + "  - {id: mine, tools: [rye/bash/bash]}\n", "only the library has aliases"},
		{aliases + "narow: []\n", `unknown key "narow"`},
		{aliases + "narrow: {}\n", "narrow: expected a list"},
		{aliases + "narrow: [{id: x, capability: rye.bash}]\n", "narrow[0]: capability"},
		{aliases + "narrow: [{id: x, capability: 'execute:tool:a', to: [x]}]\n", "narrow[0]: capability"},
		{aliases + "narrow: [{id: x, capability: 'execute:tool:a/*', to: ['execute:tool:b']}]\n",
			"execute:tool:b is not covered by execute:tool:a/*: config can only narrow"},
		{aliases + "narrow: [{id: x, capability: 'execute:tool:a', to: ['execute:tool:*']}]\n",
			"config can only narrow"},
		{aliases + "narrow: [{capability: 'execute:tool:a'}]\n", "narrow[0]: expected an object with an id"},
		{aliases + "narrow: [{id: x, capability: 'execute:tool:a', from: x}]\n", `narrow[0]: unknown key "from"`},
	} {
		text, want := c[0], c[1]
		if _, err := read(t, text); fault.CodeOf(err) != fault.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	if d, err := read(t, aliases); err != nil || d.Refuses(parsed(t, "execute:tool:a")) != "" {
		t.Error(err)
	}
}

// FuzzRead: no config makes a call possible that was not.
func FuzzRead(f *testing.F) {
	f.Add(aliases+"narrow: [{id: x, capability: 'execute:tool:a/*', to: ['execute:tool:a/b']}]\n", "execute:tool:a/b")
	f.Fuzz(func(t *testing.T, text, need string) {
		v, problems := parse.YAML([]byte(text), value.Pos{})
		c, err := capability.Parse(need)
		if len(problems) > 0 || v == nil || err != nil {
			return
		}
		d, err := permission.Read(v)
		if err != nil {
			return
		}
		d.Refuses(c)
		library, err := permission.Library()
		if err != nil {
			t.Fatal(err)
		}
		given, were := d.Expand([]capability.Capability{c}), library.Expand([]capability.Capability{c})
		if len(given) != len(were) {
			t.Errorf("%v expands to %v", c, given)
		}
	})
}
