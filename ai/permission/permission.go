// Package permission answers: which tools do the names in permissions stand for, and which permissions count here?
//
// config:capabilities has both:
//
//	aliases:
//	  - {id: rye/file-system/fs_read, tools: [rye/file-system/read]}
//	narrow:
//	  - id: only_reading
//	    capability: rye.execute.tool.rye.file-system.*
//	    to: [rye.execute.tool.rye.file-system.read, rye.execute.tool.rye.file-system.ls]
//
// A permission for an alias is one for each of its tools. Aliases are the library's alone: others would give
// permissions that no directive declares.
//
// narrow takes from permissions: of what capability covers, only what one of "to" covers counts, whatever a directive
// declares. So config can only narrow; a "to" that isn't covered by its capability is an error. Where several cover a
// call, all must allow it. At most 256 of each.
package permission

import (
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// Config is the name of the config.
const Config = "capabilities"

// The tools that threads run themselves. They are called by these ids, and no item has them.
const (
	Starts = "rye/agent/threads/thread_directive"
	Return = "rye/agent/threads/directive_return"
	Reads  = "rye/agent/threads/artifact_read"
)

// IsThreads reports whether the id is one of these.
func IsThreads(id string) bool { return id == Starts || id == Return || id == Reads }

const maxEntries = 256

// Definitions say what permissions mean. They never change.
type Definitions struct {
	aliases map[string][]string
	narrow  []narrowing
}

type narrowing struct {
	id string
	of capability.Capability
	to capability.Set
}

// Library returns the definitions of the library.
var Library = sync.OnceValues(func() (*Definitions, error) {
	text, err := fs.ReadFile(std.FS(), "config/"+Config+".yaml")
	if err != nil {
		return nil, err
	}
	v, problems := parse.YAML(text, value.Pos{})
	if len(problems) > 0 {
		return nil, problems[0]
	}
	d := new(Definitions)
	return d, d.read(v)
})

// Read reads merged config.
func Read(v *value.Value) (*Definitions, error) {
	library, err := Library()
	if err != nil {
		return nil, err
	}
	d := new(Definitions)
	if err = d.read(v); err == nil && !reflect.DeepEqual(d.aliases, library.aliases) {
		err = fmt.Errorf("aliases: only the library has aliases, because they give permissions")
	}
	if err != nil {
		return nil, fault.New(fault.Config, "invalid config:%s: %v", Config, err).Try("rye docs directive-format")
	}
	return d, nil
}

// known are the keys of the config.
var known = []string{"schema_version", "name", "version", "category", "description", "aliases", "narrow"}

func (d *Definitions) read(v *value.Value) error {
	for _, e := range v.Map {
		if !slices.Contains(known, e.Key) {
			return fmt.Errorf("unknown key %q: expected one of %s", e.Key, strings.Join(known, ", "))
		}
	}
	d.aliases = map[string][]string{}
	aliases, err := entries(v, "aliases", "id", "tools")
	if err != nil {
		return err
	}
	for _, a := range aliases {
		d.aliases[a.Get("id").String()] = texts(a.Get("tools"))
	}
	narrow, err := entries(v, "narrow", "id", "capability", "to", "description")
	if err != nil {
		return err
	}
	for i, n := range narrow {
		one := narrowing{id: n.Get("id").String()}
		if one.of, err = capability.Parse(n.Get("capability").String()); err != nil {
			return fmt.Errorf("narrow[%d]: %w", i, err)
		}
		if one.to, err = capability.ParseSet(texts(n.Get("to"))); err != nil {
			return fmt.Errorf("narrow[%d]: %w", i, err)
		}
		for _, c := range one.to.List() {
			if !one.of.Covers(c) {
				return fmt.Errorf("narrow[%d]: %s isn't part of %s: config can only narrow", i, c, one.of)
			}
		}
		d.narrow = append(d.narrow, one)
	}
	return nil
}

// entries returns a list of objects with ids and no other keys.
func entries(v *value.Value, name string, keys ...string) ([]*value.Value, error) {
	list := v.Get(name)
	switch {
	case list.IsNull():
		return nil, nil
	case list.Kind != value.List || len(list.Items) > maxEntries:
		return nil, fmt.Errorf("%s: expected a list of at most %d", name, maxEntries)
	}
	for i, item := range list.Items {
		if item.Get("id").String() == "" {
			return nil, fmt.Errorf("%s[%d]: expected an object with an id", name, i)
		}
		for _, e := range item.Map {
			if !slices.Contains(keys, e.Key) {
				return nil, fmt.Errorf("%s[%d]: unknown key %q: expected one of %s", name, i, e.Key,
					strings.Join(keys, ", "))
			}
		}
	}
	return list.Items, nil
}

func texts(v *value.Value) (all []string) {
	if v != nil {
		for _, item := range v.Items {
			all = append(all, item.String())
		}
	}
	return all
}

// Tools returns the tools that a name in permissions stands for; nil if it is no alias.
func (d *Definitions) Tools(id string) []string { return d.aliases[id] }

// Expand returns permissions with those for the tools that aliases stand for.
func (d *Definitions) Expand(list []capability.Capability) []capability.Capability {
	all := slices.Clone(list)
	for _, c := range list {
		verb, rest, _ := strings.Cut(c.String(), ":")
		kind, id, _ := strings.Cut(rest, ":")
		for _, tool := range d.aliases[id] {
			if more, err := capability.For(verb, kind, tool); err == nil && kind == "tool" {
				all = append(all, more)
			}
		}
	}
	return all
}

// Refuses returns the id of a narrowing that forbids a call, "" if none does.
func (d *Definitions) Refuses(need capability.Capability) string {
	for _, n := range d.narrow {
		if n.of.Covers(need) && !n.to.Covers(need) {
			return n.id
		}
	}
	return ""
}
