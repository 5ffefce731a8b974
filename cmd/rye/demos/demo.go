package demos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

type demoRun struct {
	Agent bool `help:"Run directives with a model instead, on this machine alone."`
}

type demoAnswer struct {
	Steps []demoStep `json:"steps"`
}

// demoStep is one step that was done, and the output of its command.
type demoStep struct {
	Title   string   `json:"title"`
	Command string   `json:"command"` // empty for a step that only changes files
	Exit    int      `json:"exit"`
	Output  []string `json:"output"`
}

func (d demoAnswer) Text(t *cli.Terminal) {
	for i, s := range d.Steps {
		t.Printf("%d. %s\n", i+1, s.Title)
		if s.Command != "" {
			t.Printf("   $ %s\n", s.Command)
		}
		for _, line := range s.Output {
			t.Printf("   %s\n", line)
		}
	}
}

func (c *demoRun) Run(ctx context.Context, a *cli.App) (ans cli.Answer, err error) {
	dir, err := os.MkdirTemp("", "rye-demo-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removeLocked(dir)) }()
	demo := &demo{ctx: ctx, app: a, dir: dir, home: "you"}
	if err := os.Mkdir(demo.path("project"), 0o700); err != nil {
		return nil, err
	}
	script := demo.script
	if c.Agent {
		m, err := startModel()
		if err != nil {
			return nil, err
		}
		defer m.close()
		script = func() []demoLine { return demo.agentScript(m) }
	}
	for _, line := range script() {
		if err := demo.play(line); err != nil {
			return demo.answer, err
		}
	}
	return demo.answer, nil
}

// removeLocked removes a directory tree. It makes directories writable first, because tools run from read-only
// copies.
func removeLocked(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(dir))
}

// A demo is one run in a temporary directory.
type demo struct {
	ctx    context.Context
	app    *cli.App
	dir    string
	home   string // the current home directory, which stands for a machine
	named  string // the thread that THREAD means in a line
	answer demoAnswer
}

func (d *demo) path(elem ...string) string { return filepath.Join(append([]string{d.dir}, elem...)...) }

// A demoLine is one step: a change of files, a command, or both.
type demoLine struct {
	title string
	does  func() error // runs first; optional
	args  []string     // the arguments of rye; empty for a step without a command
	exit  int          // the expected exit status
	say   string       // text that the output must contain
	show  string       // print only lines with this text; "" prints all
}

// script returns the demonstration without --agent: sign, lock, run, check the receipt, tamper, see it refused,
// restore.
func (d *demo) script() []demoLine {
	const tool, words = "tool:acme/words/words", ".ai/tools/acme/words/words.txt"
	receipt, public := d.path("words.receipt.json"), d.path("you.pem")
	return []demoLine{
		{title: "create a project, a key and a policy", args: []string{"init"}, say: "policy", show: "commit"},
		{title: "write a tool that runs a program (rye itself) on a file beside it", does: func() error {
			return d.tool(words)
		}},
		{title: "sign the tool together with that file", args: []string{"sign", tool}, say: "with 1 file beside it"},
		{title: "pin it and everything it runs on", args: []string{"lock"}, say: "locked", show: "locked"},
		{title: "run the pinned bytes in a sandbox, without a network",
			args: []string{"--offline", "exec", tool, "--receipt", receipt}, say: "blake3:", show: "blake3:"},
		{title: "see the call in the audit log", args: []string{"audit", "list"}, say: "ok", show: tool},
		{title: "export your public key", args: []string{"key", "export"}, say: "PUBLIC KEY"},
		{title: "check the receipt on another machine, with that key alone", does: func() error {
			return d.leave(public)
		},
			args: []string{"audit", "verify", receipt, "--key", public}, say: "vouches for it"},
		{title: "back home, change one letter of the file", does: func() error {
			d.home = "you"
			return d.write(words, "hallo\n")
		}},
		{title: "the signature no longer holds", args: []string{"verify", tool}, exit: fault.ExitNo,
			say: "do not match the signature"},
		{title: "and the tool is not run", args: []string{"--offline", "exec", tool}, exit: fault.ExitRefused,
			say: "differs from the lock", show: "error:"},
		{title: "the pinned version still runs", args: []string{"--offline", "exec", tool, "--pinned"}, say: "blake3:",
			show: "blake3:"},
		{title: "restore the file from the store", args: []string{"--offline", "restore", tool}, say: "restored",
			show: "restored"},
		{title: "every byte is as it was pinned", args: []string{"lock", "--check"}, say: "current"},
		{title: "what that costs for 10,000 files: rye's time divided by another program's",
			args: []string{"docs", "speed"}, say: "git status", show: "| 10,000"},
	}
}

