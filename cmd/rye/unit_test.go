package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/oauth/oauthtest"
	"github.com/rye-build/rye/manifest/key"
)

// testHost is a host without terminal, with the variables env.
func testHost(env ...string) (h cli.Host, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return cli.Host{
		Stdin:   strings.NewReader(""),
		Stdout:  cli.Stream{Writer: stdout},
		Stderr:  cli.Stream{Writer: stderr},
		Environ: env,
		Getwd:   os.Getwd,
		Now:     func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}, stdout, stderr
}

// TestNarrow: a grammar of the commands that a line can mean reads it as the grammar of all does.
func TestNarrow(t *testing.T) {
	none := func() cli.Runner { return new(cli.VersionRun) }
	cmds := []cli.Command{
		{Path: "lock", New: none}, {Path: "store", Help: "group"}, {Path: "store put", New: none},
		{Path: "store ls", New: none}, {Path: "put", New: none}, {Path: "deep"}, {Path: "deep er"},
		{Path: "deep er still", New: none},
	}
	for _, line := range []string{
		"lock", "store put", "store ls", "put", "-C lock store put", "--store put store ls", "--store=x put",
		"deep er still",
		"store put --json", "store put -- lock", "store", "store pu", "lock put", "-q -v store ls", "deep er",
		"still er deep", "",
	} {
		args := strings.Fields(line)
		all, errAll := cli.NewGrammar(new(cli.Globals), cmds).Parse(args)
		few, errFew := cli.NewGrammar(new(cli.Globals), cli.Narrow(cmds, args)).Parse(args)
		if (errAll == nil) != (errFew == nil) {
			t.Fatalf("%q: all %v, few %v", line, errAll, errFew)
		}
		if errAll == nil && all.Selected().Path() != few.Selected().Path() {
			t.Errorf("%q: all %q, few %q", line, all.Selected().Path(), few.Selected().Path())
		}
	}
	if n := len(cli.Narrow(cmds, []string{"-C", "x", "store", "put"})); n != 3 {
		t.Errorf("store put needs %d commands, want store, store put, put", n)
	}
}

// TestTable: what nothing else would find wrong in the table of commands.
func TestTable(t *testing.T) {
	seen := map[string]string{}
	cmds := commands()
	root := cli.NewGrammar(new(cli.Globals), cmds).Model.Node
	global := cli.FlagNames(root)
	for _, c := range cmds {
		if c.Help == "" || !strings.HasSuffix(c.Help, ".") {
			t.Errorf("%s: help %q", c.Path, c.Help)
		}
		if first, _, _ := strings.Cut(c.Help, " "); len(strings.Fields(c.Help)) > 12 || first == "Say" {
			t.Errorf("%s: help %q: an imperative of at most 12 words", c.Path, c.Help)
		}
		if c.New == nil {
			continue
		}
		if c.Schema == "" || c.Output == nil {
			t.Errorf("%s: schema %q, output %T", c.Path, c.Schema, c.Output)
		}
		for _, word := range append(slices.Clone(c.Aka), c.Path) {
			if seen[word] != "" {
				t.Errorf("%q leads to %q and %q", word, seen[word], c.Path)
			}
			seen[word] = c.Path
			// A command that is no group takes other words as arguments, so an alias below it would never be found.
			if i := strings.LastIndexByte(word, ' '); i >= 0 && !strings.HasPrefix(c.Path, word[:i+1]) {
				t.Errorf("%q is not below the group of %q", word, c.Path)
			}
		}
		node := root
		for word := range strings.FieldsSeq(c.Path) {
			node = node.Children[slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })]
		}
		values := slices.Clone(node.Positional)
		for _, flag := range node.Flags {
			values = append(values, flag.Value)
		}
		for _, v := range values {
			if v.Help == "" || !strings.HasSuffix(v.Help, ".") || len(strings.Fields(v.Help)) > 12 {
				t.Errorf("%s: %s: help %q: at most 12 words and a period", c.Path, v.Name, v.Help)
			}
		}
		for _, flag := range node.Flags {
			if slices.Contains(global, "--"+flag.Name) || slices.ContainsFunc(root.Flags, func(f *kong.Flag) bool {
				return f.Short != 0 && f.Short == flag.Short
			}) {
				t.Errorf("%s: --%s hides a global flag", c.Path, flag.Name)
			}
		}
	}
}

