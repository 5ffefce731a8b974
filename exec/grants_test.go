package exec_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/manifest/key"
)

// everything is what a tool declares that wants a bit of everything.
var everything = []string{
	"permissions: [rye.execute.tool.acme.*, rye.load.knowledge.acme.note]",
	"network: [api.example.com, '*.acme.example:443']", "secrets: [token, other]",
	"files: {read: [docs, src/a], write: [out, .ai/outputs]}",
}

// TestGrants: what is declared, as far as every policy and the caller go.
func TestGrants(t *testing.T) {
	const all = `"**": ["rye.*", "files:read:.", "files:write:.", "network:*"]`
	secrets := "exec:\n  secrets: {token: [\"tool:acme/**\"], other: [\"tool:acme/**\"]}\n"
	for name, c := range map[string]struct {
		lines        []string
		bobs         bool
		policy, mine string
		read, write  []string
		hosts        []string // "*" for all
		secrets      []string
		permissions  int
	}{
		"nothing is declared": {lines: []string{}, policy: "grants:\n  " + all + "\n" + secrets},
		"own": {policy: secrets, read: []string{"docs", "src/a"}, write: []string{".ai/outputs", "out"},
			hosts: []string{"*.acme.example:443", "api.example.com"}, secrets: []string{"other", "token"},
			permissions: 2},
		"own, without secrets": {read: []string{"docs", "src/a"}, write: []string{".ai/outputs", "out"},
			hosts: []string{"*.acme.example:443", "api.example.com"}, permissions: 2},
		"a stranger's": {bobs: true, policy: secrets},
		"a stranger's, all is granted": {bobs: true, policy: "grants:\n  " + all + "\n" + secrets,
			read: []string{".ai/outputs", "docs", "out", "src/a"}, write: []string{".ai/outputs", "out"},
			hosts: []string{"*.acme.example:443", "api.example.com"}, secrets: []string{"other", "token"},
			permissions: 2},
		"some is granted": {
			policy: "grants:\n  \"tool:acme/**\": [rye.load.knowledge.acme.*, \"files:read:docs/api\", \"files:write:out/x\", \"files:read:else\", \"network:api.example.com\", \"network:a.acme.example:443\"]\n",
			read:   []string{"docs/api", "out/x"}, write: []string{"out/x"},
			hosts: []string{"a.acme.example:443", "api.example.com"}, permissions: 1},
		"reading is granted": {policy: "grants:\n  \"tool:acme/**\": [\"files:read:out/x\"]\n",
			read: []string{"out/x"}},
		"others are granted": {bobs: true, policy: "grants:\n  \"tool:else/**\": [\"network:*\"]\n"},
		"the project takes away": {policy: secrets,
			mine: "grants:\n  \"tool:acme/x\": [\"network:api.example.com\", \"files:read:.\"]\n",
			read: []string{".ai/outputs", "docs", "out", "src/a"}, hosts: []string{"api.example.com"},
			secrets: []string{"other", "token"}},
		"the project gives nothing": {bobs: true, mine: "grants:\n  " + all + "\n"},
		"no network for anybody": {policy: "exec: {network: none}\n", read: []string{"docs", "src/a"},
			write: []string{".ai/outputs", "out"}, permissions: 2},
		"some network for anybody": {policy: "exec: {network: [b.acme.example]}\n", read: []string{"docs", "src/a"},
			write: []string{".ai/outputs", "out"},
			hosts: []string{"b.acme.example:443"}, permissions: 2},
		"all network": {lines: []string{"network: all"}, hosts: []string{"*"}},
		"all of the project": {lines: []string{"files: {write: ['.']}"}, policy: "grants:\n  " + all + "\n",
			read: []string{"."}, write: []string{"."}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			w := newWorld(t)
			if w.policy = ""; c.policy != "" {
				w.policy = "\n" + c.policy
			}
			if c.mine != "" {
				w.mine = "\n" + c.mine
			}
			w.put(map[string]string{"docs/api/x": "", "src/a/x": "", "out/x/x": "",
				".ai/tools/acme/x.yaml": tool("acme/x", probing,
					append(c.lines, everything[:map[bool]int{true: 4}[c.lines == nil]]...)...)})
			w.signed(x, map[bool]key.Private{false: alice, true: bob}[c.bobs])
			p := w.prepare(call(x, nil))
			g := p.Grants
			hosts := slices.Clone(g.Network.Hosts)
			slices.Sort(hosts)
			if !g.Network.Bound {
				hosts = []string{"*"}
			}
			slices.Sort(g.Secrets)
			for what, pair := range map[string][2][]string{"read": {g.Read, c.read}, "write": {g.Write, c.write},
				"network": {hosts, c.hosts}, "secrets": {g.Secrets, c.secrets}} {
				if !slices.Equal(pair[0], pair[1]) {
					t.Errorf("%s is %q; want %q", what, pair[0], pair[1])
				}
			}
			if got := g.Permissions.Strings(); len(got) != c.permissions {
				t.Errorf("permissions are %q; want %d", got, c.permissions)
			}
			if n := p.Action.Sandbox.Network; n.All == g.Network.Bound || !slices.Equal(n.Hosts, g.Network.Hosts) {
				t.Errorf("the sandbox lets through %+v", n)
			}
		})
	}
}

