package trust

import (
	"io/fs"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// A KeyState is one of the user's private keys, and its state in the root policy.
type KeyState struct {
	Name        string   `json:"name"`
	Public      string   `json:"public"` // as in a policy; empty if it can't be read
	Fingerprint string   `json:"fingerprint"`
	V1          string   `json:"v1"` // its name in v1 signature lines
	Locked      bool     `json:"locked"`
	Default     bool     `json:"default"`         // signs if no other key is named
	InPolicy    string   `json:"in_policy"`       // its name in the root policy; empty if it has none
	Vouches     []string `json:"vouches"`         // globs of the rules that name it
	Fault       string   `json:"fault,omitempty"` // why the policy doesn't count it now
	Error       string   `json:"error,omitempty"` // why it is unusable
	Hint        string   `json:"-"`               // how to fix the error
}

// StateOf returns the state of a key under a policy, which may be missing.
func StateOf(name string, pub key.Public, side policy.Side, now time.Time) KeyState {
	k := KeyState{Name: name, Vouches: []string{}}
	if pub.IsZero() {
		return k
	}
	k.Public, k.Fingerprint, k.V1 = pub.String(), pub.Fingerprint().String(), pub.V1ID()
	if side.Policy == nil {
		return k
	}
	known, ok := side.Policy.Key(pub.Fingerprint())
	if !ok {
		return k
	}
	k.InPolicy, k.Vouches = known.Name, append(k.Vouches, side.Policy.RulesNaming(known.Name)...)
	if fault := side.KeyFault(known, now); fault != policy.Admitted {
		k.Fault = fault.String()
	}
	return k
}

// KeyStates lists the keys of a directory.
func KeyStates(dir key.Dir, side policy.Side, now time.Time) ([]KeyState, error) {
	entries, err := dir.List()
	if err != nil {
		return nil, err
	}
	byDefault, err := dir.Default()
	if err != nil {
		return nil, err
	}
	states := make([]KeyState, len(entries))
	for i, e := range entries {
		k := StateOf(e.Name, e.Public, side, now)
		k.Locked, k.Default = e.Locked, e.Name == byDefault
		if e.Err != nil {
			f := fault.Of(e.Err)
			if k.Error = f.Text; len(f.Hint) > 0 {
				k.Hint = f.Hint[0]
			}
		}
		states[i] = k
	}
	return states, nil
}

// KeyStateOf returns the state of one key of a directory, or fs.ErrNotExist.
func KeyStateOf(dir key.Dir, name string, s policy.Side, now time.Time) (KeyState, error) {
	states, err := KeyStates(dir, s, now)
	if err != nil {
		return KeyState{}, err
	}
	if i := slices.IndexFunc(states, func(k KeyState) bool { return k.Name == name }); i >= 0 {
		return states[i], nil
	}
	return KeyState{}, fs.ErrNotExist
}

// RemoveCommands returns the commands that remove the key from a policy. They first remove rules that would fall
// below their threshold.
func (k *KeyState) RemoveCommands(p *policy.Policy) (commands []string) {
	for _, r := range p.Sections().Rules {
		if slices.Contains(r.Keys, k.InPolicy) && len(r.Keys) <= r.Threshold {
			commands = append(commands, "rye trust remove --from names "+fault.Quote(r.Glob))
		}
	}
	return append(commands, "rye trust remove "+fault.Quote(k.InPolicy))
}
