package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func trustCheckCommand() command {
	return command{
		path: "trust check", group: "trust", help: "Say who may vouch for a name, and whether they did for a file.",
		more: "With FILE it is rye verify. Without, it says which rule decides about NAME, in the user's policy and in the project's. If nobody " +
			"may vouch for it, the exit status is 1.\n\nExamples:\n\n    rye trust check tool:acme/fetch\n    rye trust check tool:acme/fetch fetch.py",
		aka: []string{"trust explain", "trust why"},
		new: func() runner { return new(trustCheckRun) }, schema: "trust-check/1", output: trustCheckAnswer{},
	}
}

type trustCheckRun struct {
	Name string `arg:"" help:"A name: kind:id."`
	File string `arg:"" optional:"" complete:"file" help:"A file that is to be used as NAME."`
}

type trustCheckAnswer struct {
	Name     string        `json:"name"`
	Policies []checkLine   `json:"policies"` // the root, and the project's if there is one
	File     *verifyAnswer `json:"file,omitempty"`
}

// checkLine is what one policy says about a name.
type checkLine struct {
	Policy    string         `json:"policy"`
	Origin    string         `json:"origin"`
	Rule      string         `json:"rule"` // empty: none covers the name
	Excepted  bool           `json:"excepted"`
	Threshold int            `json:"threshold"`
	Count     int            `json:"count"` // of keys that may vouch now
	Keys      []trustKeyLine `json:"keys"`
}

func (c *trustCheckRun) run(ctx context.Context, a *app) (answer, error) {
	t, err := a.trust()
	if isNobody(err) {
		return nil, classify(err).Asked()
	}
	if err != nil {
		return nil, err
	}
	if err := a.knownKind(ctx, c.Name); err != nil {
		return nil, err
	}
	ans := trustCheckAnswer{Name: c.Name}
	var refused *fault.Error
	for _, au := range t.authorities() {
		line, err := t.check(au, c.Name)
		if err != nil {
			return nil, err
		}
		ans.Policies = append(ans.Policies, line)
		switch {
		case refused != nil:
		case line.Rule == "":
			refused = &fault.Error{Code: fault.Policy, Text: fmt.Sprintf("no rule of %q covers %q: nobody may vouch for it", au.path, c.Name),
				Hint: []string{"rye trust add KEYFILE --owner OWNER --names GLOB"}}
		case line.Excepted:
			refused = &fault.Error{Code: fault.Policy, Text: fmt.Sprintf("%q excepts %q: nobody may vouch for it", line.Rule, c.Name)}
		case line.Count < line.Threshold:
			refused = &fault.Error{Code: fault.BelowThreshold, Text: fmt.Sprintf("%q asks for %s, and %d of its keys may vouch: nothing called %q can pass",
				line.Rule, fault.Count(int64(line.Threshold), "key"), line.Count, c.Name),
				Hint: []string{"rye trust add KEYFILE --owner OWNER --names " + fault.Quote(line.Rule), "rye trust list"}}
		}
	}
	if c.File != "" {
		file, err := (&verifyRun{Items: []string{c.File}, As: c.Name}).run(ctx, a)
		if r, ok := file.(*verifyReport); ok {
			ans.File = r.Files[0]
		}
		return ans, err
	}
	if refused != nil {
		return ans, refused.Asked()
	}
	return ans, nil
}

// knownKind refuses a name, or a glob, of a kind that neither items nor documents have: most often a slip of the finger.
func (a *app) knownKind(ctx context.Context, name string) error {
	kind, _, ok := strings.Cut(name, ":")
	if !ok || strings.Contains(kind, "*") || exam.Domain(kind+":x") != sign.Item {
		return nil
	}
	v, err := a.items(ctx)
	if err != nil {
		return nil // which kinds there are can't be told
	}
	defer v.close()
	_, err = v.kind(kind)
	return err
}

// check asks one policy about a name, for bytes that everybody has signed: what it answers is who could.
func (t *trust) check(au *authority, name string) (checkLine, error) {
	line := checkLine{Policy: au.path, Origin: au.origin, Keys: []trustKeyLine{}}
	r := policy.Request{Name: name, Raw: cas.Sum([]byte(name)), Now: t.now}
	for _, k := range au.side.Policy.Sections().Keys {
		r.Signers = append(r.Signers, sign.Signer{Key: k.Public, Format: sign.V2})
	}
	d := policy.Decide(r, policy.Side{Policy: au.side.Policy, Lists: au.side.Lists}, nil)
	switch d.Code {
	case policy.Ambiguous, policy.BadRequest, policy.ListStale:
		return line, &fault.Error{Code: codeOf(d.Code), Text: fmt.Sprintf("%q %s", name, d.Reason())}
	}
	line.Rule, line.Excepted, line.Threshold, line.Count = d.Rule, d.Excepted, d.Threshold, d.Count
	for _, r := range au.side.Policy.Sections().Rules {
		if r.Glob != d.Rule || d.Excepted {
			continue
		}
		for _, n := range r.Keys {
			k, _ := au.side.Policy.KeyNamed(n)
			l := newTrustKeyLine(k, t.now)
			for _, v := range d.Signers {
				if v.Key == k.Public.Fingerprint() && v.Code != policy.Admitted {
					l.Revoked, l.Fault = v.Code == policy.KeyRevoked, v.Code.String()
				}
			}
			line.Keys = append(line.Keys, l)
		}
	}
	return line, nil
}

func (c trustCheckAnswer) text(t *terminal) {
	for _, p := range c.Policies {
		var who []string
		for _, k := range p.Keys {
			s := k.Name + " " + short(k.Fingerprint)
			if k.Fault != "" {
				s += " (" + k.Fault + ")"
			}
			who = append(who, s)
		}
		switch {
		case p.Rule == "":
			t.printf("%s: no rule covers %s\n", p.Origin, c.Name)
		case p.Excepted:
			t.printf("%s: %q excepts %s\n", p.Origin, p.Rule, c.Name)
		default:
			t.printf("%s: %q decides, %d of %s\n", p.Origin, p.Rule, p.Threshold, strings.Join(who, ", "))
		}
	}
	if c.File != nil {
		c.File.text(t)
	}
}
