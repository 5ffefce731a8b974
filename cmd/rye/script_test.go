package main

import (
	"bytes"
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/ryed/registries"
	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
	sandboxed "github.com/rye-build/rye/exec/session"
)

func TestMain(m *testing.M) {
	// What tests confine in this process starts this program again, and so does a tool that runs rye.
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") &&
		strings.Contains(filepath.Base(os.Args[0]), ".test") {
		main()
	}
	if name := posing(); name != nil {
		name()
	}
	testscript.Main(m, map[string]func(){
		"rye":         main,
		"probe":       probeMain,
		"auth-client": authClient,
		"mcptest":     func() { os.Exit(mcptest.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) },
		"rye-wait":    func() { os.Exit(cli.Run(cli.ThisHost(), append(commands(), waitCommand()), os.Args[1:])) },
		"ryed":        func() { os.Exit(registries.Main(os.Args)) },
		"rye-account": accountMain,
		"announce":    announceMain,
		"replay":      replayMain,

		"docker-credential-double": credentialMain,
	})
}

// accountMain is rye of an account with the home directory of the first argument, as far as no variable names another.
func accountMain() {
	if status, inside := sandboxed.Inside(os.Args[1:]); inside {
		os.Exit(status)
	}
	h := cli.ThisHost()
	h.Account = func() (string, error) { return os.Args[1], nil }
	os.Exit(cli.Run(h, commands(), os.Args[2:]))
}

// TestScript runs testdata/script, each in a directory of its own that holds .git, with a home below it.
func TestScript(t *testing.T) {
	// The model scripts have run before. The cleanup runs after the last script.
	if flag.Lookup("test.run").Value.String() == "" && !testing.Short() {
		t.Cleanup(func() { checkFollowed(t) })
	}
	testscript.Run(t, scriptParams())
}

// coverDir is where rye writes its coverage, or empty if it isn't measured. It isn't the test's own directory: a test
// reads everything in that when it ends.
func coverDir() string {
	dir := flag.Lookup("test.gocoverdir").Value.String()
	if dir == "" {
		return ""
	}
	dir = filepath.Join(dir, "children")
	_ = os.MkdirAll(dir, 0o700)
	return dir
}

func scriptParams() testscript.Params {
	return testscript.Params{
		Dir:                 "../../testdata/script",
		UpdateScripts:       goldentest.Update(),
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("USERPROFILE", home)
			env.Setenv("LOCALAPPDATA", filepath.Join(home, "local"))
			env.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			env.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
			env.Values[hosting{}] = new(func())
			env.Setenv("REG", env.WorkDir+"-registry") // where status puts nothing back under a running server
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("PLATFORM", runtime.GOOS+"/"+runtime.GOARCH)
			env.Setenv("GOCOVERDIR", coverDir())
			// The search for a project ends here, whatever lies above.
			return os.MkdirAll(filepath.Join(env.WorkDir, ".git"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": exitStatus, "damage": damage, "truncate": truncate,
			"replace": replace, "crlf": crlf, "setid": setID, "addlist": addList, "restore": restoreFile,
			"stamp": stamp, "admit": admit, "serve": serve, "registry": serveRegistry, "proxy": startProxy,
			"flip": flip, "bundleid": bundleID, "repin": repin, "copydir": copyDir,
			"asked": asked, "calls": calls, "relines": relines, "gone": gone, "there": there, "digest": digest,
			"take": take, "absent": absent, "capture": capture,
			"ran": ran, "thread": thread, "debase64": debase64, "pack": pack, "swap": swap, "pose": pose, "host": host,
			"meter": meter, "requested": requested, "relist": relist,
		},
	}
}

// damage is "damage GLOB TEXT": one bit of the first byte of TEXT flips in the one file that matches and holds it. A
// TEXT may be a quoted Go string.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage GLOB TEXT")
	}
	text := args[1]
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	done := 0
	for _, path := range matching(ts, args[0]) {
		b := []byte(ts.ReadFile(path))
		if i := bytes.Index(b, []byte(text)); i >= 0 {
			b[i] ^= 1
			// A program that another script starts meanwhile would have the file open until it runs, and a file that
			// is open for writing can't be run.
			syscall.ForkLock.RLock()
			err := os.WriteFile(path, b, 0o600)
			syscall.ForkLock.RUnlock()
			ts.Check(err)
			done++
		}
	}
	if done != 1 {
		ts.Fatalf("%d files hold %q", done, args[1])
	}
}

// debase64 is "debase64 TEXT FILE": the file has the bytes that the text stands for.
func debase64(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: debase64 TEXT FILE")
	}
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(ts.ReadFile(args[0])), ""))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o644))
}

// flip is "flip FILE COPY": in the copy one bit in the middle is another one.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE COPY")
	}
	b := []byte(ts.ReadFile(args[0]))
	b[len(b)/2] ^= 4
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
}

