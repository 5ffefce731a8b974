package register

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// maxObjects bounds the objects and arrays of a file, and with it how deep hujson recurses. Real files have dozens.
const maxObjects = 10_000

// A jsonFile is the configuration of an agent in JSON with comments. Hujson keeps every byte of a file, so that
// packing the value that it read gives the file again.
type jsonFile struct {
	text           []byte
	root           hujson.Value
	table          string
	servers, entry *hujson.Object // nil for none
	open           bool           // the text lacks the line end behind its last comment
}

func openJSON(text []byte, table string) (*jsonFile, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) > maxObjects {
		return nil, fmt.Errorf("it has more than %d objects and arrays", maxObjects)
	}
	jsonFile := &jsonFile{text: text, table: table}
	if bytes.Contains(text[bytes.LastIndexByte(text, '\n')+1:], []byte("//")) {
		jsonFile.text, jsonFile.open = append(bytes.Clone(text), '\n'), true
	}
	var err error
	if jsonFile.root, err = hujson.Parse(jsonFile.text); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if err := jsonFile.unique(); err != nil {
		return nil, err
	}
	top, ok := jsonFile.root.Value.(*hujson.Object)
	if !ok {
		return nil, wrong(jsonFile.text, jsonFile.root.StartOffset, "expected an object")
	}
	if jsonFile.servers, err = jsonFile.object(top, table, table); err == nil && jsonFile.servers != nil {
		jsonFile.entry, err = jsonFile.object(jsonFile.servers, Name, table+"."+Name)
	}
	return jsonFile, err
}

// unique refuses an object with a key twice: agents don't agree on which of them counts.
func (f *jsonFile) unique() error {
	for v := range f.root.All() {
		object, _ := v.Value.(*hujson.Object)
		if object == nil {
			continue
		}
		seen := make(map[string]bool, len(object.Members))
		for _, m := range object.Members {
			key := m.Name.Value.(hujson.Literal).String()
			if seen[key] {
				return wrong(f.text, m.Name.StartOffset, "the key %q is there twice", key)
			}
			seen[key] = true
		}
	}
	return nil
}

// object returns the object under a key, nil for none.
func (f *jsonFile) object(in *hujson.Object, key, path string) (*hujson.Object, error) {
	v := member(in, key)
	if v == nil {
		return nil, nil
	}
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, wrong(f.text, v.StartOffset, "%q is not an object", path)
	}
	return object, nil
}

func member(in *hujson.Object, key string) *hujson.Value {
	for i := range in.Members {
		if in.Members[i].Name.Value.(hujson.Literal).String() == key {
			return &in.Members[i].Value
		}
	}
	return nil
}

func (f *jsonFile) command() (command command, there bool, err error) {
	if f.entry == nil {
		return command, false, nil
	}
	program, url := member(f.entry, "command"), member(f.entry, "url")
	if program == nil && url != nil {
		return command, false, wrong(f.text, url.StartOffset, atAddress, Name)
	}
	command.program = textOf(program)
	if args := member(f.entry, "args"); args != nil {
		if all, ok := args.Value.(*hujson.Array); ok {
			for i := range all.Elements {
				command.args = append(command.args, textOf(&all.Elements[i]))
			}
		}
	}
	return command, true, nil
}

// textOf returns a value that is a string, "" for any other.
func textOf(v *hujson.Value) string {
	if v == nil || v.Value.Kind() != '"' {
		return ""
	}
	return v.Value.(hujson.Literal).String()
}

func (f *jsonFile) put(all []setting) ([]byte, error) {
	switch {
	case f.entry != nil:
		var missing []setting
		for _, s := range all {
			if v := member(f.entry, s.name); v != nil {
				v.Value = hujson.Literal(s.value)
			} else {
				missing = append(missing, s)
			}
		}
		f.add(f.entry, 3, missing)
	case f.servers != nil:
		f.add(f.servers, 2, []setting{{Name, f.written(3, all)}})
	default:
		servers := f.written(2, []setting{{Name, f.written(3, all)}})
		f.add(f.root.Value.(*hujson.Object), 1, []setting{{f.table, servers}})
	}
	text := f.root.Pack()
	if f.open {
		text = text[:len(text)-1]
	}
	return text, nil
}

// written returns an object whose members are at a depth, each in a line of its own.
func (f *jsonFile) written(depth int, all []setting) []byte {
	object := &hujson.Object{}
	f.add(object, depth, all)
	return hujson.Value{Value: object}.Pack()
}

// add adds members at the end of an object, each in a line of its own. A comment behind the last member stays there.
func (f *jsonFile) add(object *hujson.Object, depth int, all []setting) {
	indent, comma := strings.Repeat(f.unit(), depth), hujson.Extra(nil)
	if n := len(object.Members); n > 0 {
		last := &object.Members[n-1]
		if own, alone := indentOf(last.Name.BeforeExtra); alone {
			indent = own
		}
		comma = last.Value.AfterExtra // hujson writes a last comma unless this is nil
	}
	for _, setting := range all {
		comment := bytes.TrimRight(object.AfterExtra, " \t\r\n")
		rest := object.AfterExtra[len(comment):]
		if !bytes.Contains(rest, []byte("\n")) {
			rest = []byte(newline(f.text) + strings.Repeat(f.unit(), depth-1))
		}
		object.Members = append(object.Members, hujson.ObjectMember{
			Name: hujson.Value{
				BeforeExtra: append(bytes.Clone(comment), newline(f.text)+indent...),
				Value:       hujson.String(setting.name),
			},
			Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: hujson.Literal(setting.value)},
		})
		object.AfterExtra = rest
	}
	if n := len(object.Members); n > 0 && comma != nil && len(all) > 0 {
		object.Members[n-1].Value.AfterExtra = hujson.Extra{}
	}
}

// indentOf returns the white space that a member's line begins with, and whether the member stands first in it.
func indentOf(before []byte) (string, bool) {
	at := bytes.LastIndexByte(before, '\n')
	line := before[at+1:]
	return string(line), at >= 0 && len(bytes.TrimLeft(line, " \t")) == 0
}

// unit returns one step of indentation: that of the first member, two spaces if it shares its line.
func (f *jsonFile) unit() string {
	if top := f.root.Value.(*hujson.Object); len(top.Members) > 0 {
		if own, alone := indentOf(top.Members[0].Name.BeforeExtra); alone && own != "" {
			return own
		}
	}
	return "  "
}
