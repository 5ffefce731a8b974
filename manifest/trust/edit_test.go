package trust_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

var nine = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// twoKeys is a policy in which alice and bob sign for acme, and alice for everything.
func twoKeys(t *testing.T, more string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse(fmt.Appendf(nil,
		"rye: policy/2\n\nkeys:\n  alice: {key: %q, owner: Alice}\n  bob: {key: %q, owner: Bob}\n\n"+
			"names:\n  \"**\": {keys: [alice], except: [\"rye/**\"]}\n  \"acme/**\": {keys: [alice, bob], threshold: 2}\n%s",
		keytest.Alice().Public(), keytest.Bob().Public(), more))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func agree(trust.Change) error { return nil }

func TestEdit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", trust.File)
	add := func(name string, k key.Private) func(*policy.Side) (*policy.Policy, error) {
		return func(s *policy.Side) (*policy.Policy, error) {
			return s.Policy.AddKey(policy.Key{Name: name, Public: k.Public()}, false)
		}
	}
	refused := errors.New("no")
	for _, e := range []trust.Edit{
		{Change: add("alice", keytest.Alice()), Approve: func(trust.Change) error { return refused }},
		{Change: add("alice", keytest.Alice()), Approve: agree, Commit: func() error { return refused }},
	} {
		if _, err := e.Apply(t.Context(), path, "user", nine); !errors.Is(err, refused) {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("a refused change was written")
		}
	}
	c, err := trust.Edit{Change: add("alice", keytest.Alice()), Approve: agree}.Apply(t.Context(), path, "user", nine)
	if err != nil || len(c.Changes) != 1 || c.Changes[0].Entry != "alice" || c.Unsigned {
		t.Fatalf("%+v, %v", c, err)
	}
	au, err := trust.Read(path, "user")
	if err != nil || au.Side.Policy.ID().String() != c.ID {
		t.Errorf("%v, %v", au, err)
	}
	same := trust.Edit{Change: func(s *policy.Side) (*policy.Policy, error) { return s.Policy, nil }, Approve: agree}
	if again, err := same.Apply(t.Context(), path, "user", nine); err != nil || len(again.Changes) != 0 ||
		again.ID != c.ID {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = trust.Edit{Change: add("no name", keytest.Bob()), Approve: agree}.Apply(t.Context(), path, "user", nine)
	if fault.CodeOf(err) != fault.Validation || !strings.HasPrefix(err.Error(), "the policy would be invalid: ") {
		t.Errorf("%v", err)
	}
	// Another process writes between the question and the answer.
	other := trust.Edit{Change: add("bob", keytest.Bob()), Approve: func(trust.Change) error {
		return os.WriteFile(path, nil, 0o600)
	}}
	if _, err := other.Apply(t.Context(), path, "user", nine); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte("keys: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := same.Apply(t.Context(), path, "user", nine); err == nil {
		t.Error("edited a policy that can't be read")
	}
}

func TestAddition(t *testing.T) {
	p := twoKeys(t, "")
	two := 2
	for _, c := range []struct {
		name   string
		add    trust.Addition
		as     string // the key's name afterwards
		rule   string // the text of the rule for x/**
		second bool
		err    string
	}{
		{name: "a new key", add: trust.Addition{Key: policy.Key{Name: "eve", Owner: "Eve",
			Public: keytest.Eve().Public()}, Names: []string{"x/**"}, Accept: "v1"},
			as: "eve", rule: "keys: [eve], threshold: 1, accept: [v1, v2]"},
		{name: "a name that is taken", add: trust.Addition{Key: policy.Key{Name: "bob", Owner: "Bob",
			Public: keytest.Eve().Public()}, Names: []string{"x/**"}},
			as: "bob-2", rule: "keys: [bob-2], threshold: 1", second: true},
		{name: "another owner's name", add: trust.Addition{Key: policy.Key{Name: "bob", Owner: "Eve",
			Public: keytest.Eve().Public()}}, err: `the policy calls another key "bob"`},
		{name: "a known key", add: trust.Addition{Key: policy.Key{Name: "b", Owner: "Bob",
			Public: keytest.Bob().Public(), Expires: nine}, Names: []string{"x/**"}},
			as: "bob", rule: "keys: [bob], threshold: 1"},
		{name: "too many", add: trust.Addition{Key: policy.Key{Name: "eve", Public: keytest.Eve().Public()},
			Names: []string{"x/**"}, Threshold: &two}, err: "expected a threshold from 1 to 1"},
	} {
		after, second, err := c.add.To(p)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || (second != nil) != c.second {
			t.Fatalf("%s: %v, %v", c.name, second, err)
		}
		k, _ := after.Key(c.add.Key.Public.Fingerprint())
		r, _ := after.RuleOf("tool:x/y")
		if k.Name != c.as || r.String() != c.rule || !k.Expires.Equal(c.add.Key.Expires) {
			t.Errorf("%s: %+v, %s", c.name, k, r)
		}
	}
	// A more particular rule takes its names from a key of the user's own.
	add := trust.Addition{Key: policy.Key{Name: "bob"}, Names: []string{"x/**"}}
	after, err := p.SetRule(policy.Rule{Glob: "x/**", Keys: []string{"bob"}, Threshold: 1})
	if err != nil {
		t.Fatal(err)
	}
	own := []trust.KeyState{trust.StateOf("mine", keytest.Alice().Public(), policy.Side{Policy: p}, nine)}
	if lost := add.Losses(own, p, after); !slices.Equal(lost,
		[]trust.Loss{{Key: "alice", Names: "x/**", Rule: "**"}}) {
		t.Errorf("%+v", lost)
	}
}

func TestKeyStates(t *testing.T) {
	dir := key.OpenDir(filepath.Join(t.TempDir(), "keys"))
	side := policy.Side{Policy: twoKeys(t, fmt.Sprintf("revoked:\n  \"key:%s\": {}\n",
		keytest.Bob().Public().Fingerprint()))}
	for name, k := range map[string]key.Private{"default": keytest.Alice(), "b": keytest.Bob(), "e": keytest.Eve()} {
		if err := dir.Add(name, k, ""); err != nil {
			t.Fatal(err)
		}
	}
	states, err := trust.KeyStates(dir, side, nine)
	if err != nil || len(states) != 3 {
		t.Fatalf("%+v, %v", states, err)
	}
	bob, alice, eve := states[0], states[1], states[2]
	if bob.InPolicy != "bob" || bob.Fault != "key-revoked" ||
		!slices.Equal(bob.RemoveCommands(side.Policy),
			[]string{"rye trust remove --from names 'acme/**'", "rye trust remove bob"}) {
		t.Errorf("%+v", bob)
	}
	if !alice.Default || !slices.Equal(alice.Vouches, []string{"**", "acme/**"}) || eve.InPolicy != "" ||
		eve.Fingerprint == "" {
		t.Errorf("%+v, %+v", alice, eve)
	}
	if _, err := trust.KeyStateOf(dir, "none", side, nine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestHandover(t *testing.T) {
	alice := keytest.Alice()
	old, err := twoKeys(t, "").SetDates("alice", time.Time{}, nine.AddDate(0, -1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		policy *policy.Policy
		h      trust.Handover
		code   fault.Code
		others int
		to     string
	}{
		{"two rules", twoKeys(t, ""), trust.Handover{Old: alice.Public(), Kept: "default"}, fault.Ambiguous, 0, ""},
		{"another rule", twoKeys(t, ""), trust.Handover{Old: alice.Public(), Kept: "default", Rule: "x"},
			fault.NotFound, 0, ""},
		{"no rule", twoKeys(t, ""), trust.Handover{Old: keytest.Eve().Public(), Kept: "default"}, fault.NotFound, 0,
			""},
		{"one of two", twoKeys(t, ""), trust.Handover{Old: alice.Public(), Kept: "default", Rule: "acme/**"}, "", 1,
			"default-2"},
		{"alone", twoKeys(t, ""), trust.Handover{Old: alice.Public(), Kept: "default", Rule: "**", To: "new"}, "", 0,
			"new"},
		{"a bad name", twoKeys(t, ""), trust.Handover{Old: alice.Public(), Kept: "default", Rule: "**", To: "A B"},
			fault.Validation, 0, "A B"},
		{"too late", old, trust.Handover{Old: alice.Public(), Kept: "default", Rule: "**"}, fault.Expired, 0, ""},
		{"revoked", twoKeys(t, fmt.Sprintf("revoked:\n  \"key:%s\": {}\n", alice.Public().Fingerprint())),
			trust.Handover{Old: alice.Public(), Kept: "default", Rule: "**"}, fault.Revoked, 0, ""},
	} {
		step, others, err := c.h.Plan(policy.Side{Policy: c.policy}, nil, nine)
		if c.code != "" {
			if err == nil || fault.CodeOf(err) != c.code {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || others != c.others || step.Key.Name != c.to {
			t.Errorf("%s: %+v, %d, %v", c.name, step, others, err)
		}
		file, id, err := c.h.Document(step, alice, keytest.Eve(), nine)
		if err != nil || id.IsZero() || !strings.Contains(string(file), keytest.Eve().Public().String()) {
			t.Errorf("%s: %s, %v", c.name, file, err)
		}
	}
}

func TestListing(t *testing.T) {
	p := twoKeys(t, "exec:\n  floor: landlock\n")
	au := &trust.Authority{Side: policy.Side{Policy: p}, Path: "policy.yaml", Origin: "user", File: p.Format()}
	l := trust.NewListing(au, nil, nine)
	if len(l.Keys) != 2 || l.ID != p.ID().String() || len(l.Rules) != 2 ||
		!slices.Equal(l.Exec, []trust.ExecLine{{Field: "floor", Value: "landlock"}}) {
		t.Errorf("%+v", l)
	}
	for name, code := range map[string]fault.Code{"tool:x": "", "tool:rye/x": fault.Policy} {
		c, err := au.CheckName(name, nine)
		f := c.Refusal(name)
		if err != nil || (f == nil) != (code == "") || f != nil && f.Code != code {
			t.Errorf("%s: %+v, %v, %v", name, c, f, err)
		}
	}
	late := nine.AddDate(1, 0, 0)
	dated, err := p.SetDates("bob", time.Time{}, nine)
	if err != nil {
		t.Fatal(err)
	}
	au.Side.Policy = dated
	c, err := au.CheckName("tool:acme/x", late)
	if f := c.Refusal("tool:acme/x"); err != nil || f == nil || f.Code != fault.BelowThreshold || len(c.Keys) != 2 ||
		c.Keys[1].Fault != "expired" {
		t.Errorf("%+v, %v, %v", c, f, err)
	}
	if _, err := au.CheckName("x", nine); err == nil {
		t.Error("checked what is no name")
	}
	none, err := policy.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := (&trust.Authority{Side: policy.Side{Policy: none}}).CheckName("tool:x", nine)
	if f := empty.Refusal("tool:x"); err != nil || f == nil || f.Code != fault.Policy {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestEditFile: an edit leaves the file's permissions as its owner has chosen them, touches nothing if it changes
// nothing, and tells who had signed the policy that the signature is gone.
func TestEditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), trust.File)
	same := trust.Edit{Change: func(s *policy.Side) (*policy.Policy, error) { return s.Policy, nil }, Approve: agree}
	if _, err := same.Apply(t.Context(), path, "user", nine); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("an edit without a change made a file")
	}
	before := twoKeys(t, "").Format()
	if err := errors.Join(os.WriteFile(path, before, 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	old, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := same.Apply(t.Context(), path, "user", nine); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(old, now) {
		t.Errorf("an edit without a change replaced the file: %v", err)
	}
	eve := trust.Edit{Change: func(s *policy.Side) (*policy.Policy, error) {
		return s.Policy.AddKey(policy.Key{Name: "eve", Public: keytest.Eve().Public()}, false)
	}, Approve: agree}
	if _, err := eve.Apply(t.Context(), path, "user", nine); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(path); err != nil || now.Mode().Perm() != 0o644 || os.SameFile(old, now) {
		t.Errorf("%v, %v", now, err)
	}
	// A signature is over the bytes, so the new policy has none.
	signed, err := sign.Sign(before, sign.Hash, sign.Claim{Domain: sign.Policy, Name: "policy"}, keytest.Alice(), nine,
		nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text   []byte
		signed bool
	}{{before, false}, {signed, true}} {
		if err := os.WriteFile(path, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if change, err := eve.Apply(t.Context(), path, "user", nine); err != nil || change.Unsigned != c.signed {
			t.Errorf("signed %t: %+v, %v", c.signed, change, err)
		}
	}
}

// TestEditRaces: whatever another process makes of the file between the question and the answer, this edit doesn't
// replace what it hasn't seen: a revocation by the other would be undone.
func TestEditRaces(t *testing.T) {
	text := twoKeys(t, "").Format()
	for name, c := range map[string]struct {
		before []byte // nil for no file
		other  func(path string) error
	}{
		"made":      {nil, func(path string) error { return os.WriteFile(path, text, 0o600) }},
		"made bare": {nil, func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		"changed":   {text, func(path string) error { return os.WriteFile(path, append(text, "\n# x\n"...), 0o600) }},
		"broken":    {text, func(path string) error { return os.WriteFile(path, []byte("keys: ["), 0o600) }},
		"removed":   {text, os.Remove},
		"emptied":   {[]byte{}, os.Remove},
	} {
		for _, late := range []bool{false, true} {
			if late && c.before != nil {
				continue // the lock is held
			}
			path := filepath.Join(t.TempDir(), trust.File)
			if c.before != nil {
				if err := os.WriteFile(path, c.before, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var then []byte
			other := func() error {
				err := c.other(path)
				then, _ = os.ReadFile(path)
				return err
			}
			edit := trust.Edit{Change: func(s *policy.Side) (*policy.Policy, error) {
				return s.Policy.AddKey(policy.Key{Name: "eve", Public: keytest.Eve().Public()}, false)
			}, Approve: agree}
			if late {
				edit.Commit = other
			} else {
				edit.Approve = func(trust.Change) error { return other() }
			}
			_, err := edit.Apply(t.Context(), path, "user", nine)
			now, _ := os.ReadFile(path)
			if fault.CodeOf(err) != fault.Conflict || !slices.Equal(now, then) {
				t.Errorf("%s, late %t: %v, %q", name, late, err, now)
			}
		}
	}
}
