package register_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/mcp/register"
)

func find(t testing.TB, name string) register.Client {
	t.Helper()
	c, err := register.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPut: what a file becomes, and that it stays so.
func TestPut(t *testing.T) {
	for _, c := range []struct {
		name, client, before, after string
	}{
		{"nothing", "claude", "", `{
  "mcpServers": {
    "rye": {
      "type": "stdio",
      "command": "rye",
      "args": ["mcp", "serve"]
    }
  }
}
`},
		{"an empty object", "vscode", "{ }", `{
  "servers": {
    "rye": {
      "type": "stdio",
      "command": "rye",
      "args": ["mcp", "serve", "-C", "${workspaceFolder}"]
    }
  }
}`},
		{"comments, tabs, a trailing comma", "cursor", `// our servers
{
	"other": [1, 2,], // kept
	"mcpServers": {
		"web": {"command": "web"}, // theirs
		/* the last one */
	},
}
`, `// our servers
{
	"other": [1, 2,], // kept
	"mcpServers": {
		"web": {"command": "web"}, // theirs
		/* the last one */
		"rye": {
			"command": "rye",
			"args": ["mcp", "serve", "-C", "${workspaceFolder}"]
		},
	},
}
`},
		{"a comment behind the last member", "claude", "{\n    \"mcpServers\": {\n        \"web\": {} // theirs\n    }\n}\n", `{
    "mcpServers": {
        "web": {}, // theirs
        "rye": {
            "type": "stdio",
            "command": "rye",
            "args": ["mcp", "serve"]
        }
    }
}
`},
		{"one line", "claude", `{"mcpServers":{"web":{}}}`, `{"mcpServers":{"web":{},
    "rye": {
      "type": "stdio",
      "command": "rye",
      "args": ["mcp", "serve"]
    }
  }}`},
		{"another command", "claude",
			`{"mcpServers": {"rye": {"env": {"A": "b"}, "command": "/old/rye", /* why */ "args": []}}}`,
			`{"mcpServers": {"rye": {"env": {"A": "b"}, "command": "rye", /* why */ "args": ["mcp", "serve"],
      "type": "stdio"
    }}}`},
		{"line ends of Windows", "claude", "{\r\n  \"a\": 1\r\n}\r\n",
			"{\r\n  \"a\": 1,\r\n  \"mcpServers\": {\r\n    \"rye\": {\r\n      \"type\": \"stdio\",\r\n      \"command\": \"rye\",\r\n      \"args\": [\"mcp\", \"serve\"]\r\n    }\r\n  }\r\n}\r\n"},
		{"a comment without a line end", "cursor", "{\n}\n// ours",
			"{\n  \"mcpServers\": {\n    \"rye\": {\n      \"command\": \"rye\",\n" +
				"      \"args\": [\"mcp\", \"serve\", \"-C\", \"${workspaceFolder}\"]\n    }\n  }\n}\n// ours"},
		{"a mark at the start", "cursor", "\ufeff{}",
			"\ufeff{\n  \"mcpServers\": {\n    \"rye\": {\n      \"command\": \"rye\",\n      \"args\": [\"mcp\", \"serve\", \"-C\", \"${workspaceFolder}\"]\n    }\n  }\n}"},

		{"nothing", "codex", "", "[mcp_servers.rye]\ncommand = \"rye\"\nargs = [\"mcp\", \"serve\"]\n"},
		{"other tables", "codex",
			"model = \"o\" # mine\n\n[mcp_servers.web] # theirs\ncommand = \"web\"\nargs = [\n  '[mcp_servers.rye]', # no table\n]",
			"model = \"o\" # mine\n\n[mcp_servers.web] # theirs\ncommand = \"web\"\nargs = [\n  '[mcp_servers.rye]', # no table\n]\n\n[mcp_servers.rye]\ncommand = \"rye\"\nargs = [\"mcp\", \"serve\"]\n"},
		{"another command", "codex",
			"[mcp_servers.\"rye\"]\nenabled = true\ncommand = '/old/rye' # why\n\n[other]\nx = \"\"\"\n[mcp_servers.rye]\n\"\"\"\n",
			"[mcp_servers.\"rye\"]\nenabled = true\ncommand = \"rye\" # why\nargs = [\"mcp\", \"serve\"]\n\n[other]\nx = \"\"\"\n[mcp_servers.rye]\n\"\"\"\n"},
		{"a list over lines", "codex",
			"\ufeff[mcp_servers.rye]\r\n\"args\"  =  [\r\n  'x', # why\r\n]# those\r\n  command='y'\r\n\r\n[mcp_servers.rye.env]\r\nA = 'b'\r\n",
			"\ufeff[mcp_servers.rye]\r\n\"args\"  =  [\"mcp\", \"serve\"]# those\r\n  command=\"rye\"\r\n\r\n[mcp_servers.rye.env]\r\nA = 'b'\r\n"},
		{"a table below it", "codex", "[mcp_servers.rye.env]\nA = 'b'\n",
			"[mcp_servers.rye.env]\nA = 'b'\n\n[mcp_servers.rye]\ncommand = \"rye\"\nargs = [\"mcp\", \"serve\"]\n"},
		{"a table without keys", "codex", "[mcp_servers.rye]",
			"[mcp_servers.rye]\ncommand = \"rye\"\nargs = [\"mcp\", \"serve\"]\n"},
	} {
		t.Run(c.client+" "+c.name, func(t *testing.T) {
			k := find(t, c.client)
			after, err := k.Put([]byte(c.before), "rye", nil)
			if err != nil || string(after) != c.after {
				t.Fatalf("%v\n%s\nwant\n%s", err, after, c.after)
			}
			if again, err := k.Put(after, "rye", nil); err != nil || !bytes.Equal(again, after) {
				t.Errorf("again: %v\n%s", err, again)
			}
			line, there, err := k.Starts(after)
			if err != nil || !there || !slices.Equal(line[:3], []string{"rye", "mcp", "serve"}) {
				t.Errorf("%q, %v, %v", line, there, err)
			}
		})
	}
}

// TestKept: a file that can't be read, or that says it in a way that isn't understood, is left as it is.
func TestKept(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": `:                      "line 1, column 16: ",
		"{\n\"a\": 1\n\"b\": 2}":               `line 3, column 1: invalid character '"' after object value (expecting ',' or '}')`,
		`{"a": 1, "a": 2}`:                     `the key "a" is there twice`,
		`[]`:                                   "expected an object",
		`{"mcpServers": []}`:                   `line 1: "mcpServers" is not an object`,
		`{"mcpServers": {"rye": 1}}`:           `line 1: "mcpServers.rye" is not an object`,
		`{"mcpServers": {"rye": {"url": ""}}}`: "reached at an address",
		`{} {}`:                                "line 1, column 4: invalid character '{' after top-level value",
		`// nothing`:                           "parsing value: unexpected EOF",
		`{"a": /* b`:                           "line 1, column 7: parsing comment: unexpected EOF",
		`{"a": "b`:                             "parsing string: unexpected EOF",
		`{"a": "\x"}`:                          `invalid literal: "\x"`,
		`{a: 1}`:                               "invalid literal: a",
		`{"a" 1}`:                              "invalid character '1' after object name",
		`{"a": tru}`:                           "line 1, column 7: invalid literal: tru",
		strings.Repeat(`{"a":`, 1<<20):         "more than 10000 objects",
	} {
		if after, err := find(t, "claude").Put([]byte(text), "rye", nil); err == nil ||
			!strings.Contains(err.Error(), want) || after != nil {
			t.Errorf("%.200s: %v; want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"mcp_servers = {}":                     "isn't written as a table",
		"mcp_servers.rye.command = 'x'":        "isn't written as a table",
		"[mcp_servers]\nrye = {command = 'x'}": "isn't written as a table",
		"[mcp_servers.rye]\nurl = 'x'":         "reached at an address",
		"x = 1\n[[mcp_servers.rye]]":           "line 2: the server isn't written as a table [mcp_servers.rye]",
		"[mcp_servers.rye]\n[mcp_servers.rye]": "line 2, column 2: table rye already exists",
		"[a]\nb = 1\nb = 2":                    "line 3, column 1: key b is already defined",
		"[a":                                   "expected ']' to close table name",
		"a":                                    "line 1, column 1: expected '=' after key",
		"a = ":                                 "expected value",
		"a = [1":                               "array is incomplete",
		"a = 'b":                               "unterminated literal string",
		"a = \"\"\"b":                          "string not terminated",
		"= 1":                                  "invalid character at start of key",
		"a = 1]":                               "expected newline",
		"\"\\U\" = 1":                          "escape sequence is too short",
		"a = " + strings.Repeat("[", 1<<20):    "inline tables are n",
	} {
		if after, err := find(t, "codex").Put([]byte(text), "rye", nil); err == nil ||
			!strings.Contains(err.Error(), want) || after != nil {
			t.Errorf("%.200s: %v; want %q", text, err, want)
		}
	}
	if _, err := register.Find("emacs"); err == nil ||
		!strings.Contains(err.Error(), "claude, cursor, vscode, codex") {
		t.Error(err)
	}
	for _, c := range register.Clients() {
		line, there, err := c.Starts(c.Snippet("/opt/rye", []string{"--tools", "a\"b"}))
		if err != nil || !there || line[0] != "/opt/rye" || line[len(line)-1] != "a\"b" {
			t.Errorf("%s: %q, %v", c.Name, line, err)
		}
		if line, there, err := c.Starts(nil); line != nil || there || err != nil {
			t.Errorf("%s without a file: %q, %v, %v", c.Name, line, there, err)
		}
	}
}

// within reports whether a text has another in it, with more between its bytes.
func within(text, part []byte) bool {
	for _, c := range text {
		if len(part) > 0 && c == part[0] {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// fuzzed holds Put to what it promises for any file.
func fuzzed(f *testing.F, client string) {
	f.Fuzz(func(t *testing.T, text []byte) {
		c := find(t, client)
		_, there, err := c.Starts(text)
		if err != nil {
			return
		}
		after, err := c.Put(text, "rye", nil)
		if err != nil {
			t.Fatal(err)
		}
		if line, now, err := c.Starts(after); err != nil || !now || len(line) < 3 || line[0] != "rye" {
			t.Fatalf("%q\n%s", line, after)
		}
		if again, err := c.Put(after, "rye", nil); err != nil || !bytes.Equal(again, after) {
			t.Fatalf("%v\n%s\n%s", err, after, again)
		}
		if !there && len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))) > 0 &&
			!within(after, bytes.TrimRight(text, " \t\r\n}")) {
			t.Fatalf("%s\nbecame\n%s", text, after)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "{}",
		"{\n  // a\n  \"mcpServers\": {\n    \"web\": {\"command\": \"x\", \"args\": [\"y\"],},\n  },\n}\n",
		`{"mcpServers":{"rye":{"args":[1]}}}`} {
		f.Add([]byte(s))
	}
	fuzzed(f, "claude")
}

func FuzzTOML(f *testing.F) {
	for _, s := range []string{"",
		"a = 1979-05-27 07:32:00 # b\n[mcp_servers.web]\nargs = ['a', \"b\"]\n[[x]]\ny = {z = [1,\n2]}\n",
		"[mcp_servers.rye]\nargs = ['x']\nenv = {A = \"b\"}\n[mcp_servers.rye.tools]\n"} {
		f.Add([]byte(s))
	}
	fuzzed(f, "codex")
}

// TestWrite: the file in a project is written once it was planned, with its mode, and not if it has changed meanwhile.
func TestWrite(t *testing.T) {
	project := t.TempDir()
	at := filepath.Join(project, ".cursor", "mcp.json")
	plan := func() *register.Change {
		t.Helper()
		n, err := find(t, "cursor").Plan(project, "rye", nil)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := plan()
	if _, err := os.Stat(filepath.Dir(at)); !os.IsNotExist(err) {
		t.Errorf("planning has written: %v", err)
	}
	if err := n.Write(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(at); err != nil || !bytes.Equal(text, n.After) || n.Path != at {
		t.Errorf("%s, %v", text, err)
	}
	if n = plan(); !bytes.Equal(n.Before, n.After) {
		t.Errorf("%s", n.After)
	}

	if err := errors.Join(os.WriteFile(at, []byte("{}"), 0o600), os.Chmod(at, 0o600)); err != nil {
		t.Fatal(err)
	}
	n = plan()
	if err := os.WriteFile(at, []byte(`{"a": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Write(); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	if err := plan().Write(); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(at); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Error(fi.Mode(), err)
	}

	// A link may lead wherever a stranger wants the file written.
	other := t.TempDir()
	if err := os.Symlink(other, filepath.Join(project, ".vscode")); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, "vscode").Plan(project, "rye", nil); fault.CodeOf(err) != fault.Denied {
		t.Error(err)
	}
}

// TestLook: what the files in a project start, and why that can't work.
func TestLook(t *testing.T) {
	project, bin := t.TempDir(), t.TempDir()
	self := filepath.Join(bin, "rye")
	if runtime.GOOS == "windows" {
		self += ".exe"
	}
	for path, text := range map[string]string{
		self:                                "",
		filepath.Join(project, ".mcp.json"): `{"mcpServers": {"rye": {"command": "rye", "args": ["mcp", "serve"]}}}`,
		filepath.Join(project, ".cursor/mcp.json"): `{"mcpServers": {"web": {}}}`,
		filepath.Join(project, ".vscode/mcp.json"): `{"servers": {"rye": {"command": "rye", "args": ["serve"]}}}`,
		filepath.Join(project, ".codex/config.toml"): "[mcp_servers.rye]\ncommand = \"" + filepath.ToSlash(bin) +
			"/none\"\nargs = [\"mcp\", \"serve\"]\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := register.Program(self, bin); got != "rye" {
		t.Errorf("%q", got)
	}
	if got := register.Program(self, project); got != self {
		t.Errorf("%q", got)
	}
	look := func(path string) (all []string) {
		for _, f := range register.Look(project, path) {
			line := f.Client.Name
			if f.Err != nil {
				line += ": " + f.Err.Error()
			}
			all = append(all, line)
		}
		return all
	}
	got := look(bin)
	if len(got) != 3 || got[0] != "claude" || !strings.Contains(got[1], `without "mcp serve"`) ||
		!strings.Contains(got[2], "none\", which isn't there") {
		t.Errorf("%q", got)
	}
	if got := look(project); len(got) != 3 ||
		!strings.Contains(got[0], `starts the program "rye", which isn't there`) {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filepath.Join(project, ".mcp.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := look(bin); len(got) != 3 || !strings.Contains(got[0], ".mcp.json: line 1, column 2: ") {
		t.Errorf("%q", got)
	}
}
