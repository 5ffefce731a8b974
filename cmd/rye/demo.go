package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/worktree"
)

func demoCommand() command {
	return command{
		path: "demo", group: "start", help: "Show the main job on a small project of its own.",
		more: "It works in a temporary directory and leaves nothing behind. Every step really happens; if one does not go as " +
			"it should, the exit status says so.",
		aka: []string{"example", "tour"},
		new: func() runner { return new(demoRun) }, schema: "demo/1", output: demoAnswer{},
	}
}

type demoRun struct{}

type demoAnswer struct {
	Steps []demoStep `json:"steps"`
}

type demoStep struct {
	Title  string `json:"title"`
	Result string `json:"result"`
}

func (d demoAnswer) text(t *terminal) {
	for i, s := range d.Steps {
		t.printf("%d. %s\n   %s\n", i+1, s.Title, s.Result)
	}
}

func (*demoRun) run(ctx context.Context, a *app) (ans answer, err error) {
	dir, err := os.MkdirTemp("", "rye-demo-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{ctx: ctx, dir: dir, project: filepath.Join(dir, "project"), now: a.now().UTC()}
	for _, step := range []func() error{d.write, d.keep, d.bringBack, d.vouch, d.stranger, d.edit, d.tamper, d.refuse} {
		if err := step(); err != nil {
			return d.answer, err
		}
	}
	return d.answer, nil
}

// A demo is one run: each step finds here what the ones before have left.
type demo struct {
	ctx          context.Context
	dir, project string
	store        *disk.Store
	root         cas.ID
	now          time.Time
	trust        *trust
	answer       demoAnswer
}

func (d *demo) say(title, format string, args ...any) {
	d.answer.Steps = append(d.answer.Steps, demoStep{title, fmt.Sprintf(format, args...)})
}

// demoTool is what the demo tampers with. Lines that repeat would be compressed, and a flipped byte could then
// be anywhere; these are short enough to be kept as they are.
const demoTool = "print('hello')\n"

func (d *demo) write() error {
	files := map[string]string{
		".ai/tools/hello.py":       demoTool,
		".ai/directives/greet.md":  "# Greet\n\nSay hello with tool:hello.\n",
		".ai/knowledge/manners.md": "# Manners\n\nGreet before you ask.\n",
		"README.md":                "A project for an agent.\n",
	}
	for name, text := range files {
		path := filepath.Join(d.project, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	d.say("a project: a directive, a tool, knowledge", "%d files", len(files))
	return nil
}

func (d *demo) keep() error {
	s, err := disk.Open(filepath.Join(d.dir, "store"), disk.Options{Create: true})
	if err != nil {
		return err
	}
	d.store = s
	b, err := s.Batch(d.ctx)
	if err != nil {
		return err
	}
	r, err := worktree.Import(d.ctx, b, d.project, worktree.Options{})
	if err == nil {
		err = b.Commit(d.ctx)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	d.root = r.ID
	d.say("into the store: one digest vouches for all of it", "%s", r.ID)
	return s.PutRef(d.ctx, "project", r.ID)
}

func (d *demo) bringBack() error {
	copied := filepath.Join(d.dir, "copy")
	if _, err := worktree.Checkout(d.ctx, d.store, d.root, copied, worktree.CheckoutOptions{}); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(copied, ".ai", "tools", "hello.py"))
	if err == nil && string(b) != demoTool {
		err = &fault{code: "INTEGRITY_FAILED", message: "the copy differs from what was kept"}
	}
	if err != nil {
		return err
	}
	d.say("and back, every byte verified on the way", "the copy is the project")
	return d.store.Close()
}

// tamper flips one bit of the tool where the store keeps it.
func (d *demo) tamper() error {
	packs, err := filepath.Glob(filepath.Join(d.dir, "store", "packs", "*.pack"))
	if err != nil {
		return err
	}
	for _, pack := range packs {
		b, err := os.ReadFile(pack)
		if err != nil {
			return err
		}
		i := bytes.Index(b, []byte(demoTool))
		if i < 0 {
			continue
		}
		b[i+len("print('")] ^= 1
		if err := os.WriteFile(pack, b, 0o600); err != nil {
			return err
		}
		d.say("somebody flips one bit in the store", "hello becomes %s", b[i+len("print('"):i+len("print('hello")])
		return nil
	}
	return &fault{code: codeUnknown, message: "the demo did not find its tool in the store"}
}

func (d *demo) refuse() error {
	s, err := disk.Open(filepath.Join(d.dir, "store"), disk.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	id := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte(demoTool))}
	o, err := s.Get(d.ctx, id)
	if err == nil {
		_, err = io.Copy(io.Discard, o)
		o.Close()
	}
	if _, ok := errors.AsType[*cas.DamagedError](err); !ok {
		return &fault{code: "INTEGRITY_FAILED", message: "the store handed out bytes that were tampered with", err: err}
	}
	d.say("reading it again", "refused: %v", err)
	target := filepath.Join(d.dir, "again")
	if _, err = worktree.Checkout(d.ctx, s, d.root, target, worktree.CheckoutOptions{}); err == nil {
		return &fault{code: "INTEGRITY_FAILED", message: "the store checked out bytes that were tampered with"}
	}
	if _, err := os.Lstat(target); err == nil {
		return &fault{code: "INTEGRITY_FAILED", message: "half a directory was left behind"}
	}
	d.say("checking it out", "refused, and nothing half-made is left")
	r, err := s.Fsck(d.ctx, nil)
	if err != nil {
		return err
	}
	named := 0
	for _, p := range r.Problems {
		for _, from := range p.From {
			d.say("rye store fsck names what is damaged and who needs it", "%s, needed by %s", p.ID.Digest.Short(), from)
			named++
		}
	}
	if named == 0 {
		return &fault{code: "INTEGRITY_FAILED", message: "fsck did not find what was tampered with"}
	}
	return nil
}
