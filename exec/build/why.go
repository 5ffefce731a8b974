package build

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// mostChanges bounds the changed files that are listed.
const mostChanges = 20

// changes lists the differences between an action and the last one, a line for each. inputs are the files of the new
// one; those of the last one come from the store.
func changes(ctx context.Context, src cas.Getter, last, action *Action, inputs Files) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if last == nil {
		return []string{"not built here before"}
	}
	if last.Inputs != action.Inputs {
		if old, err := readFiles(ctx, src, last.Inputs); err != nil {
			say("the inputs changed")
		} else {
			list = append(list, differences("input", old, inputs)...)
		}
	}
	links := func(a *Action) map[string]Link {
		m := map[string]Link{}
		for _, l := range a.Chain {
			m[l.Ref] = l
		}
		return m
	}
	is, was := links(action), links(last)
	for _, ref := range keys(is, was) {
		switch before, there := was[ref]; {
		case !there:
			say("%s was added to the chain", ref)
		case is[ref].Ref == "":
			say("%s was removed from the chain", ref)
		case before != is[ref]:
			say("%s changed", ref)
		}
	}
	programs := func(a *Action) map[string]string {
		m := map[string]string{}
		for _, p := range a.Toolchain {
			m[p.Name] += p.Version + " " + p.Digest.Short() + " "
		}
		return m
	}
	for _, name := range keys(programs(action), programs(last)) {
		if programs(action)[name] != programs(last)[name] {
			say("the program %s changed", name)
		}
	}
	if last.Packages != action.Packages {
		say("the tool's packages changed")
	}
	for _, name := range keys(action.Params, last.Params) {
		if before, after := last.Params[name], action.Params[name]; !reflect.DeepEqual(text(before), text(after)) {
			say("the parameter %s is %s, and was %s", name, text(after), text(before))
		}
	}
	if !slices.Equal(last.Outputs, action.Outputs) {
		say("the list of outputs changed")
	}
	if last.Platform != action.Platform || !slices.Equal(last.Env, action.Env) || last.Grants != action.Grants &&
		len(list) == 0 {
		say("the platform, environment or grants changed")
	}
	return list
}

func keys[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func text(v any) string {
	b, _ := jcs.Append(nil, v)
	return string(b)
}

// differences lists the files that differ.
func differences(what string, old, next Files) (list []string) {
	for _, path := range keys(old, next) {
		line := ""
		_, was := old[path]
		switch _, is := next[path]; {
		case !was:
			line = "is new"
		case !is:
			line = "is gone"
		case !old.same(next, path):
			line = "changed"
		default:
			continue
		}
		if len(list) == mostChanges {
			return append(list, "and more")
		}
		list = append(list, fmt.Sprintf("the %s %s %s", what, path, line))
	}
	return list
}
