package declared

import (
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas"
)

// TestReach holds the risk that is derived to what a call may reach.
func TestReach(t *testing.T) {
	may := func(text string) []capability.Capability {
		c, err := capability.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []capability.Capability{c}
	}
	for _, c := range []struct {
		name  string
		reach Reach
		want  Risk
		why   string
	}{
		{"nothing", Reach{}, Read, "it gets no network, secrets or other items, and writes no project file"},
		{"outputs", Reach{Write: []string{".ai/outputs", ".ai/outputs/a/b"}}, Read,
			"it gets no network, secrets or other items, and writes no project file"},
		{"finds and loads", Reach{Permissions: append(may("load:tool:*"), may("search:*:*")...)}, Read,
			"it gets no network, secrets or other items, and writes no project file"},
		{"a project file", Reach{Write: []string{".ai/outputs", "docs"}}, Write, "it may write files of the project"},
		{"all of the project", Reach{Write: []string{"."}}, Write, "it may write files of the project"},
		{"beside outputs", Reach{Write: []string{".ai/outputs-old"}}, Write, "it may write files of the project"},
		{"network", Reach{Network: true}, Destructive, "it may use the network"},
		{"secret", Reach{Secrets: true}, Destructive, "it gets secrets"},
		{"calls", Reach{Permissions: may("execute:tool:acme/*")}, Destructive, "it may run or sign other items"},
		{"signs", Reach{Permissions: may("sign:tool:acme/*")}, Destructive, "it may run or sign other items"},
		{"any verb", Reach{Permissions: may("*:tool:acme/*")}, Destructive, "it may run or sign other items"},
		{"unconfined", Reach{Unconfined: true}, Destructive, "no sandbox confines it"},
		{"unconfined, with files", Reach{Unconfined: true, Write: []string{"docs"}}, Destructive,
			"no sandbox confines it"},
		{"all", Reach{true, true, may("execute:*:*"), []string{"."}, true}, Destructive,
			"no sandbox confines it, and it may use the network, and it gets secrets, and it may run or sign other items"},
	} {
		if got, why := c.reach.Risk(); got != c.want || why != c.why {
			t.Errorf("%s: got %v, %q; want %v, %q", c.name, got, why, c.want, c.why)
		}
	}
}

// TestDeriveRisk holds the risk of tools that declare none to their grants, and that of all others to the declaration.
func TestDeriveRisk(t *testing.T) {
	for text, want := range map[string]struct {
		risk    Risk
		derived bool
	}{
		"tags: [x]":                               {Read, true},
		"effects: []":                             {Read, true},
		"files: {read: [.], write: [docs]}":       {Write, true},
		"files: {write: [.ai/outputs]}":           {Read, true},
		"network: all":                            {Destructive, true},
		"network: [api.acme.example]":             {Destructive, true},
		"secrets: [token]":                        {Destructive, true},
		"permissions: ['execute:tool:acme/x']":    {Destructive, true},
		"risk: read\nnetwork: all":                {Read, false},
		"risk: destructive":                       {Destructive, false},
		"effects: [network]":                      {Write, false},
		"effects: [none]\nsecrets: [token]":       {Read, false},
		"pure: true":                              {Read, false},
		"risk: low":                               {Destructive, false}, // invalid
		"effects: 3":                              {Destructive, false},
		"risk: null\nfiles: {write: [docs/a.md]}": {Write, true},
	} {
		tool := readTool(t, "executor_id: x\n"+text+"\n").tool
		if got, why := tool.DeriveRisk(); got != want.risk || (why != "") != want.derived ||
			tool.NoRisk != want.derived {
			t.Errorf("%s: got %v, %q; want %+v", text, got, why, want)
		}
	}
}

// TestNoRiskHash holds the grants hash of a tool without a risk to that of a destructive one: locks pin it.
func TestNoRiskHash(t *testing.T) {
	for text, members := range map[string]string{
		"tags: [x]":               `{"risk":"destructive"}`,
		"network: all":            `{"network":"all","risk":"destructive"}`,
		"files: {write: [docs]}":  `{"files":{"write":["docs"]},"risk":"destructive"}`,
		"effects: []":             `{"risk":"destructive"}`,
		"effects: []\npure: true": `{"risk":"destructive"}`,
		"pure: true":              `{"risk":"read"}`,
	} {
		got, err := readTool(t, "executor_id: x\n"+text+"\n").tool.Grants().Hash()
		if want := cas.Sum([]byte(members)); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want that of %s", text, got, err, members)
		}
	}
}