// copyDir is "copydir DIR COPY": the copy, which isn't there yet, has the same files.
func copyDir(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: copydir DIR COPY")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// repin is "repin LOCK REF": the pin of REF names other bytes.
func repin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: repin LOCK REF")
	}
	text := ts.ReadFile(args[0])
	line := strings.Index(text, "\n  \""+args[1]+"\": ")
	if line < 0 {
		ts.Fatalf("%s has no pin %q", args[0], args[1])
	}
	before, rest, _ := strings.Cut(text[line:], "digest: \"")
	_, after, _ := strings.Cut(rest, "\"")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text[:line]+before+"digest: \""+cas.Sum(nil).String()+"\""+after),
		0o600))
}

// bundleID is "bundleid FILE": BUNDLE becomes the id in what "rye bundle inspect --json" has written.
func bundleID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bundleid FILE")
	}
	_, id, ok := strings.Cut(ts.ReadFile(args[0]), `"manifest":"`)
	id, _, _ = strings.Cut(id, `"`)
	if !ok || id == "" {
		ts.Fatalf("no id in %s", args[0])
	}
	ts.Setenv("BUNDLE", id)
}

// replace is "replace GLOB OLD NEW": in the one file that matches the first OLD becomes NEW. In NEW \n is the end of a
// line.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace GLOB OLD NEW")
	}
	for _, path := range matching(ts, args[0]) {
		text := ts.ReadFile(path)
		if !strings.Contains(text, args[1]) {
			ts.Fatalf("%s has no %q", path, args[1])
		}
		ts.Check(os.WriteFile(path, []byte(strings.Replace(text, args[1], strings.ReplaceAll(args[2], `\n`, "\n"), 1)),
			0o600))
	}
}

// crlf is "crlf FILE COPY": the copy has other line ends.
func crlf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: crlf FILE COPY")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "\n", "\r\n")), 0o600))
}

// capture is "capture VAR PATTERN FILE": the variable becomes the first group of the pattern's first match.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: capture VAR PATTERN FILE")
	}
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile(args[2]))
	if len(found) != 2 {
		ts.Fatalf("%s doesn't match %q with one group", args[2], args[1])
	}
	ts.Setenv(args[0], found[1])
}

// setID is "setid FILE": RYE_TRUST becomes the id in what "rye trust list --json" has written.
func setID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: setid FILE")
	}
	_, id, ok := strings.Cut(ts.ReadFile(args[0]), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	if !ok || id == "" {
		ts.Fatalf("no id in %s", args[0])
	}
	ts.Setenv("RYE_TRUST", id)
}

// addList is "addlist POLICY FROM": the policy names the revocation list acme, signed by its key default.
func addList(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: addlist POLICY FROM")
	}
	text := ts.ReadFile(args[0]) + "\nlists:\n  acme: {from: \"" + args[1] + "\", key: default, max-age: \"7d\"}\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// stamp is "stamp FILE": ISSUED becomes the hour before this one.
func stamp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stamp FILE")
	}
	at := time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "ISSUED", at)), 0o600))
}

// admit is "admit POLICY FILE": the policy lists the file's digest.
func admit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: admit POLICY FILE")
	}
	text := ts.ReadFile(args[0]) + "\ndigests:\n  \"" + cas.Sum([]byte(ts.ReadFile(args[1]))).String() +
		"\": {reason: \"read it\"}\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// restoreFile is "restore GLOB FILE": what matches becomes a copy of the file.
func restoreFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: restore GLOB FILE")
	}
	for _, path := range matching(ts, args[0]) {
		ts.Check(os.WriteFile(path, []byte(ts.ReadFile(args[1])), 0o600))
	}
}

// truncate is "truncate GLOB N": every file that matches loses its last N bytes.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate GLOB N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for _, path := range matching(ts, args[0]) {
		b := ts.ReadFile(path)
		ts.Check(os.WriteFile(path, []byte(b[:len(b)-n]), 0o600))
	}
}

func matching(ts *testscript.TestScript, pattern string) []string {
	paths, err := filepath.Glob(ts.MkAbs(pattern))
	ts.Check(err)
	if len(paths) == 0 {
		ts.Fatalf("nothing matches %q", pattern)
	}
	return paths
}

// exitStatus is "status N COMMAND…": the command must exit with N. What it hints at are command lines.
func exitStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s: exit status %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
	hinting, hints := false, []string{}
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		hint, first := strings.CutPrefix(line, "hint: ")
		if !first && hinting {
			hint, hinting = strings.CutPrefix(line, "      ")
		}
		if hinting = first || hinting; !hinting {
			continue
		}
		command, _, _ := strings.Cut(strings.TrimSpace(hint), "  ")
		hints = append(hints, command)
		for _, args := range shellLines(hint) {
			if _, err := cli.Parse(commands(), args); err != nil && !slices.Contains(args, "COMMAND") {
				ts.Fatalf("the hint %q can't be pasted: %v", hint, err)
			}
		}
	}
	if args[0] == "4" && args[1] == "rye" {
		followHints(ts, args[2:], hints)
	}
}