// play carries out one line and records it.
func (d *demo) play(demoLine demoLine) error {
	if demoLine.does != nil {
		if err := demoLine.does(); err != nil {
			return err
		}
	}
	step := demoStep{Title: demoLine.title, Output: []string{}}
	var text string
	for i, arg := range demoLine.args {
		if arg == "THREAD" {
			demoLine.args[i] = d.named
		}
	}
	if demoLine.args != nil {
		// The output shows paths relative to the project.
		near := strings.NewReplacer(d.path("project")+string(filepath.Separator), "", d.dir+string(filepath.Separator),
			"../")
		var err error
		if step.Exit, text, err = d.rye(demoLine.args); err != nil {
			return err
		}
		text = near.Replace(text)
		step.Command = near.Replace("rye " + cli.JoinArgs(demoLine.args))
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, demoLine.show) {
			step.Output = append(step.Output, strings.TrimRight(line, "\n"))
		}
	}
	d.answer.Steps = append(d.answer.Steps, step)
	if step.Exit != demoLine.exit || !strings.Contains(text, demoLine.say) {
		return fault.New(fault.Unknown, "%q ended with %d, not %d: %q", step.Command, step.Exit, demoLine.exit, text)
	}
	return nil
}

// rye runs a command line in this process with the project as working directory. Its environment has only the home.
func (d *demo) rye(args []string) (exit int, text string, err error) {
	var out bytes.Buffer
	host := cli.Host{
		Stdin: strings.NewReader(""), Stdout: cli.Stream{Writer: &out}, Stderr: cli.Stream{Writer: &out},
		Getwd: func() (string, error) { return d.path("project"), nil }, Now: d.app.Now,
	}
	home := d.path(d.home)
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
		"LOCALAPPDATA", "APPDATA"} {
		host.Environ = append(host.Environ, name+"="+home)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return 0, "", err
	}
	exit = cli.Run(host, d.app.Commands, args)
	return exit, out.String(), d.ctx.Err()
}

// leave writes the public key that the last step printed to a file, and switches to a machine with nothing else.
func (d *demo) leave(public string) error {
	pem := d.answer.Steps[len(d.answer.Steps)-1].Output
	d.home = "elsewhere"
	return os.WriteFile(public, []byte(strings.Join(pem, "\n")+"\n"), 0o600)
}

// tool writes a tool that needs no interpreter: it runs this binary to print the digest of a file.
func (d *demo) tool(words string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// In a template a brace is written twice. A JSON string is a YAML string.
	command, err := json.Marshal(strings.NewReplacer("{", "{{", "}", "}}").Replace(self))
	return errors.Join(err, d.write(".ai/tools/acme/words/words.yaml", fmt.Sprintf(demoTool, command)),
		d.write(words, "hello\n"))
}

// write writes a file of the project.
func (d *demo) write(file, text string) error {
	path := d.path("project", filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

const demoTool = `version: "1.0.0"
tool_type: program
executor_id: rye/core/primitives/subprocess
category: acme/words
description: Prints the digest of its words

anchor: {enabled: true, mode: always, root: tool_dir}

config:
  command: %s
  args: [store, put, "{anchor_path}/words.txt"]
`
