package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A conversation is with a server that behaves until its tool "echo" is called, and then misbehaves.
type conversation struct {
	out, errs io.Writer
	id        json.RawMessage // of the call
	end       int             // the status of the process, if it ends
	ends      bool
}

func (c *conversation) line(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

func (c *conversation) answer(id json.RawMessage, text string) {
	// For such texts Go quotes as JSON does.
	c.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}

// exit ends the server.
func (c *conversation) exit(status int) { c.end, c.ends = status, true }

// misdeeds are the ways to misbehave when the tool is called.
func misdeeds() map[string]func(*conversation) {
	return map[string]func(*conversation){
		"dies":    func(c *conversation) { fmt.Fprintln(c.errs, "out of cheese"); c.exit(3) },
		"babbles": func(c *conversation) { c.line("Server ready! \x1b[2J") },
		"no-rpc":  func(c *conversation) { c.line(`{"hello": "world"}`) },
		"half":    func(c *conversation) { fmt.Fprintf(c.out, `{"jsonrpc":"2.0","id":%s,"resu`, c.id); c.exit(0) },
		"batch":   func(c *conversation) { c.line(`[{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`, c.id) },
		"deep": func(c *conversation) {
			c.line(`{"jsonrpc":"2.0","id":%s,"result":%s`, c.id, strings.Repeat("[", 1<<20))
		},
		"nested":   func(c *conversation) { c.structured(strings.Repeat("[", 200) + strings.Repeat("]", 200)) },
		"long":     func(c *conversation) { c.answer(c.id, strings.Repeat("x", 5<<20)) },
		"longest":  func(c *conversation) { c.endless(strings.Repeat("x", 1<<16)) },
		"no-value": func(c *conversation) { c.line(`{"jsonrpc":"2.0","id":%s,"result":7}`, c.id) },
		"no-part": func(c *conversation) {
			c.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"spell"}]}}`, c.id)
		},
		"error": func(c *conversation) {
			c.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no \u001b[2J cheese"}}`, c.id)
		},
		"floods": func(c *conversation) {
			c.endless(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n")
		},
		"blanks": func(c *conversation) { c.endless(strings.Repeat("\n", 1<<12)) },
		"hangs":  func(*conversation) {},
		// The following answer in the end.
		"twice": func(c *conversation) { c.answer(c.id, "good"); c.answer(c.id, "bad") },
		"unknown": func(c *conversation) {
			c.answer(json.RawMessage("99"), "bad")
			c.answer(json.RawMessage(`"x"`), "bad")
			c.answer(c.id, "good")
		},
		"asks": func(c *conversation) {
			for i, method := range []string{"sampling/createMessage", "elicitation/create", "roots/list", "ping",
				"made/up"} {
				c.line(
					`{"jsonrpc":"2.0","id":"s%d","method":%q,"params":{"messages":[],"maxTokens":1,"message":"?","requestedSchema":{"type":"object"}}}`,
					i, method)
			}
			c.answer(c.id, "good")
		},
		"storm": func(c *conversation) {
			for range 20_000 {
				c.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
			c.answer(c.id, "good")
		},
		"blank": func(c *conversation) { c.line(""); c.line("  \t"); c.answer(c.id, "good") },
		"good":  func(c *conversation) { c.answer(c.id, "good") },
		// It speaks a protocol version that doesn't exist yet.
		"future": func(c *conversation) { c.answer(c.id, "good") },
	}
}

func (c *conversation) structured(v string) {
	c.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s}}`, c.id, v)
}

// endless writes a block again and again.
func (c *conversation) endless(block string) {
	for {
		if _, err := io.WriteString(c.out, block); err != nil {
			c.exit(1)
			return
		}
	}
}

// atOnce are servers that misbehave from the start.
func atOnce() map[string]func(*conversation) {
	return map[string]func(*conversation){
		"dead":    func(c *conversation) { fmt.Fprintln(c.errs, "no licence"); c.exit(4) },
		"chatty":  func(c *conversation) { c.line("starting…") },
		"silent":  func(*conversation) {},
		"endless": func(c *conversation) { c.endless(strings.Repeat("x", 1<<16)) },
	}
}

// listings are the results of tools/list that misbehaving servers send.
func listings() map[string]func(page int) string {
	tool := func(name string) string { return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name) }
	deep := strings.Repeat(`{"items":`, 100) + "{}" + strings.Repeat("}", 100)
	return map[string]func(int) string{
		"twins": func(int) string { return `"tools":[` + tool("echo") + "," + tool("echo") + "]" },
		"many": func(int) string {
			all := make([]string, 1001)
			for i := range all {
				all[i] = tool(fmt.Sprint("t", i))
			}
			return `"tools":[` + strings.Join(all, ",") + "]"
		},
		"pages": func(page int) string {
			return fmt.Sprintf(`"tools":[%s],"nextCursor":"%d"`, tool(fmt.Sprint("t", page)), page)
		},
		"heavy": func(page int) string {
			return fmt.Sprintf(
				`"tools":[{"name":"t%d","inputSchema":{"type":"object"},"description":%q}],"nextCursor":"%d"`, page,
				strings.Repeat("x", 1<<20), page)
		},
		"deeper":  func(int) string { return `"tools":[{"name":"echo","inputSchema":` + deep + "}]" },
		"none":    func(int) string { return `"tools":null` },
		"refuses": func(int) string { return "" },
		"list":    func(int) string { return `"tools":"echo"` },
		"number":  func(int) string { return `"tools":[{"name":7}]` },
	}
}

// hostile runs the server with the name in the first argument.
func hostile(args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) == 0 {
		return 2
	}
	conversation := &conversation{out: out, errs: errs}
	deed, early := atOnce()[args[0]]
	if early {
		deed(conversation)
		if !conversation.ends {
			_, _ = io.Copy(io.Discard, in)
		}
		return conversation.end
	}
	deed = misdeeds()[args[0]]
	announce, page := listings()[args[0]], 0
	if deed == nil && announce == nil {
		fmt.Fprintf(errs, "no server %q\n", args[0])
		return 2
	}
	version := "2025-06-18"
	if args[0] == "future" {
		version = "3026-01-01"
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for !conversation.ends && lines.Scan() {
		var asked struct {
			ID     json.RawMessage
			Method string
			Params struct{ ProtocolVersion string }
		}
		if json.Unmarshal(lines.Bytes(), &asked) != nil || asked.ID == nil {
			continue
		}
		switch asked.Method {
		case "initialize":
			conversation.line(
				`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true},"resources":{}},"serverInfo":{"name":"hostile","version":"1"}}}`,
				asked.ID, version)
		case "resources/list":
			conversation.line(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[]}}`, asked.ID)
		case "tools/list":
			if page++; announce != nil {
				if text := announce(page); text != "" {
					conversation.line(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, asked.ID, text)
				} else {
					conversation.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no list today"}}`,
						asked.ID)
				}
				continue
			}
			conversation.line(
				`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`,
				asked.ID)
		case "tools/call":
			if conversation.id = asked.ID; deed != nil {
				deed(conversation)
			} else {
				conversation.answer(asked.ID, "called")
			}
		case "":
		default:
			conversation.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, asked.ID)
		}
	}
	return conversation.end
}