// TestFrontPage: rye --help fits on one screen and names every command, the daily ones first.
func TestFrontPage(t *testing.T) {
	h, stdout, _ := testHost()
	if status := cli.Run(h, commands(), []string{"--help"}); status != fault.ExitDone {
		t.Fatal(status)
	}
	page := stdout.String()
	if n := strings.Count(page, "\n"); n > 50 {
		t.Errorf("%d lines, want at most 50:\n%s", n, page)
	}
	everyDay, _, _ := strings.Cut(page, "\n\nMore:\n")
	if n := strings.Count(everyDay, "\n  "); !strings.Contains(everyDay, "\nEvery day:\n  init ") || n != 10 {
		t.Errorf("%d lines of daily commands:\n%s", n, everyDay)
	}
	for _, c := range commands() {
		if named := strings.Contains(page, " "+c.Path); named != (!c.Hidden && !strings.Contains(c.Path, " ")) &&
			c.New != nil {
			t.Errorf("%s: on the page: %v", c.Path, named)
		}
	}
	for line := range strings.Lines(page) {
		if len(line) > 101 {
			t.Errorf("wider than 100: %q", line)
		}
	}
}

func TestCodes(t *testing.T) {
	want := strings.Fields(`VALIDATION_FAILED SCHEMA_NOT_FOUND VERSION_MISMATCH TOOL_NOT_FOUND EXECUTOR_NOT_FOUND
		CIRCULAR_DEPENDENCY CHAIN_TOO_DEEP EXECUTION_FAILED TIMEOUT RESOURCE_EXCEEDED AUTH_REQUIRED AUTH_FAILED SESSION_EXPIRED
		REGISTRY_ERROR ITEM_NOT_FOUND FILE_SYSTEM_ERROR PARSING_ERROR CONFIG_ERROR UNKNOWN_ERROR INTEGRITY_FAILED UNSIGNED
		SIGNATURE_INVALID UNTRUSTED_KEY KEY_REVOKED EXPIRED BELOW_THRESHOLD ROLLBACK_DETECTED LOCK_MISMATCH NOT_LOCKED OFFLINE
		PERMISSION_DENIED POLICY_DENIED APPROVAL_REQUIRED LIMIT_EXCEEDED BUDGET_EXCEEDED SANDBOX_UNAVAILABLE AMBIGUOUS BUSY
		CONFLICT RATE_LIMITED UNAVAILABLE CANCELLED`)
	statuses := []int{}
	for _, e := range fault.Exits() {
		statuses = append(statuses, e.Exit)
	}
	var got []string
	for _, l := range fault.Table() {
		got = append(got, string(l.Code))
		if l.Help == "" || !slices.Contains(statuses, l.Exit) || l.Exit == fault.ExitDone {
			t.Errorf("%+v", l)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if l := fault.New("NO_SUCH_CODE", "x").Line(); l.Code != fault.Unknown {
		t.Errorf("a code outside the table is %q", l.Code)
	}
	if l := fault.New(fault.Integrity, "x").Asked().Line(); l.Exit != fault.ExitNo {
		t.Errorf("an asking command exits with %d", l.Exit)
	}
}

func TestClassify(t *testing.T) {
	of := func(err error) error { return fmt.Errorf("around: %w", &fs.PathError{Op: "open", Path: "x", Err: err}) }
	for _, test := range []struct {
		err  error
		code fault.Code
		exit int
		why  string
	}{
		{errors.New("odd"), fault.Unknown, fault.ExitNo, ""},
		{fmt.Errorf("x: %w", context.Canceled), fault.Cancelled, fault.ExitInterrupted, ""},
		{context.DeadlineExceeded, fault.Timeout, fault.ExitNo, ""},
		{fmt.Errorf("object x: %w", fs.ErrNotExist), fault.NotFound, fault.ExitMissing, ""},
		{of(syscall.ENOENT), fault.Files, fault.ExitMissing, ""},
		{of(syscall.ENOSPC), fault.Files, fault.ExitNo, "the disk is full"},
		{of(syscall.EROFS), fault.Files, fault.ExitNo, "the file system is read-only"},
		{of(syscall.EACCES), fault.Files, fault.ExitNo, "this user has no permission"},
		{of(syscall.EPERM), fault.Files, fault.ExitNo, "this user has no permission"},
		{of(syscall.EMFILE), fault.Files, fault.ExitNo, "this process has too many open files"},
		{&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EIO}, fault.Files, fault.ExitNo,
			"the disk reports an error: check the kernel log first"},
		{os.NewSyscallError("fsync", syscall.ENOSPC), fault.Files, fault.ExitNo, "the disk is full"},
		{errors.Join(errors.New("a"), fault.New(fault.Busy, "b")), fault.Busy, fault.ExitNo, ""},
	} {
		f := fault.Of(test.err)
		if l := f.Line(); l.Code != test.code || l.Exit != test.exit || strings.Join(f.Why, ";") != test.why {
			t.Errorf("%v: %s, exit %d, %q", test.err, l.Code, l.Exit, f.Why)
		}
	}
	for err, hint := range map[error]string{of(syscall.ENOSPC): "df -h", errors.New("odd"): "rye audit verify"} {
		f := fault.Of(exec.NotLogged(model.Ref{}, false, err))
		if l := f.Line(); l.Code != fault.Files || l.Exit != fault.ExitNo || strings.Join(f.Hint, ";") != hint {
			t.Errorf("%v: %s, exit %d, %q", err, l.Code, l.Exit, f.Hint)
		}
	}
}

func TestEscape(t *testing.T) {
	if got := cli.Escape(hostile, false); got != hostileShown {
		t.Errorf("got  %s\nwant %s", got, hostileShown)
	}
	if got := cli.Escape("ä日\U0001f600x", true); got != `\u00e4\u65e5\U0001f600x` {
		t.Errorf("ascii: %s", got)
	}
	if got := cli.Escape("a\ufe0fb\U000e0101c\u2800 ❤️ \xff", false); got != `a\ufe0fb\U000e0101c\u2800 ❤️ \xff` {
		t.Errorf("invisible: %+q", got)
	}
	if n := testing.AllocsPerRun(100, func() { cli.Escape("plain text, nothing to do", false) }); n > 0 {
		t.Errorf("%v allocations for plain text", n)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add(hostile, false)
	f.Add("plain", true)
	f.Fuzz(func(t *testing.T, s string, ascii bool) {
		got := cli.Escape(s, ascii)
		if again := cli.Escape(got, ascii); again != got {
			t.Errorf("not stable: %q, then %q", got, again)
		}
		for _, r := range got {
			if r < ' ' || r == 0x7f || r == '\u202e' || ascii && r > 0x7e {
				t.Errorf("%q lets %U through", s, r)
			}
		}
	})
}

type hostileAnswer struct {
	Body string `json:"text"`
}

func (h hostileAnswer) Text(t *cli.Terminal) {
	t.Printf("%s\n", h.Body)
	t.Rows([][]string{{h.Body, h.Body}, {"x", "y"}})
}

// TestHostileOutput: nothing that a command prints in any way reaches a terminal raw, JSON included.
func TestHostileOutput(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		h, stdout, stderr := testHost("CLICOLOR_FORCE=0")
		term := h.Terminal(false)
		term.Json, term.Debug, term.Verbose = asJSON, true, true
		err := fmt.Errorf("around: %w", errors.New(hostile))
		term.Note("%s", hostile)
		term.Warn("%v", err)
		term.Finish("x/1", hostileAnswer{hostile}, nil)
		term.Finish("x/1", nil, fault.New(fault.Unknown, "%s", hostile).Because(hostile).Try(hostile).From(err))
		for _, b := range stdout.String() + stderr.String() {
			if b != '\n' && (b < ' ' || b == 0x7f || b >= 0x80 && b < 0xa0 || b == 0x202e || b == 0x200b) {
				t.Errorf("json %v: %U let through in %q", asJSON, b, stdout.String()+stderr.String())
				break
			}
		}
		if asJSON {
			var reply struct{ Data struct{ Text string } }
			if err := json.NewDecoder(stdout).Decode(&reply); err != nil ||
				reply.Data.Text != strings.ToValidUTF8(hostile, "\ufffd") {
				t.Errorf("the reply says %q, %v", reply.Data.Text, err)
			}
		}
	}
}

func TestColour(t *testing.T) {
	for _, test := range []struct {
		env      string
		tty, off bool
		want     bool
	}{
		{"", false, false, false},
		{"", true, false, true},
		{"", true, true, false},
		{"NO_COLOR=1", true, false, false},
		{"NO_COLOR=1 CLICOLOR_FORCE=1", true, false, false},
		{"CLICOLOR_FORCE=1", false, false, true},
		{"CLICOLOR_FORCE=0", false, false, false},
		{"TERM=dumb", true, false, false},
		{"TERM=dumb CLICOLOR_FORCE=1", true, false, true},
	} {
		h, _, _ := testHost(strings.Fields(test.env)...)
		h.Stdout.Tty, h.Stderr.Tty = test.tty, test.tty
		if got := h.Terminal(test.off).Stderr.Color; got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestASCII(t *testing.T) {
	for env, want := range map[string]bool{
		"": false, "LANG=C": true, "LANG=de_DE.UTF-8": false, "LC_ALL=POSIX LANG=de_DE.UTF-8": true,
		"LC_CTYPE=C.utf8 LANG=C": false,
	} {
		h, _, _ := testHost(strings.Fields(env)...)
		if h.Terminal(false).Ascii {
			t.Errorf("%q: what isn't shown is escaped", env)
		}
		h.Stdout.Tty = true
		if got := h.Terminal(false).Ascii; got != want {
			t.Errorf("%q: %v", env, got)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "out", Err: syscall.ENOSPC}
}

// TestLostOutput: a command whose output couldn't be written hasn't succeeded.
func TestLostOutput(t *testing.T) {
	for _, line := range []string{"version", "version --json", "completion bash"} {
		h, _, stderr := testHost()
		h.Stdout.Writer = failingWriter{}
		if got := cli.Run(h, commands(), strings.Fields(line)); got != fault.ExitNo ||
			!strings.Contains(stderr.String(), "the disk is full") {
			t.Errorf("%s: exit %d, %q", line, got, stderr)
		}
	}
}

// TestArgumentBytes: an argument isn't read as another one.
func TestArgumentBytes(t *testing.T) {
	for _, args := range [][]string{{"store", "put", "a\xffb"}, {"exec", "tool:acme/x", "-p", "a=\xff"},
		{"-C", "\xff", "version"}} {
		if _, err := cli.Parse(commands(), args); err == nil || !strings.HasSuffix(err.Error(), " isn't UTF-8") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestCancellable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	data := bytes.Repeat([]byte("0123456789"), 50000)
	got, err := io.ReadAll(cli.Cancellable(ctx, bytes.NewReader(data)))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	blocked, w := io.Pipe()
	defer w.Close()
	r := cli.Cancellable(ctx, blocked)
	go cancel()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("again: %v", err)
	}
}

// TestSchemas keeps every output's schema, and that outputs keep to it.
func TestSchemas(t *testing.T) {
	var b bytes.Buffer
	for _, n := range initcmd.SchemasOf(commands()) {
		doc, err := json.MarshalIndent(initcmd.SchemaDocument(n.Name, n.Of), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(doc, '\n'))
	}
	goldentest.File(t, "testdata/schemas.json", b.Bytes())
	// Every command is run once, on a store that holds one directory.
	home, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o666); err != nil {
		t.Fatal(err)
	}
	made, err := key.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pem, tool, public := filepath.Join(dir, "key.pem"), filepath.Join(t.TempDir(), "a.py"), made.Public().String()
	if err := errors.Join(os.WriteFile(pem, made.PEM(), 0o600),
		os.WriteFile(tool, []byte("print(1)\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(t.TempDir(), "project")
	words := map[string][]string{
		"init": {project}, "new": {"-C", project, "tool", "acme/x"}, "ls": {"-C", project},
		"show": {"-C", project, "tool:acme/x"},
		"load": {"-C", project, "tool:acme/x", "--to", "user"}, "mv": {"-C", project, "tool:acme/x", "acme/y"},
		"rm": {"-C", project, "tool:acme/y", "--yes"}, "key new": {"second"},
		"key import": {pem, "other"}, "key rotate": {"--out", filepath.Join(t.TempDir(), "rotation.yaml")},
		"key remove": {"other", "--yes"},
		"trust add":  {public, "--owner", "X", "--yes"}, "trust check": {"tool:a"},
		"trust revoke": {"x", "--reason", "lost", "--yes"},
		"trust remove": {"x", "--yes"}, "sign": {tool, "--as", "tool:a"}, "verify": {tool, "--as", "tool:a"},
		"completion": {"zsh"}, "search": {"signature"}, "store cat": {"app:a"}, "store tree": {"app"},
		"store put":      {"--ref", "app", dir},
		"store checkout": {"app", filepath.Join(t.TempDir(), "out")},
	}
	for path, args := range bundleWords(t, home, project) {
		words[path] = args
	}
	for path, args := range auditWords(t, home) {
		words[path] = args
	}
	for path, args := range threadWords(t, home) {
		words[path] = args
	}
	for path, args := range approvalWords(t, home) {
		words[path] = args
	}
	words["exec"], words["build"], words["run"] = execWords(t), buildWords(t, home), runWords(t, home)
	words["thread resume"], words["thread list"] = resumeWords(t, home), words["run"][:2]
	words["thread replay"] = words["thread resume"][:3]
	words["audit prune"] = []string{"--before", "90d"}
	words["thread prune"] = []string{"--keep", "90d", "--all"}
	words["thread result"], words["thread tree"] = words["thread replay"], words["thread replay"]
	words["thread search"] = append(slices.Clone(words["thread replay"]), "say")
	words["thread cancel"], words["thread kill"] = resumeWords(t, home)[:3], resumeWords(t, home)[:3]
	words["thread handoff"] = []string{"-C", words["run"][1], "acme/say"}
	words["thread wait"] = []string{"-C", words["run"][1], "acme/say"}
	words["mcp config"] = []string{"codex"}
	maps.Copy(words, exchangeWords(t, home))
	words["mcp serve"] = []string{"-C", project}
	words["serve token add"], words["serve token remove"] = []string{"ci", "--expires", "30d", "--tenant", "acme"},
		[]string{"ci"}
	words["test"] = []string{"-C", words["exec"][1], "tool:acme/hi", "--dev"}
	words["auth set"], words["auth remove"] = []string{"a-token", "--file", "--from-file", pem}, []string{"a-token"}
	words["auth login"] = []string{"b-token", oauthtest.New(t).URL + "/mcp", "--file"}
	for path, args := range mcpWords(t) {
		words[path] = args
	}
	more, first, second := registryWords(t, home)
	maps.Copy(words, more)
	all := commands()
	slices.SortStableFunc(all, func(a, b cli.Command) int {
		return cmp.Compare(b2i(b.Path == "store put"), b2i(a.Path == "store put"))
	})
	for _, c := range all {
		if c.New == nil || c.Hidden || c.Path == "serve" { // which ends with a signal: TestServe
			continue
		}
		h, stdout, _ := testHost("HOME="+home, "LOCALAPPDATA="+home)
		switch c.Path {
		case "auth login":
			h.Stderr = cli.Stream{Writer: new(browser)}
		case "login":
			h.Stdin = strings.NewReader(second)
		case "logout": // ends what login has kept
		default:
			h.Environ = append(h.Environ, "RYE_REGISTRY_TOKEN="+first)
		}
		args := slices.Concat(strings.Fields(c.Path), []string{"--json"}, words[c.Path])
		cli.Run(h, commands(), args)
		var reply struct {
			Success bool
			Data    map[string]any
		}
		if err := json.Unmarshal(stdout.Bytes(), &reply); err != nil || !reply.Success ||
			reply.Data["schema"] != c.Schema {
			t.Errorf("%q: %v, %s", args, err, stdout)
		}
		doc := initcmd.SchemaDocument(c.Schema, reflect.TypeOf(c.Output))
		if bad := conforms(doc, reply.Data); bad != "" {
			t.Errorf("%s: %s", c.Path, bad)
		}
	}
}

// execWords are the words of exec: an unsigned tool whose program is surely installed.
func execWords(t *testing.T) []string {
	t.Helper()
	project := t.TempDir()
	dir := filepath.Join(project, ".ai", "tools", "acme")
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	const about = "version: \"1.0.0\"\ntool_type: program\nexecutor_id: rye/core/primitives/subprocess\ncategory: acme\ndescription: x\nconfig: {command: %q}\n"
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "hi.yaml"), fmt.Appendf(nil, about, self),
		0o600)); err != nil {
		t.Fatal(err)
	}
	return []string{"-C", project, "tool:acme/hi", "--dev", "--dry-run"}
}

// mcpWords are those of the commands about tool servers: a server is added, and in the end removed.
func mcpWords(t *testing.T) map[string][]string {
	t.Helper()
	project := t.TempDir()
	server, err := osexec.LookPath("announce")
	err = errors.Join(err, os.Mkdir(filepath.Join(project, ".ai"), 0o700),
		os.WriteFile(filepath.Join(project, "tools.json"),
			[]byte(`[{"name": "a", "inputSchema": {"type": "object"}}]`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"mcp add":  {"-C", project, "--yes", "s", "--read", "tools.json", "--", server, "tools.json"},
		"mcp list": {"-C", project, "--tools"}, "mcp show": {"-C", project, "s"}, "mcp test": {"-C", project, "s"},
		"mcp refresh": {"-C", project, "s"},
		"mcp accept":  {"-C", project, "s", "--yes"}, "mcp remove": {"-C", project, "s", "--yes"},
	}
}

// bundleWords are those of the commands about bundles, and what they need: an archive, and two versions.
func bundleWords(t *testing.T, home, project string) map[string][]string {
	t.Helper()
	dir, archives := filepath.Join(t.TempDir(), "p"), t.TempDir()
	old, next := filepath.Join(archives, "old.tar.zst"), filepath.Join(archives, "new.tar.zst")
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	rye := func(args ...string) {
		h, _, stderr := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
		h.Now = time.Now
		if got := cli.Run(h, commands(), args); got != fault.ExitDone {
			t.Fatalf("%q: %d, %s", args, got, stderr)
		}
	}
	write(".ai/tools/acme/x.py", itemText("x"))
	write("bundle.yaml", "id: acme\nversion: 1.0.0\n")
	rye("key", "new", "--owner", "Me")
	rye("bundle", "create", "-C", dir, "--sign", "tool:acme/x")
	rye("bundle", "export", "-C", dir, "-o", old)
	write("bundle.yaml", "id: acme\nversion: 2.0.0\n")
	rye("bundle", "create", "-C", dir)
	rye("bundle", "export", "-C", dir, "-o", next)
	rye("bundle", "install", old)
	rye("bundle", "install", next)
	locked := filepath.Join(archives, "locked")
	rye("init", locked)
	rye("new", "-C", locked, "tool", "acme/z")
	return map[string][]string{
		"bundle create": {"-C", dir}, "bundle verify": {"-C", dir}, "bundle inspect": {next},
		"bundle diff": {old, next}, "bundle cosign": {"-C", dir},
		"bundle export": {"-C", dir, "-o", filepath.Join(archives, "again.tar.zst")}, "bundle import": {next},
		"bundle install": {next}, "bundle push": {"-C", dir, "acme", "oci-layout:" + archives},
		"bundle pull":     {"oci-layout:" + archives},
		"bundle rollback": {"acme", "--yes"}, "bundle remove": {"acme", "--yes"}, "bundle sbom": {"-C", dir},
		"bundle attest": {"-C", dir},
		"bundle index":  {archives, "--name", "acme/all"},
		"add":           {"-C", locked, "acme", "--from", old}, "remove": {"-C", locked, "acme"},
		"update": {"-C", locked}, "outdated": {"-C", locked},
		"lock": {"-C", locked}, "diff": {"-C", locked}, "why": {"-C", locked, "tool:acme/z"}, "tree": {"-C", locked},
		"licences": {"-C", locked}, "vendor": {"-C", locked},
		"fetch": {"-C", locked}, "restore": {"-C", locked, "tool:acme/z"},
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
