package parse

import (
	"slices"

	"github.com/rye-build/rye/ai/python"
	"github.com/rye-build/rye/ai/value"
)

const docstring = "__docstring__"

// readPython is the parser python_ast. A module's own name __docstring__ wins over its docstring.
func readPython(f *file) {
	m := python.Read(f.content)
	for _, p := range m.Problems {
		f.add(p)
	}
	f.fields = m.Names
	if m.Doc != "" && m.Names.Get(docstring) == nil {
		entry := value.Entry{Key: docstring, At: m.DocAt, Value: text(m.DocAt, m.Doc)}
		fields := *m.Names
		fields.Map = append(slices.Clip(fields.Map), entry)
		f.fields = &fields
	}
}
