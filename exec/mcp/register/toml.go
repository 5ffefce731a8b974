package register

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// A tomlFile is the configuration of an agent in TOML. The library reads and checks it; of the table of the server
// it also says where its values stand, so that nothing else is written again.
type tomlFile struct {
	text   []byte
	header string                    // of the server's table
	entry  map[string]any            // what that says
	values map[string]unstable.Range // where its values stand
	end    int                       // behind its last value, or its header; 0 for no table
}

func openTOML(text []byte, table string) (*tomlFile, error) {
	tomlFile := &tomlFile{text: text, header: "[" + table + "." + Name + "]", values: map[string]unstable.Range{}}
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		return nil, withLine(err)
	}
	servers, _ := all[table].(map[string]any)
	tomlFile.entry, _ = servers[Name].(map[string]any)
	named := tomlFile.find(table)
	if tomlFile.end > 0 {
		return tomlFile, nil
	}
	// Dotted keys and inline tables would need other changes.
	if toml.Unmarshal(tomlFile.appended(nil), &all) != nil {
		return nil, wrong(text, named, "the server isn't written as a table %s", tomlFile.header)
	}
	return tomlFile, nil
}

// withLine returns the library's error with its line.
func withLine(err error) error {
	text := strings.TrimPrefix(err.Error(), "toml: ")
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := at.Position()
		return fmt.Errorf("line %d, column %d: %s", line, column, text)
	}
	return errors.New(text)
}

// find looks for the server's table, and returns where the file first names the table of all servers.
func (f *tomlFile) find(table string) (named int) {
	var parser unstable.Parser
	parser.Reset(f.text)
	inside := false
	for parser.NextExpression() {
		node := parser.Expression()
		var path []string
		end := 0
		for key := node.Key(); key.Next(); {
			path = append(path, string(key.Node().Data))
			end = int(key.Node().Raw.Offset + key.Node().Raw.Length)
			if named == 0 && len(path) == 1 && path[0] == table {
				named = end
			}
		}
		switch {
		case node.Kind != unstable.KeyValue:
			if inside = node.Kind == unstable.Table && slices.Equal(path, []string{table, Name}); inside {
				f.end = end
			}
		case inside:
			f.end = int(node.Raw.Offset + node.Raw.Length)
			if len(path) == 1 {
				from := end + bytes.IndexByte(f.text[end:], '=') + 1
				from += len(f.text[from:]) - len(bytes.TrimLeft(f.text[from:], " \t"))
				f.values[path[0]] = parser.Range(f.text[from:f.end])
			}
		}
	}
	return named
}

func (f *tomlFile) command() (command command, there bool, err error) {
	if f.end == 0 {
		return command, false, nil
	}
	_, there = f.entry["command"]
	if url, ok := f.values["url"]; ok && !there {
		return command, false, wrong(f.text, int(url.Offset), atAddress, Name)
	}
	command.program, _ = f.entry["command"].(string)
	args, _ := f.entry["args"].([]any)
	for _, arg := range args {
		text, _ := arg.(string)
		command.args = append(command.args, text)
	}
	return command, true, nil
}

func (f *tomlFile) put(all []setting) ([]byte, error) {
	if f.end == 0 {
		return f.appended(all), nil
	}
	// From the end to the start, so that offsets stay right.
	text := f.text
	behind, more := len(text), ""
	if i := bytes.IndexByte(text[f.end:], '\n'); i >= 0 {
		behind = f.end + i + 1
	} else {
		more = newline(text)
	}
	var there []setting
	for _, s := range all {
		if _, ok := f.values[s.name]; ok {
			there = append(there, s)
		} else {
			more += f.line(s)
		}
	}
	if len(there) < len(all) {
		text = slices.Concat(text[:behind], []byte(more), text[behind:])
	}
	at := func(s setting) int { return int(f.values[s.name].Offset) }
	slices.SortFunc(there, func(a, b setting) int { return at(b) - at(a) })
	for _, s := range there {
		text = slices.Concat(text[:at(s)], s.value, text[at(s)+int(f.values[s.name].Length):])
	}
	return text, nil
}

// appended returns the file with the server's table at its end.
func (f *tomlFile) appended(all []setting) []byte {
	text, end := slices.Clone(f.text), newline(f.text)
	if len(text) > 0 {
		if !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, end...)
		}
		text = append(text, end...)
	}
	text = append(text, f.header+end...)
	for _, s := range all {
		text = append(text, f.line(s)...)
	}
	return text
}

func (f *tomlFile) line(s setting) string {
	return fmt.Sprintf("%s = %s%s", s.name, s.value, newline(f.text))
}
