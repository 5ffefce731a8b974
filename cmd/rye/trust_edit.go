package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// trustChange is what a command made of a policy.
type trustChange struct {
	Policy  string       `json:"policy"` // the file
	ID      string       `json:"id"`     // of what stands in it now
	Changes []changeLine `json:"changes"`
	lines   []string
	shown   bool // on standard error already, with the question
}

type changeLine struct {
	Section string `json:"section"`
	Entry   string `json:"entry"`
	Field   string `json:"field"`
	Old     string `json:"old"` // empty: it was not there
	New     string `json:"new"` // empty: it isn't there any more
}

func (c trustChange) text(t *terminal) {
	if c.shown {
		return
	}
	for _, line := range c.lines {
		t.printf("%s\n", line)
	}
}

// An edit is a change of the root policy, from what is read to what is written.
type edit struct {
	question string // "" where nothing is to be asked
	change   func(*policy.Side) (*policy.Policy, error)
	before   func()       // narrates, before the change is shown
	commit   func() error // done once nothing but the disk stands in the way of the new policy; nil for nothing
}

// editable refuses to change a policy that is named by its id.
func (a *app) editable() error {
	if a.env(envTrust) == "" {
		return nil
	}
	return &fault.Error{Code: fault.Config, Text: envTrust + " names a policy by its id, which a change would make another",
		Hint: []string{"unset " + envTrust}}
}

// editPolicy changes the root policy: it shows in what, asks, and writes, unless somebody else has written
// meanwhile. A change that changes nothing is silent.
func (a *app) editPolicy(ctx context.Context, e edit) (ans trustChange, err error) {
	if err := a.editable(); err != nil {
		return ans, err
	}
	s := a.rootSetting()
	if s.err != nil {
		return ans, s.err
	}
	if s.origin == "user" {
		if err := checkOwn(s.value); err != nil {
			return ans, err
		}
	}
	au, err := readAuthority(s.value, s.origin)
	if err != nil {
		return ans, err
	}
	after, err := e.change(&au.side)
	if _, ok := errors.AsType[*yamltree.Error](err); ok {
		// The policy that is there was read: what is wrong is what it was to say.
		f := classify(err)
		f.Code, f.Text, f.Details = fault.Validation, "the policy would not be one: "+f.Text, nil
		return ans, f
	}
	if err != nil {
		return ans, err
	}
	ans = trustChange{Policy: s.value, ID: after.ID().String(), Changes: []changeLine{}}
	changes := policy.Diff(au.side.Policy, after)
	for _, c := range changes {
		ans.Changes = append(ans.Changes, changeLine{c.Section, c.Entry, c.Field, c.Old, c.New})
		ans.lines = append(ans.lines, c.String())
	}
	if e.before != nil {
		e.before()
	}
	if len(changes) == 0 {
		ans.ID = au.side.Policy.ID().String()
		a.term.note("the policy says so already")
		return ans, nil
	}
	if e.question != "" && !a.globals.Yes {
		for _, line := range ans.lines {
			a.term.say("  ", "%s", []any{line})
		}
		ans.shown = true
		if err := a.confirm(ctx, e.question); err != nil {
			return trustChange{}, err
		}
	}
	if err := a.writePolicy(ctx, au, after.Format(), e.commit); err != nil {
		return trustChange{}, err
	}
	a.term.note("wrote %q", s.value)
	return ans, nil
}

// writePolicy writes a policy in the place of the one that was read, after what commit does.
func (a *app) writePolicy(ctx context.Context, au *authority, file []byte, commit func() error) error {
	if err := os.MkdirAll(filepath.Dir(au.path), 0o700); err != nil {
		return err
	}
	unlock, err := lockPolicy(ctx, au.path)
	if err != nil {
		return err
	}
	defer unlock()
	sweep(filepath.Dir(au.path), a.now())
	conflict := &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("somebody else has changed %q meanwhile", au.path)}
	now, err := readAuthority(au.path, au.origin)
	if conflict.Err = err; err != nil || !bytes.Equal(now.file, au.file) || (now.file == nil) != (au.file == nil) {
		return conflict
	}
	if len(au.file) > 0 && bytes.Contains(au.file, []byte("# rye:signed:")) && !bytes.Contains(file, []byte("# rye:signed:")) {
		a.term.warn("the policy was signed, and is not any more: sign it again")
	}
	mode := os.FileMode(0o600)
	if fi, err := os.Stat(au.path); err == nil {
		mode = fi.Mode().Perm()
	}
	// Where there was none there is nothing to lock, and whoever is second finds the first one's.
	err = writeFile(au.path, mode, au.file == nil, func(w io.Writer) error {
		if _, err := w.Write(file); err != nil || commit == nil {
			return err
		}
		return commit()
	})
	if conflict.Err = err; errors.Is(err, fs.ErrExist) {
		return conflict
	}
	return err
}
