// Package register puts rye's server into the configuration of an agent: the file in a project that says which
// servers of the Model Context Protocol the agent starts.
//
//	claude   .mcp.json
//	    {"mcpServers": {"rye": {"type": "stdio", "command": "rye", "args": ["mcp", "serve"]}}}
//	cursor   .cursor/mcp.json
//	    {"mcpServers": {"rye": {"command": "rye", "args": ["mcp", "serve", "-C", "${workspaceFolder}"]}}}
//	vscode   .vscode/mcp.json
//	    {"servers": {"rye": {"type": "stdio", "command": "rye", "args": ["mcp", "serve", "-C",
//	    "${workspaceFolder}"]}}}
//	codex    .codex/config.toml
//	    [mcp_servers.rye], command = "rye", args = ["mcp", "serve"]
//
// What is in the file already stays as it is, byte for byte: other servers, comments, order, the entry's own other
// settings. JSON may have comments and trailing commas. A file that can't be read so isn't changed.
//
// # How an edit goes through here
//
// Client.Plan reads the file, and Client.Put makes its new text: open parses it (openJSON with hujson, openTOML with
// go-toml), command says what the server's entry starts, and put writes settings into the entry, or adds one.
// Change.Write replaces the file if it is still what Plan read. Look goes the same way as far as command, for rye
// doctor.
package register

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// Name is the server's name in these files.
const Name = "rye"

// A Client is an agent that starts servers.
type Client struct {
	Name, Title string
	File        string // in the project, with slashes
	table       string // the servers, by name
	kind        bool   // an entry says that it is on standard input and output
	toml        bool
	args        []string
}

// inWorkspace names the project to a server that isn't started in it.
var inWorkspace = []string{"-C", "${workspaceFolder}"}

var clients = []Client{
	{Name: "claude", Title: "Claude Code", File: ".mcp.json", table: "mcpServers", kind: true},
	{Name: "cursor", Title: "Cursor", File: ".cursor/mcp.json", table: "mcpServers", args: inWorkspace},
	{Name: "vscode", Title: "VS Code", File: ".vscode/mcp.json", table: "servers", kind: true, args: inWorkspace},
	{Name: "codex", Title: "Codex", File: ".codex/config.toml", table: "mcp_servers", toml: true},
}

// Clients are the agents that are known.
func Clients() []Client { return slices.Clone(clients) }

// Find returns the agent of a name.
func Find(name string) (Client, error) {
	var names []string
	for _, c := range clients {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Client{}, fault.New(fault.Validation, "unknown agent %q; known: %s", name, strings.Join(names, ", "))
}

// A command is how an agent starts the server.
type command struct {
	program string
	args    []string
}

func (c Client) command(program string, more []string) command {
	return command{program, slices.Concat([]string{"mcp", "serve"}, c.args, more)}
}

func (o command) same(p command) bool { return o.program == p.program && slices.Equal(o.args, p.args) }

// settings are an entry's, in their order, with values in JSON, which are TOML's too.
func (c Client) settings(o command) (all []setting) {
	if c.kind {
		all = append(all, setting{"type", []byte(`"stdio"`)})
	}
	return append(all, setting{"command", quoted(o.program)}, setting{"args", list(o.args)})
}

type setting struct {
	name  string
	value []byte
}

// quoted returns a string as JSON writes it. TOML reads all of its escapes.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func list(all []string) []byte {
	text := []byte("[")
	for i, s := range all {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, quoted(s)...)
	}
	return append(text, ']')
}

// Snippet is a file that has nothing but the server.
func (c Client) Snippet(program string, more []string) []byte {
	text, err := c.Put(nil, program, more)
	if err != nil {
		panic(err) // an empty file takes everything
	}
	return text
}

// Put returns the text of a file with the server in it, which program starts, with more arguments behind those for
// the agent. The text is the same if the file has that already. An empty text is a file that isn't there.
func (c Client) Put(text []byte, program string, more []string) ([]byte, error) {
	want := c.command(program, more)
	file, err := c.open(text)
	if err != nil {
		return nil, err
	}
	has, there, err := file.command()
	if err != nil {
		return nil, c.unreadable(err)
	}
	if there && has.same(want) {
		return text, nil
	}
	mark := text[:len(text)-len(bytes.TrimPrefix(text, byteOrderMark))]
	after, err := file.put(c.settings(want))
	return slices.Concat(mark, after), err
}

// Starts returns the command line that a file starts the server with, and whether it has the server at all.
func (c Client) Starts(text []byte) (line []string, there bool, err error) {
	f, err := c.open(text)
	if err != nil {
		return nil, false, err
	}
	has, there, err := f.command()
	if err != nil {
		return nil, false, c.unreadable(err)
	}
	if !there {
		return nil, false, nil
	}
	return append([]string{has.program}, has.args...), true, nil
}

// atAddress is the refusal of an entry that isn't started by a command.
const atAddress = "its server %q is not started by a command but reached at an address"

// A file is one that was read.
type file interface {
	command() (command, bool, error)
	put([]setting) ([]byte, error)
}

// byteOrderMark may stand at the start of a file, and stays there.
var byteOrderMark = []byte("\xef\xbb\xbf")

func (c Client) open(text []byte) (f file, err error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	if c.toml {
		f, err = openTOML(text, c.table)
	} else {
		f, err = openJSON(text, c.table)
	}
	if err != nil {
		return nil, c.unreadable(err)
	}
	return f, nil
}

// unreadable returns the error that a file is left as it is. The hint shows what to write there by hand.
func (c Client) unreadable(err error) error {
	return fault.New(fault.Config, "%s: %v", c.File, err).On("file", c.File).Try("rye mcp config " + c.Name)
}

// MaxBytes is the longest file that is read.
const MaxBytes = 4 << 20

// wrong returns an error about what stands at an offset.
func wrong(text []byte, at int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+bytes.Count(text[:at], []byte("\n")), fmt.Sprintf(format, args...))
}

// newline is how the lines of a text end.
func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}
