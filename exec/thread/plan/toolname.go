package plan

import (
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

const (
	maxName = 64
	kept    = 51 // characters of a longer name, before "_" and the digits of a digest
)

// ToolNames returns the names of tools that are offered together, by their ids. Taken are the names of the door's own
// tools. It is an error if two tools share even the longer name.
func ToolNames(ids, taken []string) (map[string]string, error) {
	names, longer := make(map[string]string, len(ids)), map[string]bool{}
	for _, id := range ids {
		names[id] = clean(id)
		if len(names[id]) > maxName {
			names[id], longer[id] = long(names[id], id), true
		}
	}
	// A longer name may be the plain one of another tool, which then needs its longer one as well.
	for again := true; again; {
		again = false
		owner := make(map[string]string, len(ids)+len(taken))
		for _, name := range taken {
			owner[name] = ""
		}
		for _, id := range ids {
			other, used := owner[names[id]]
			if !used || other == id {
				owner[names[id]] = id
				continue
			}
			again = true
			if longer[id] && (other == "" || longer[other]) {
				return nil, fault.New(fault.Ambiguous, "%q can't be offered beside %q: both would be called %s", id,
					other, names[id]).
					On("name", names[id])
			}
			for _, id := range []string{id, other} {
				if id != "" && !longer[id] {
					names[id], longer[id] = long(clean(id), id), true
				}
			}
		}
	}
	return names, nil
}

// clean returns an id as a name, of any length.
func clean(id string) string {
	b := []byte(id)
	for i, c := range b {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' {
			b[i] = '_'
		}
	}
	if id != "" && id[0] >= '0' && id[0] <= '9' {
		return "_" + string(b)
	}
	return string(b)
}

// long returns the name of a tool whose clean name can't be used.
func long(name, id string) string {
	return name[:min(len(name), kept)] + "_" + cas.Sum([]byte(id)).Short()
}