// TestGrantPatterns: what can't be understood, or may never be granted, is an error and no grant.
func TestGrantPatterns(t *testing.T) {
	for _, pattern := range []string{"files:read:/etc", "files:read:../x", "files:read:", "files:execute:x",
		"files:read", "files:write:.git", "files:write:.ai", "files:write:.AI/tools",
		"files:write:rye.lock", "files:write:rye.yaml", "network:", "network:http://x", "network:a/b"} {
		for _, mine := range []bool{false, true} {
			w := newWorld(t).with("files: {write: ['.']}")
			text := fmt.Sprintf("\ngrants:\n  \"tool:acme/**\": [%q]\n", pattern)
			if mine {
				w.mine = text
			} else {
				w.policy = text
			}
			e := fault.Of(w.refused(call(x, nil)))
			if e.Code != fault.Config || e.Unwrap() == nil ||
				!strings.HasPrefix(e.Text, map[bool]string{false: "your policy", true: "the project's policy"}[mine]) {
				t.Errorf("%s: %v", pattern, e)
			}
		}
	}
}

// TestWithin: two grants together allow what both allow, in either order.
func TestWithin(t *testing.T) {
	none := chain.NoGrants()
	some := chain.NoGrants()
	some.Read, some.Write, some.Secrets, some.Network.Hosts = []string{"a/b"}, []string{"c"}, []string{"s", "t"},
		[]string{"x.example"}
	more := chain.Grants{Read: []string{"a", "c"}, Write: []string{"c/d", "e"}, Secrets: []string{"t"}}
	for _, c := range []struct{ a, b, want chain.Grants }{
		{none, some, none}, {some, none, none},
		{some, more, chain.Grants{Read: []string{"a/b", "c", "c/d"}, Write: []string{"c/d"}, Secrets: []string{"t"},
			Network: some.Network}},
		{more, some, chain.Grants{Read: []string{"a/b", "c", "c/d"}, Write: []string{"c/d"}, Secrets: []string{"t"},
			Network: some.Network}},
		{more, more, chain.Grants{Read: []string{"a", "c", "c/d", "e"}, Write: []string{"c/d", "e"},
			Secrets: []string{"t"}}},
	} {
		got, err := c.a.Within(c.b)
		if err != nil || !slices.Equal(got.Read, c.want.Read) || !slices.Equal(got.Write, c.want.Write) ||
			!slices.Equal(got.Secrets, c.want.Secrets) ||
			got.Network.Bound != c.want.Network.Bound || !slices.Equal(got.Network.Hosts, c.want.Network.Hosts) {
			t.Errorf("%+v within %+v is %+v (%v); want %+v", c.a, c.b, got, err, c.want)
		}
	}
}

