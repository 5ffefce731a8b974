package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

// TestConfig: what the project's config takes away no directive gives back: a tool that it narrows away is neither
// allowed nor offered by its name, and its limits are those of a directive that declares none.
func TestConfig(t *testing.T) {
	naming := strings.Replace(named("naming"), "    <permissions>",
		"    <tools><tool>acme/echo</tool><tool>acme/away</tool><tool>acme/other</tool></tools>\n    <permissions>", 1)
	naming = strings.Replace(naming, "</tool></execute>", "</tool><tool>acme/away</tool></execute>", 1)
	p := projecttest.With(t, "", map[string]string{"tools/acme/echo.yaml": echo, "tools/acme/away.yaml": echo,
		"tools/acme/other.yaml": echo, "directives/acme/naming.md": naming,
		"config/capabilities.yaml": "narrow: [{id: away, capability: \"execute:tool:acme/away\", to: []}]\n",
		"config/resilience.yaml":   "limits: {defaults: {tokens: 77, turns: 3}}\n"})
	s, err := session.Open(t.Context(), p.Workspace(workspace.Options{}),
		session.Options{Mode: session.Mode{Unlocked: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f, err := followed(t, s, "directive", "acme/naming")
	if err != nil {
		t.Fatal(err)
	}
	for id, hint := range map[string]string{"acme/echo": "", "acme/away": "rye docs directive-format",
		"acme/other": "rye docs directive-format"} {
		err := f.Allows(capability.Execute, "tool", id)
		if (err != nil) != (hint != "") || err != nil && (fault.CodeOf(err) != fault.Denied ||
			!slices.Equal(fault.Of(err).Hint, []string{hint})) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := f.Offer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.Named.Items) != 1 || len(f.Named.Tools) != 1 || !strings.HasSuffix(f.Named.Tools[0].Name, "echo") ||
		f.Named.Tools[0].Schema["type"] != "object" || f.Named.Items[f.Named.Tools[0].Name].Ref.ID != "acme/echo" ||
		!slices.Contains(plan.OfferedNames(f.Offered()), f.Named.Tools[0].Name) {
		t.Errorf("%+v", f.Named.Tools)
	}
	if l := f.Limits(); l.Tokens != 77 || l.Turns != 6 || l.Spend != limits.Nano/2 {
		t.Errorf("%+v", l)
	}
	// A permission that the policies take away leads to the policies, not to the directive.
	if f.Caps, err = capability.ParseSet(nil); err != nil {
		t.Fatal(err)
	}
	for id, word := range map[string]string{"acme/echo": "no policy", "acme/away": "no permission",
		"acme/other": "no permission"} {
		if err := f.Allows(capability.Execute, "tool", id); err == nil ||
			strings.Contains(err.Error(), "which no policy or directive above it grants") != (word == "no policy") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestMaySign: a thread may sign only by a permission that is about signatures.
func TestMaySign(t *testing.T) {
	for text, want := range map[string]bool{"rye.sign.tool.acme.*": true, "rye.execute.tool.acme.*": false,
		"rye.load.directive.*": false} {
		caps, err := capability.ParseSet([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		if plan.MaySign(caps) != want {
			t.Errorf("%s: %t", text, !want)
		}
	}
	for signs, want := range map[bool]bool{true: true, false: false} {
		offered := plan.OfferedNames(plan.OwnTools(nil, nil, signs, false))
		if got := slices.Contains(offered, plan.NameSign); got != want {
			t.Errorf("signs %t: offered %t", signs, got)
		}
	}
}
