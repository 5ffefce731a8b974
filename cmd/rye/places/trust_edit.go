package places

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
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/trust"
)

// TrustChange is what a command made of a policy.
type TrustChange struct {
	Policy  string       `json:"policy"` // the file
	ID      string       `json:"id"`     // of what stands in it now
	Changes []ChangeLine `json:"changes"`
	lines   []string
	shown   bool // on standard error already, with the question
}

type ChangeLine struct {
	Section string `json:"section"`
	Entry   string `json:"entry"`
	Field   string `json:"field"`
	Old     string `json:"old"` // empty: it was not there
	New     string `json:"new"` // empty: it isn't there any more
}

func (c TrustChange) Text(t *cli.Terminal) {
	if c.shown {
		return
	}
	for _, line := range c.lines {
		t.Printf("%s\n", line)
	}
}

// An Edit is a change of the root policy, from what is read to what is written.
type Edit struct {
	Question string // "" where nothing is to be asked
	Change   func(*policy.Side) (*policy.Policy, error)
	Before   func()       // narrates, before the change is shown
	Commit   func() error // done once nothing but the disk stands in the way of the new policy; nil for nothing
}

// Editable refuses to change a policy that is named by its id.
func Editable(a *cli.App) error {
	if a.Env(cli.EnvTrust) == "" {
		return nil
	}
	return &fault.Error{Code: fault.Config, Text: cli.EnvTrust + " names a policy by its id, which a change would make another",
		Hint: []string{"unset " + cli.EnvTrust}}
}

// EditPolicy changes the root policy: it shows in what, asks, and writes, unless somebody else has written
// meanwhile. A change that changes nothing is silent.
func EditPolicy(ctx context.Context, a *cli.App, e Edit) (ans TrustChange, err error) {
	if err := Editable(a); err != nil {
		return ans, err
	}
	s := RootSetting(a)
	if s.Err != nil {
		return ans, s.Err
	}
	if s.Origin == "user" {
		if err := trust.CheckOwn(s.Value); err != nil {
			return ans, err
		}
	}
	au, err := trust.Read(s.Value, s.Origin)
	if err != nil {
		return ans, err
	}
	after, err := e.Change(&au.Side)
	if _, ok := errors.AsType[*yamltree.Error](err); ok {
		// The policy that is there was read: what is wrong is what it was to say.
		f := fault.Of(err)
		f.Code, f.Text, f.Details = fault.Validation, "the policy would not be one: "+f.Text, nil
		return ans, f
	}
	if err != nil {
		return ans, err
	}
	ans = TrustChange{Policy: s.Value, ID: after.ID().String(), Changes: []ChangeLine{}}
	changes := policy.Diff(au.Side.Policy, after)
	for _, c := range changes {
		ans.Changes = append(ans.Changes, ChangeLine{c.Section, c.Entry, c.Field, c.Old, c.New})
		ans.lines = append(ans.lines, c.String())
	}
	if e.Before != nil {
		e.Before()
	}
	if len(changes) == 0 {
		ans.ID = au.Side.Policy.ID().String()
		a.Term.Note("the policy says so already")
		return ans, nil
	}
	if e.Question != "" && !a.Globals.Yes {
		for _, line := range ans.lines {
			a.Term.Say("  ", "%s", []any{line})
		}
		ans.shown = true
		if err := a.Confirm(ctx, e.Question); err != nil {
			return TrustChange{}, err
		}
	}
	if err := writePolicy(ctx, a, au, after.Format(), e.Commit); err != nil {
		return TrustChange{}, err
	}
	a.Term.Note("wrote %q", s.Value)
	return ans, nil
}

// writePolicy writes a policy in the place of the one that was read, after what commit does.
func writePolicy(ctx context.Context, a *cli.App, au *trust.Authority, file []byte, commit func() error) error {
	if err := os.MkdirAll(filepath.Dir(au.Path), 0o700); err != nil {
		return err
	}
	unlock, err := trust.LockPolicy(ctx, au.Path)
	if err != nil {
		return err
	}
	defer unlock()
	osfile.Sweep(filepath.Dir(au.Path), a.Now())
	conflict := &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("somebody else has changed %q meanwhile", au.Path)}
	now, err := trust.Read(au.Path, au.Origin)
	if conflict.Err = err; err != nil || !bytes.Equal(now.File, au.File) || (now.File == nil) != (au.File == nil) {
		return conflict
	}
	if len(au.File) > 0 && bytes.Contains(au.File, []byte("# rye:signed:")) && !bytes.Contains(file, []byte("# rye:signed:")) {
		a.Term.Warn("the policy was signed, and is not any more: sign it again")
	}
	mode := os.FileMode(0o600)
	if fi, err := os.Stat(au.Path); err == nil {
		mode = fi.Mode().Perm()
	}
	// Where there was none there is nothing to lock, and whoever is second finds the first one's.
	err = osfile.WriteFile(au.Path, mode, au.File == nil, func(w io.Writer) error {
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