// TestFiles: a call gets the files of the project that it was granted, as they are there. It gets no missing file, and
// can't write a file that only rye writes.
func TestFiles(t *testing.T) {
	under := func(w *world, list []string) (in []string) {
		for _, p := range list {
			if rel, err := filepath.Rel(w.project, p); err == nil && filepath.IsLocal(rel) {
				in = append(in, filepath.ToSlash(rel))
			}
		}
		slices.Sort(in)
		return in
	}
	for name, c := range map[string]struct {
		files       string
		read, write []string
		bad         string // the path and the error
	}{
		"nothing": {"{}", nil, nil, ""},
		"files and directories": {"{read: [docs, src/a.txt], write: [out]}", []string{"docs", "src/a.txt"},
			[]string{"out"}, ""},
		"what isn't there": {"{read: [docs, none, none/at/all]}", []string{"docs"}, nil, ""},
		"outputs":          {"{write: [.ai/outputs/report/x]}", nil, []string{".ai/outputs/report/x"}, ""},
		"everything":       {"{read: ['.']}", []string{"."}, nil, ""},
		"everything, to write": {"{write: ['.']}", []string{".ai", ".git", "rye.lock", "rye.yaml"},
			[]string{".", ".ai/outputs"}, ""},
		"missing, to write":      {"{write: [none/x]}", nil, nil, `"none/x" does not exist: create it first`},
		"half missing, to write": {"{write: [out/x]}", nil, nil, `"out/x" does not exist: create it first`},
	} {
		w := newWorld(t)
		w.put(map[string]string{"docs/x": "", "src/a.txt": "", "out/y": "", "note.txt": "", "rye.yaml": "{}\n",
			"rye.lock": "", ".git/config": ""})
		w.with("files: " + c.files)
		if c.bad != "" {
			e := fault.Of(w.refused(call(x, nil)))
			if e.Code != fault.Denied || !strings.Contains(e.Text, c.bad) || e.Unwrap() == nil {
				t.Errorf("%s: %v", name, e)
			}
			continue
		}
		a := w.prepare(call(x, nil)).Action
		s, f := a.Sandbox, a.Files
		s.Read = append(s.Read, s.Keep...)
		for _, got := range [][2][]string{{s.Read, s.Write}, {f.Read, f.Write}} {
			if read, write := under(w, got[0]), under(w, got[1]); !slices.Equal(read, c.read) ||
				!slices.Equal(write, c.write) {
				t.Errorf("%s: reads %q, writes %q; want %q, %q", name, read, write, c.read, c.write)
			}
		}
		if f.Project != w.project || len(f.Read)+len(f.Write) != len(c.read)+len(c.write) {
			t.Errorf("%s: the files of the project are %+v", name, f)
		}
		if !reflect.DeepEqual(s.Deny, w.kernel.Secret) || len(s.Write) < 2 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	// A call can't create a missing file that only rye writes.
	w := newWorld(t).with("files: {write: ['.']}")
	w.put(map[string]string{"docs/x": "", "note.txt": "", "rye.yaml": "{}\n"})
	s := w.prepare(call(x, nil)).Action.Sandbox
	if keep, write := under(w, s.Keep), under(w, s.Write); !slices.Equal(keep,
		[]string{".ai", ".git", "rye.lock", "rye.yaml"}) || !slices.Equal(write, []string{".", ".ai/outputs"}) ||
		under(w, s.Read) != nil {
		t.Errorf("keeps %q, writes %q, reads %q", keep, write, s.Read)
	}
	w = newWorld(t).with("files: {read: [docs]}")
	w.kernel.Project = ""
	if fault.CodeOf(w.refused(call(x, nil))) != fault.Denied {
		t.Error("files of no project are granted")
	}
	w = newWorld(t).with("files: {read: [docs]}")
	w.kernel.Project = filepath.Join(w.dir, "gone")
	if err := w.refused(call(x, nil)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	// Where a directory of outputs has to be made and a file stands there.
	w = newWorld(t).with("files: {write: [.ai/outputs/x]}")
	w.put(map[string]string{".ai/outputs": ""})
	if fault.CodeOf(w.refused(call(x, nil))) != fault.Denied {
		t.Error("outputs are made below a file")
	}
}
