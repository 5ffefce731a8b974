package flags

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds the nesting that is checked. Deeper schemas are refused elsewhere.
const maxDepth = 200

// MaxFlags bounds the findings about one value.
const MaxFlags = 50

// Value returns the findings about the texts of a JSON value, including member names. A model takes the parameter
// names, enum and default of a schema for facts, so Value flags prose in these.
func Value(where string, v any) []Flag {
	w := &walker{}
	w.value(where, "", v, 0)
	return w.all
}

type walker struct{ all []Flag }

func (w *walker) add(more ...Flag) {
	if room := MaxFlags - len(w.all); len(more) > room {
		// A critical flag decides, so it replaces another one instead of being left out.
		for _, f := range more {
			if f.Critical && !AnyCritical(w.all) && len(w.all) > 0 {
				w.all[len(w.all)-1] = f
			}
		}
		more = more[:max(room, 0)]
	}
	w.all = append(w.all, more...)
}

// value checks a value; role is the schema keyword above it.
func (w *walker) value(where, role string, v any, depth int) {
	if depth > maxDepth {
		return
	}
	switch val := v.(type) {
	case string:
		w.add(Text(where, val)...)
		if role == "enum" || role == "default" || role == "const" || role == "examples" {
			w.sentence(where, val)
		}
	case []any:
		for i, item := range val {
			w.value(where+"/"+strconv.Itoa(i), role, item, depth+1)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(val)) {
			at := where + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			w.add(Text(at, name)...)
			inner := name
			switch role {
			case "properties", "patternProperties", "$defs", "definitions":
				w.sentence(at, name)
				inner = ""
			case "enum", "default", "const", "examples":
				inner = role
			}
			w.value(at, inner, val[name], depth+1)
		}
	}
}

// mostWords is the most words of a name or a value that isn't prose.
const mostWords = 8

// sentence flags prose in a place where a name or a value is expected.
func (w *walker) sentence(where, text string) {
	if n := len(strings.FieldsFunc(text, func(r rune) bool {
		return r == ' ' || r == '_' || r == '\n' || r == '\t'
	})); n > mostWords {
		w.add(newFlag(Instructions, where, "has %d words where a name or a value is expected", n))
	}
}

// URI returns the findings about the address of a resource.
func URI(where, uri string) []Flag {
	w := &walker{all: Text(where, uri)}
	w.sentence(where, strings.NewReplacer("%20", " ", "+", " ", "-", " ", "/", " ").Replace(uri))
	return w.all
}
