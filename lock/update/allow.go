package update

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
)

// An Allow gives rights to servers of a plugin, instead of those that they have.
type Allow struct {
	Plugin string   // the id of its bundle
	Rights []string // as rye.yaml has them, with SERVER: in front where the plugin has several servers
}

// A Right is what an edit of rye.yaml changes about the rights of a plugin's server.
type Right struct {
	Server string   `json:"server"` // its ref
	Rights []string `json:"rights"` // as rye.yaml has them now; none if they end because the server has changed
}

// servers returns the last segments of the ids of a plugin's servers.
func servers(made *lockfile.Lock, plugin string) (names []string) {
	for i := range made.Pins {
		ref := made.Pins[i].Ref
		if dir, name := path.Split(ref.ID); ref.Kind == "tool" && dir == plugin+"/servers/" {
			names = append(names, name)
		}
	}
	return names
}

// byServer returns the rights by the servers that they are for.
func (a *Allow) byServer(made *lockfile.Lock) (map[string][]string, error) {
	names := servers(made, a.Plugin)
	all := map[string][]string{}
	refuse := func(text, why string) error {
		return fault.New(fault.Validation, "%q: %s", text, why).On("bundle", a.Plugin).On("servers", names).
			Try("rye docs plugins")
	}
	for _, text := range a.Rights {
		server, right, named := strings.Cut(text, ":")
		if !named || !slices.Contains(names, server) {
			server, right = "", text
		}
		switch {
		case len(names) == 0:
			return nil, refuse(text, "the plugin has no server that could have a right")
		case server == "" && len(names) > 1:
			return nil, refuse(text, "the plugin has several servers: put one's name in front, as in "+
				names[0]+":"+text)
		case server == "":
			server = names[0]
		}
		all[server] = append(all[server], right)
	}
	return all, nil
}

// allowing returns the project with the rights that o gives, and without those of servers that have changed: who gave
// them has seen another server. rights lists both.
func (o *Options) allowing(l *workspace.Lock, made *lockfile.Lock, accepted []Weakening) (yaml *project.Project,
	rights []Right, err error) {
	yaml = l.Yaml
	given := map[string][]string{}
	if o.Allow != nil {
		if given, err = o.Allow.byServer(made); err != nil {
			return nil, nil, err
		}
		for _, server := range slices.Sorted(maps.Keys(given)) {
			if yaml, err = yaml.SetAllow(o.Allow.Plugin, server, given[server]); err != nil {
				return nil, nil, fault.New(fault.Validation, "%v", err).From(err).On("bundle", o.Allow.Plugin)
			}
			requirement, _ := yaml.Requirement(o.Allow.Plugin)
			rights = append(rights, Right{"tool:" + o.Allow.Plugin + "/servers/" + server, requirement.Allow[server]})
		}
	}
	for _, changed := range accepted {
		ref, err := model.ParseRef(changed.Name)
		if err != nil || changed.Kind != lock.ServerChanged {
			continue
		}
		dir, server := path.Split(ref.ID)
		plugin := path.Dir(path.Clean(dir))
		requirement, _ := yaml.Requirement(plugin)
		anew := o.Allow != nil && o.Allow.Plugin == plugin && given[server] != nil
		if anew || requirement.Allow[server] == nil {
			continue
		}
		if yaml, err = yaml.SetAllow(plugin, server, nil); err != nil {
			return nil, nil, err
		}
		rights = append(rights, Right{changed.Name, []string{}})
	}
	return yaml, rights, nil
}
