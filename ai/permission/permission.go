// Package permission reads config:capabilities: aliases for tools in permissions, and limits on permissions.
//
// The config has both:
//
//	aliases:
//	  - {id: rye/file-system/fs_read, tools: [rye/file-system/read]}
//	narrow:
//	  - id: only_reading
//	    capability: rye.execute.tool.rye.file-system.*
//	    to: [rye.execute.tool.rye.file-system.read, rye.execute.tool.rye.file-system.ls]
//
// A permission for an alias is a permission for each of its tools. Only the library has aliases: any others would
// grant permissions that no directive declares.
//
// narrow limits permissions: of the calls that capability covers, only those that "to" covers are allowed, whatever
// a directive declares. So config can only narrow: a "to" that its capability doesn't cover is an error. If several
// entries cover a call, all must allow it. Each list has at most 256 entries.
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

// Config is the name of this config.
const Config = "capabilities"

// The tools that threads run themselves. No item has these ids.
const (
	Starts = "rye/agent/threads/thread_directive"
	Return = "rye/agent/threads/directive_return"
	Reads  = "rye/agent/threads/artifact_read"
)

// IsThreads reports whether the id is a tool that threads run themselves.
func IsThreads(id string) bool { return id == Starts || id == Return || id == Reads }

const maxEntries = 256

// Definitions are the aliases and limits of permissions. They are immutable.
type Definitions struct {
	aliases map[string][]string
	narrow  []narrowing
}

type narrowing struct {
	id   string
	from capability.Capability
	to   capability.Set
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

// Read reads the merged config.
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

func (d *Definitions) read(val *value.Value) error {
	for _, e := range val.Map {
		if !slices.Contains(known, e.Key) {
			return fmt.Errorf("unknown key %q: expected one of %s", e.Key, strings.Join(known, ", "))
		}
	}
	d.aliases = map[string][]string{}
	aliases, err := entries(val, "aliases", "id", "tools")
	if err != nil {
		return err
	}
	for _, a := range aliases {
		d.aliases[a.Get("id").String()] = texts(a.Get("tools"))
	}
	narrow, err := entries(val, "narrow", "id", "capability", "to", "description")
	if err != nil {
		return err
	}
	for i, n := range narrow {
		entry := narrowing{id: n.Get("id").String()}
		if entry.from, err = capability.Parse(n.Get("capability").String()); err != nil {
			return fmt.Errorf("narrow[%d]: %w", i, err)
		}
		if entry.to, err = capability.ParseSet(texts(n.Get("to"))); err != nil {
			return fmt.Errorf("narrow[%d]: %w", i, err)
		}
		for _, c := range entry.to.List() {
			if !entry.from.Covers(c) {
				return fmt.Errorf("narrow[%d]: %s is not covered by %s: config can only narrow", i, c, entry.from)
			}
		}
		d.narrow = append(d.narrow, entry)
	}
	return nil
}

// entries returns the objects of a list. Each must have an id and only known keys.
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

// Tools returns the tools of an alias, or nil.
func (d *Definitions) Tools(id string) []string { return d.aliases[id] }

// Expand adds the permissions for the tools of aliases.
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

// Refuses returns the id of a narrow entry that forbids a call, or "".
func (d *Definitions) Refuses(need capability.Capability) string {
	for _, n := range d.narrow {
		if n.from.Covers(need) && !n.to.Covers(need) {
			return n.id
		}
	}
	return ""
}
