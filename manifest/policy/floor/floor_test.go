package floor

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

func read(text string) (Exec, error) {
	tree, err := yamltree.Parse([]byte("exec: " + text + "\n"))
	if err != nil {
		return Exec{}, err
	}
	return Read(tree.Root.Get("exec"), "secrets")
}

func mustRead(t testing.TB, text string) Exec {
	t.Helper()
	e, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRead(t *testing.T) {
	for text, want := range map[string]Exec{
		"{}":                                   {},
		"{dotenv: none}":                       {DotEnv: DotEnvNone},
		"{dotenv: project}":                    {DotEnv: DotEnvProject},
		"{floor: none, strangers: namespace}":  {Floor: None, Strangers: Namespace},
		"{floor: limits, strangers: landlock}": {Floor: Limits, Strangers: Landlock},
		"{network: all, toolchain: record}":    {},
		"{network: none, toolchain: enforce}":  {Network: Network{Bound: true}, Enforce: true},
		"{network: [], audit: required}":       {Network: Network{Bound: true, Hosts: []string{}}, Audit: true},
		`{network: [a.x, "*.x", "b.x:443"], audit: on, secrets: {}}`: {Network: Network{Bound: true,
			Hosts: []string{"a.x", "*.x", "b.x:443"}}},
	} {
		got, err := read(text)
		if len(got.Network.Hosts) == 0 {
			got.Network.Hosts = want.Network.Hosts
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"{ceiling: none}":           "ceiling",
		"{floor: high}":             "none, limits, landlock",
		"{strangers: [none]}":       "strangers",
		"{toolchain: on}":           "record",
		"{audit: off}":              "required",
		"{dotenv: all}":             "none, project",
		"{network: some}":           "expected all, none or a list of hosts",
		"{network: {a: b}}":         "expected a list",
		"{network: [A.x]}":          `"A.x" is not a host`,
		"{network: [a..x]}":         "is not a host",
		"{network: [-a.x]}":         "is not a host",
		`{network: ["*"]}`:          "is not a host",
		`{network: ["*.*.x"]}`:      "is not a host",
		`{network: ["a.x:0"]}`:      "is not a host",
		`{network: ["a.x:080"]}`:    "is not a host",
		`{network: ["a.x:100000"]}`: "is not a host",
		`{network: ["a.x:"]}`:       "is not a host",
		`{network: [":80"]}`:        "is not a host",
		`{network: ["a..x:80"]}`:    "is not a host",
		"{network: [" + strings.Repeat("a", 300) + "_.x]}": "is not a host",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A level is written as it is read, and a higher one is more.
func TestLevels(t *testing.T) {
	for i, word := range levels[1:] {
		e := mustRead(t, "{floor: "+word+"}")
		if e.Floor.String() != word || e.Floor != Level(i+1) {
			t.Errorf("%s is %d, %s", word, e.Floor, e.Floor)
		}
	}
}

// Root and project together ask for no less than either.
func TestNarrow(t *testing.T) {
	for _, c := range []struct{ root, project, want string }{
		{"{}", "{}", "{}"},
		{"{floor: limits}", "{floor: none}", "{floor: limits}"},
		{"{floor: limits}", "{floor: namespace}", "{floor: namespace}"},
		{"{}", "{strangers: none}", "{strangers: landlock}"},
		{"{strangers: none}", "{}", "{strangers: none}"},
		{"{strangers: none}", "{strangers: limits}", "{strangers: limits}"},
		{"{}", "{network: none}", "{network: none}"},
		{"{network: none}", "{network: all}", "{network: none}"},
		{"{network: [a.x, b.x]}", "{network: [b.x, c.x]}", "{network: [b.x]}"},
		{"{network: [a.x]}", "{network: [c.x]}", "{network: none}"},
		{`{network: ["*.x"]}`, `{network: [a.x, x, ax, "b.x:443"]}`, `{network: [a.x, "b.x:443"]}`},
		{`{network: ["a.x:443"]}`, `{network: ["*.x"]}`, `{network: ["a.x:443"]}`},
		{`{network: ["*.x:443"]}`, `{network: [a.x]}`, `{network: ["a.x:443"]}`},
		{`{network: ["*.x:443"]}`, `{network: ["a.x:80"]}`, `{network: none}`},
		{`{network: ["a.x:443"]}`, `{network: ["a.x:443"]}`, `{network: ["a.x:443"]}`},
		{`{network: ["*.x"]}`, `{network: ["*.a.x", "*.ax"]}`, `{network: ["*.a.x"]}`},
		{`{network: [a.y]}`, `{network: ["*.x"]}`, `{network: none}`},
		{"{}", "{network: [a.x]}", "{network: [a.x]}"},
		{"{network: [a.x]}", "{}", "{network: [a.x]}"},
		{"{toolchain: enforce}", "{toolchain: record}", "{toolchain: enforce}"},
		{"{toolchain: record}", "{toolchain: enforce}", "{toolchain: enforce}"},
		{"{audit: required}", "{audit: on}", "{audit: required}"},
		{"{}", "{audit: required}", "{audit: required}"},
		{"{dotenv: project}", "{}", "{dotenv: project}"},
		{"{dotenv: project}", "{dotenv: none}", "{dotenv: none}"},
		{"{}", "{dotenv: project}", "{}"},
		{"{dotenv: none}", "{dotenv: project}", "{dotenv: none}"},
	} {
		got, want := mustRead(t, c.root).Narrow(mustRead(t, c.project)), mustRead(t, c.want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s and %s: %+v, want %+v", c.root, c.project, got, want)
		}
	}
}

func TestDotEnvWords(t *testing.T) {
	for i, word := range dotEnvs[1:] {
		if e := mustRead(t, "{dotenv: "+word+"}"); e.DotEnv.String() != word || e.DotEnv != DotEnv(i+1) {
			t.Errorf("%s is %d, %s", word, e.DotEnv, e.DotEnv)
		}
	}
}
