package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

// greet is a Starlark tool.
const greet = `# ---
# version: "1.0.0"
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# category: acme
# description: Greets
# input_schema: {type: object, required: [name], properties: {name: {type: string, description: Name}}}
# ---
def main(params):
    return {"greeting": "hello, " + params["name"]}
`

// A project is a directory with a tool, and its user Alice, who is trusted there.
type project struct{ workspace.Paths }

// ref is the tool of a project.
var ref = model.Ref{Kind: "tool", ID: "acme/greet"}

// newProject makes a project in a directory, without a lock.
func newProject(dir string) (*project, error) {
	at := func(name string) workspace.Place { return workspace.Place{Path: filepath.Join(dir, name)} }
	p := &project{workspace.Paths{Dir: at("project").Path, Version: "devel", User: at("home"), Store: at("store"),
		State: at("state"), Cache: at("cache")}}
	return p, errors.Join(
		p.write("rye.yaml", ""), p.write(".git/HEAD", ""), p.policy(""),
		key.OpenDir(filepath.Join(p.User.Path, ".ai", "keys")).Add("alice", keytest.Alice(), ""),
		p.edit(greet))
}

// write writes a file of the project.
func (p *project) write(name, text string) error {
	path := filepath.Join(p.Dir, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// policy writes the user's policy, which trusts Alice, with more lines.
func (p *project) policy(more string) error {
	text := fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q}\n\nnames:\n  \"**\": {keys: [alice]}\n%s",
		keytest.Alice().Public(), more)
	return p.policyFile(text)
}

func (p *project) policyFile(text string) error {
	dir := filepath.Join(p.User.Path, ".ai")
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(text), 0o600))
}

// edit gives the tool another text, signed by Alice.
func (p *project) edit(text string) error {
	if err := p.write(".ai/tools/acme/greet.star", text); err != nil {
		return err
	}
	signed, err := p.signed(ref)
	if err != nil {
		return err
	}
	return p.write(".ai/tools/acme/greet.star", signed)
}

// signed is an item of the project with Alice's signature.
func (p *project) signed(ref model.Ref) (string, error) {
	ctx := context.Background()
	w, err := workspace.Open(ctx, p.Paths, workspace.Options{})
	if err != nil {
		return "", err
	}
	defer w.Close()
	items, err := w.Items(ctx)
	if err != nil {
		return "", err
	}
	defer items.Close()
	it, err := items.Find(ctx, ref)
	if err != nil {
		return "", err
	}
	subject, _, err := items.Admit.Subject(ctx, it)
	if err != nil {
		return "", err
	}
	signed, err := sign.Sign(it.Bytes, subject.Signing(), subject.Claim(), keytest.Alice(), time.Now(), nil)
	return string(signed), err
}

// lock pins the tool and all that it runs on.
func (p *project) lock() error {
	ctx := context.Background()
	w, err := workspace.Open(ctx, p.Paths, workspace.Options{Offline: true})
	if err != nil {
		return err
	}
	defer w.Close()
	l, err := w.OpenLock(false)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Open(); err != nil {
		return err
	}
	_, err = update.Make(ctx, l, update.Options{})
	return err
}
