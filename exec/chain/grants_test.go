package chain_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/floor"
)

func policyOf(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// declaring returns a tool that declares a bit of everything.
func declaring(t testing.TB) *model.Tool {
	t.Helper()
	c, err := capability.Parse("rye.execute.tool.acme.*")
	if err != nil {
		t.Fatal(err)
	}
	tool := &model.Tool{Permissions: []capability.Capability{c}, Secrets: []string{"token"}}
	tool.Files.Read, tool.Files.Write = []string{"docs"}, []string{"out"}
	tool.Network.Hosts = []string{"api.example.com:443"}
	return tool
}

// TestAllowed: a call may do what its tool declares, as far as both policies and its caller allow it. Nothing adds to
// that.
func TestAllowed(t *testing.T) {
	const secret = "exec: {secrets: {token: [\"tool:acme/**\"]}}\n"
	const everything = "grants: {\"**\": [\"rye.*\", \"files:read:.\", \"files:write:.\", \"network:*\"]}\n"
	none := chain.NoGrants()
	for name, c := range map[string]struct {
		root, project string
		stranger      bool
		caller        *chain.Grants
		want          string
	}{
		"the user's own":   {root: secret, want: "permissions read write network secrets"},
		"without a policy": {want: "permissions read write network"},
		"a stranger's":     {root: secret, stranger: true},
		"a stranger's with a grant": {root: secret + everything, stranger: true,
			want: "permissions read write network secrets"},
		"of the project alone": {project: everything, stranger: true},
		"one host less": {root: "grants: {\"**\": [\"rye.*\", \"files:write:.\"]}\n",
			want: "permissions read write"},
		"the project takes away": {root: secret, project: "grants: {\"**\": [\"files:read:docs\"]}\n",
			want: "read secrets"},
		"no network at all":   {root: "exec: {network: none}\n", want: "permissions read write"},
		"none by the project": {project: "exec: {network: none}\n", want: "permissions read write"},
		"the host that it declares": {root: "grants: {\"**\": [\"network:api.example.com:443\"]}\n",
			want: "network"},
		"all after one": {root: "grants: {\"**\": [\"network:*\", \"network:x.example.com\"]}\n",
			want: "network"},
		"another host":          {root: "grants: {\"**\": [\"network:x.example.com\"]}\n"},
		"a caller with nothing": {root: secret, caller: &none},
	} {
		p := chain.Policies{}
		if c.root != "" {
			p.Root = policyOf(t, c.root)
		}
		if c.project != "" {
			p.Project = policyOf(t, c.project)
		}
		g, err := p.Allowed(declaring(t), ref("acme/x"), c.stranger, c.caller)
		if got := shown(g); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// shown names what grants have.
func shown(g chain.Grants) (text string) {
	for _, part := range []struct {
		name string
		n    int
	}{{"permissions", len(g.Permissions.List())}, {"read", len(g.Read)}, {"write", len(g.Write)},
		{"network", len(g.Network.Hosts)}, {"secrets", len(g.Secrets)}} {
		if part.n > 0 {
			text += " " + part.name
		}
	}
	if !g.Network.Bound {
		text += " all"
	}
	if text == "" {
		return ""
	}
	return text[1:]
}

// TestAllowedInvalid: a policy with an invalid grant allows nothing.
func TestAllowedInvalid(t *testing.T) {
	for _, pattern := range []string{"files:read:../x", "files:write:.git", "files:write:rye.lock", "files:run:x",
		"network:a/b", "network:", "files:"} {
		q := policyOf(t, "grants: {\"**\": [\""+pattern+"\"]}\n")
		for whose, p := range map[string]chain.Policies{"your policy": {Root: q},
			"the project's policy": {Project: q}} {
			g, err := p.Allowed(declaring(t), ref("acme/x"), false, nil)
			if fault.CodeOf(err) != fault.Config || shown(g) != "" || !strings.HasPrefix(err.Error(), whose+" has") {
				t.Errorf("%s: %q, %v", pattern, shown(g), err)
			}
		}
	}
}

// TestEach: a policy that doesn't exist is none. A check that is made for each would fail without one.
func TestEach(t *testing.T) {
	one := policyOf(t, "rye: policy/2\n")
	for want, p := range map[int]chain.Policies{0: {}, 1: {Project: one}, 2: {Root: one, Project: one}} {
		if got := p.Each(); len(got) != want || slices.Contains(got, nil) {
			t.Errorf("%d policies; want %d", len(got), want)
		}
	}
}

// TestWithin: two grants together allow what both allow. What may be written may be read.
func TestWithin(t *testing.T) {
	a := chain.Grants{Read: []string{"a", "b/c"}, Write: []string{"w"}, Network: floor.Network{},
		Secrets: []string{"x", "y"}}
	b := chain.Grants{Read: []string{"a/x", "b", "w/in"}, Write: []string{"."},
		Network: floor.Network{Bound: true, Hosts: []string{"h:1"}}, Secrets: []string{"y"}}
	got, err := a.Within(b)
	if err != nil {
		t.Fatal(err)
	}
	back, err := b.Within(a)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, back) {
		t.Errorf("%+v, and the other way round %+v", got, back)
	}
	if !slices.Equal(got.Read, []string{"a", "a/x", "b/c", "w", "w/in"}) || !slices.Equal(got.Write, []string{"w"}) ||
		!got.Network.Bound ||
		!slices.Equal(got.Network.Hosts, []string{"h:1"}) || !slices.Equal(got.Secrets, []string{"y"}) {
		t.Errorf("%+v", got)
	}
	if none, err := a.Within(chain.NoGrants()); err != nil || shown(none) != "" {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestBelow(t *testing.T) {
	for path, want := range map[string]bool{"a": true, "a/b": true, "ab": false, "b": false, ".": false} {
		if chain.Below(path, "a") != want || !chain.Below(path, ".") {
			t.Errorf("%s: %v in a, %v in .", path, chain.Below(path, "a"), chain.Below(path, "."))
		}
	}
}

// TestHash: the grants hash differs with each part of the grants, and is the same for the same.
func TestHash(t *testing.T) {
	tool := declaring(t)
	g, err := chain.Declared(tool)
	if err != nil {
		t.Fatal(err)
	}
	// A tool that gets all that it declares has the hash that the lock has of it. With another one each call would be
	// refused, or its receipt name grants that no lock has.
	everywhere := new(model.Tool)
	everywhere.Network.All = true
	for name, tool := range map[string]*model.Tool{"all": tool, "nothing": {}, "every host": everywhere} {
		g, err := chain.Declared(tool)
		if err != nil {
			t.Fatal(err)
		}
		declared, err := tool.Grants().Hash()
		if got, err2 := g.Hash(tool); err != nil || err2 != nil || got != declared {
			t.Errorf("%s: %s, declared %s, %v, %v", name, got, declared, err, err2)
		}
	}
	var c chain.Chain
	c.Chain = &ai.Chain{Links: []*ai.Item{{Model: &model.Model{Tool: tool}}}}
	for range 2 {
		for _, g := range []chain.Grants{g, chain.NoGrants()} {
			want, err := g.Hash(tool)
			if got, err2 := c.Hash(g); err != nil || err2 != nil || got != want {
				t.Errorf("a chain has the hash %s of other grants, want %s, %v, %v", got, want, err, err2)
			}
		}
	}
	hashes := map[cas.Digest]string{}
	for name, change := range map[string]func(*chain.Grants){
		"nothing":     func(*chain.Grants) {},
		"permissions": func(g *chain.Grants) { g.Permissions = capability.Set{} },
		"read":        func(g *chain.Grants) { g.Read = nil },
		"write":       func(g *chain.Grants) { g.Write = []string{"out/x"} },
		"hosts":       func(g *chain.Grants) { g.Network.Hosts = nil },
		"network":     func(g *chain.Grants) { g.Network = floor.Network{} },
		"secrets":     func(g *chain.Grants) { g.Secrets = nil },
	} {
		changed := g
		change(&changed)
		h, err := changed.Hash(tool)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := changed.Hash(tool); err != nil || again != h {
			t.Errorf("%s: %s, then %s, %v", name, h, again, err)
		}
		if other := hashes[h]; other != "" {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		hashes[h] = name
	}
}

// TestRisk: the risk of a tool that declares none is by what its call really gets, and by whether that is enforced: a
// call that reaches the network must not pass as one that reads.
func TestRisk(t *testing.T) {
	bare := &model.Tool{NoRisk: true}
	execute, err := capability.ParseSet([]string{"rye.execute.tool.acme.*"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit     func(*chain.Grants)
		confined bool
		want     string
	}{
		"nothing":           {func(*chain.Grants) {}, true, "read"},
		"nothing, unbound":  {func(*chain.Grants) {}, false, "destructive"},
		"a host":            {func(g *chain.Grants) { g.Network.Hosts = []string{"a.example"} }, true, "destructive"},
		"all hosts":         {func(g *chain.Grants) { g.Network.Bound = false }, true, "destructive"},
		"a secret":          {func(g *chain.Grants) { g.Secrets = []string{"token"} }, true, "destructive"},
		"other tools":       {func(g *chain.Grants) { g.Permissions = execute }, true, "destructive"},
		"files":             {func(g *chain.Grants) { g.Write = []string{"out"} }, true, "write"},
		"files for reading": {func(g *chain.Grants) { g.Read = []string{"docs"} }, true, "read"},
	} {
		g := chain.NoGrants()
		c.edit(&g)
		if risk, why := g.Risk(bare, c.confined); risk.String() != c.want || why == "" {
			t.Errorf("%s: %s, %q", name, risk, why)
		}
	}
	says := &model.Tool{Risk: declared.Money}
	if risk, why := chain.NoGrants().Risk(says, false); risk != declared.Money || why != "" {
		t.Errorf("declared: %s, %q", risk, why)
	}
}

// What a project lets a plugin's server do is as if the server's item declared it: the policies still bound it, and a
// stranger's server gets nothing without an entry of the root.
func TestAllow(t *testing.T) {
	var bare model.Tool
	for text, want := range map[string]string{
		"":                             "",
		"files:read:data":              "read",
		"files:write:out":              "write",
		"network:a.example":            "network",
		"network:*":                    "all",
		"secret:token":                 "secrets",
		"secret:token=X network:*":     "secrets all",
		"network:* network:a.example":  "all",
		"files:read:. files:write:out": "read write",
	} {
		tool, variables, err := chain.Allow(&bare, strings.Fields(text))
		if err != nil {
			t.Fatal(err)
		}
		if named := strings.Contains(text, "="); named != (variables["token"] == "X") || !named && variables != nil {
			t.Errorf("%q: variables %v", text, variables)
		}
		p := chain.Policies{Root: policyOf(t, "exec:\n  secrets: {token: [\"**\"]}\n")}
		if g, err := p.Allowed(tool, ref("acme/x"), false, nil); err != nil || shown(g) != want {
			t.Errorf("%q: %q, %v; want %q", text, shown(g), err, want)
		}
		if g, err := p.Allowed(tool, ref("acme/x"), true, nil); err != nil || shown(g) != "" {
			t.Errorf("%q of a stranger: %q, %v", text, shown(g), err)
		}
	}
	if !reflect.DeepEqual(bare, model.Tool{}) {
		t.Errorf("the item itself declares %+v", bare)
	}
	for _, text := range []string{"files:write:.git", "network:a b", "files:run:x"} {
		if _, _, err := chain.Allow(&bare, []string{text}); err == nil {
			t.Errorf("%q is a right", text)
		}
	}
}
