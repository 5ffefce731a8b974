package update

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
)

// Rights go to the server that they name, or to the only one. Those of a server that an update changes end with it,
// unless they are given anew.
func TestAllow(t *testing.T) {
	pins := func(ids ...string) *lockfile.Lock {
		l := &lockfile.Lock{}
		for _, id := range ids {
			l.Pins = append(l.Pins, lockfile.Pin{Ref: model.Ref{Kind: "tool", ID: id}})
		}
		return l
	}
	one := pins("plugins/a/servers/db", "plugins/a/servers/db/read", "plugins/b/servers/db")
	two := pins("plugins/a/servers/db", "plugins/a/servers/web")
	changed := []Weakening{{lock.Weakness{Name: "tool:plugins/a/servers/db", Kind: lock.ServerChanged}, true},
		{lock.Weakness{Name: "plugins/b", Kind: lockfile.SourceChanged}, true}}
	const had = `, allow: {db: ["files:read:."]}`
	for name, c := range map[string]struct {
		had     string
		rights  []string
		made    *lockfile.Lock
		changed []Weakening
		want    string // what stands behind from, or the error
	}{
		"none":            {had, nil, one, nil, had},
		"the only server": {"", []string{"network:a.example"}, one, nil, `, allow: {db: ["network:a.example"]}`},
		"by its name":     {"", []string{"db:network:a.example"}, one, nil, `, allow: {db: ["network:a.example"]}`},
		"instead": {had, []string{"network:*", "secret:a=B"}, one, nil,
			`, allow: {db: ["network:*", "secret:a=B"]}`},
		"two": {had, []string{"web:files:write:out"}, two, nil, had[:len(had)-1] + `, web: ["files:write:out"]}`},
		"no name": {"", []string{"network:*"}, two, nil,
			"put one's name in front, as in db:network:*"},
		"no server":        {"", []string{"network:*"}, pins("plugins/a/skills/x/skill"), nil, "no server that could"},
		"no right":         {"", []string{"db:net:a"}, one, nil, "expected files:read:PATH"},
		"a changed server": {had, nil, one, changed, ""},
		"given anew":       {had, []string{"network:*"}, one, changed, `, allow: {db: ["network:*"]}`},
		"another changed":  {had, []string{"web:network:*"}, two, changed, `, allow: {web: ["network:*"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := "requires:\n  plugins/a: {version: \"*\", from: a" + c.had + "}\n"
			yaml, err := project.Parse([]byte(before), "")
			if err != nil {
				t.Fatal(err)
			}
			o := &Options{}
			if c.rights != nil {
				o.Allow = &Allow{"plugins/a", c.rights}
			}
			got, rights, err := o.allowing(&workspace.Lock{Yaml: yaml}, c.made, c.changed)
			if err != nil {
				if fault.CodeOf(err) != fault.Validation || !strings.Contains(err.Error(), c.want) || c.want == "" {
					t.Error(err)
				}
				return
			}
			if want := strings.Replace(before, c.had+"}", c.want+"}", 1); string(got.Format()) != want {
				t.Errorf("got\n%s\nwant\n%s", got.Format(), want)
			}
			if told := len(rights) > 0; told != (got != yaml) {
				t.Errorf("the answer has %+v", rights)
			}
		})
	}
}
