package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func verifyCommand() command {
	return command{
		path: "verify", group: "trust", help: "Say whether a file may be used under a name, and by whose word.",
		more: "It reads the whole file, checks its signatures, and asks the policy (see rye trust). NAME is what the file is to be used " +
			"as: kind:id, as in tool:acme/fetch, or that of a document: bundle:ID@VERSION, policy:NAME, revocations:NAME, rotation:RULE. " +
			"If the answer is no, the exit status is 1 and the code says why.\n\n" +
			"Examples:\n\n    rye verify .ai/tools/acme/fetch.py --as tool:acme/fetch\n    rye verify --trust team.yaml fetch.py --as tool:acme/fetch --json",
		new: func() runner { return new(verifyRun) }, schema: "verify/1", output: &verifyAnswer{},
	}
}

type verifyRun struct {
	File string `arg:"" complete:"file" help:"A file."`
	As   string `required:"" placeholder:"NAME" help:"What the file is to be used as."`
}

// verifyAnswer is the evidence, whatever the answer.
type verifyAnswer struct {
	Name      string       `json:"name"`
	File      string       `json:"file"`
	Allowed   bool         `json:"allowed"`
	Trust     string       `json:"trust"`  // "signed", "digest", "unsigned", "refused"
	Reason    string       `json:"reason"` // one word of policy's, or empty where the file itself is wrong
	Raw       string       `json:"raw"`
	Stripped  string       `json:"stripped"` // without signature lines; of a document its id
	Format    string       `json:"format"`   // "none", "v1", "v2"
	Rule      string       `json:"rule"`
	Count     int          `json:"count"`     // of keys that count
	Threshold int          `json:"threshold"` // that the rule asks for
	Signers   []signerLine `json:"signers"`
	Policy    string       `json:"policy"` // the file that decided
	PolicyID  string       `json:"policy_id"`
	Origin    string       `json:"origin"`            // "user", "--trust", "RYE_TRUST", "project"
	Beside    string       `json:"project,omitempty"` // the project's policy, which allows it too
	Warnings  []string     `json:"warnings"`
	Expected  string       `json:"expected,omitempty"`
	Found     string       `json:"found,omitempty"`
	LineEnds  bool         `json:"only_line_endings_differ,omitempty"`
	reason    string
	short     string
}

type signerLine struct {
	Key     string `json:"key"`  // its fingerprint
	Name    string `json:"name"` // in the policy; empty if it has none
	Owner   string `json:"owner"`
	Format  string `json:"format"`
	Time    string `json:"time"` // as the signature says: information
	Verdict string `json:"verdict"`
}

func (c *verifyRun) run(_ context.Context, a *app) (answer, error) {
	s, err := newSubject(c.File, c.As)
	if err != nil {
		return nil, err
	}
	t, err := a.trust()
	if isNobody(err) {
		return nil, classify(err).asked()
	}
	if err != nil {
		return nil, err
	}
	file, err := s.open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	e, err := t.examine(s, file, policy.ToUse)
	ans := newVerifyAnswer(t, e)
	for _, w := range ans.Warnings {
		a.term.warn("%s", w)
	}
	if err != nil {
		f := s.broken(err)
		ans.refuse(f)
		return ans, f.asked()
	}
	if f := e.refusal(t); f != nil {
		return ans, f.asked()
	}
	return ans, nil
}

func newVerifyAnswer(t *trust, e *exam) *verifyAnswer {
	d := &e.decision
	ans := &verifyAnswer{
		Name: e.name, File: e.file, Allowed: d.Allowed, Trust: "refused", Raw: e.signed.Raw.String(), Stripped: e.signed.Stripped.String(),
		Format: e.signed.Format.String(), Rule: d.Rule, Count: d.Count, Threshold: d.Threshold,
		Signers: []signerLine{}, Warnings: append([]string{}, d.Warnings...), short: e.signed.Stripped.Short(),
	}
	au := t.root
	if d.Project && t.project != nil {
		au = t.project
	}
	ans.Policy, ans.PolicyID, ans.Origin = au.path, au.side.Policy.ID().String(), au.origin
	if d.Code != policy.Undecided {
		ans.Reason, ans.reason = d.Code.String(), d.Reason()
	}
	switch {
	case d.Allowed && d.ByDigest:
		ans.Trust = "digest"
	case d.Allowed:
		ans.Trust = "signed"
	case e.signed.Format == sign.None:
		ans.Trust = "unsigned"
	}
	if d.Beside != nil {
		ans.Beside = t.project.path
		ans.Warnings = append(ans.Warnings, d.Beside.Warnings...)
	}
	ans.Signers = append(ans.Signers, signerLines(au, e, d.Signers)...)
	return ans
}

// signerLines joins what policy says of each signer with when they say to have signed.
func signerLines(au *authority, e *exam, verdicts []policy.Verdict) (lines []signerLine) {
	for _, v := range verdicts {
		l := signerLine{Key: v.Key.String(), Name: v.Name, Format: v.Format.String(), Verdict: v.Code.String()}
		if k, ok := au.side.Policy.Key(v.Key); ok {
			l.Owner = k.Owner
		}
		for _, s := range e.signers {
			if s.Key.Fingerprint() == v.Key && !s.Time.IsZero() {
				l.Time = s.Time.Format(time.RFC3339)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// refuse makes the answer that of a file that is wrong in itself, whatever policy has said.
func (v *verifyAnswer) refuse(f *fault) {
	v.Allowed, v.Trust = false, "refused"
	v.Expected, _ = f.details["expected"].(string)
	v.Found, _ = f.details["found"].(string)
	v.LineEnds, _ = f.details["only_line_endings_differ"].(bool)
}

// text says what was checked, and by whose word. What is refused is told as the error.
func (v *verifyAnswer) text(t *terminal) {
	if !v.Allowed {
		return
	}
	t.printf("%s  %s\n", t.stdout.paint(roleGood, "verified", t.ascii), v.Name)
	rows := [][]string{{"  file", v.File + ", " + v.Stripped}}
	for _, s := range v.Signers {
		who := fmt.Sprintf("%q %s", s.Name, short(s.Key))
		if s.Name == "" {
			who = short(s.Key)
		}
		if s.Owner != "" {
			who += ", " + s.Owner
		}
		if s.Format != sign.V2.String() {
			who += ", format " + s.Format
		}
		if s.Verdict != policy.Admitted.String() {
			who += ": does not count, " + s.Verdict
		}
		rows = append(rows, []string{"  signed by", who})
	}
	if v.Trust == "digest" {
		rows = append(rows, []string{"  rule", "its digest is listed under digests"})
	} else {
		rows = append(rows, []string{"  rule", fmt.Sprintf("%q, %d of %s", v.Rule, v.Count, counted(int64(v.Threshold), "key"))})
	}
	rows = append(rows, []string{"  policy", fmt.Sprintf("%s (%s)", v.Policy, v.Origin)})
	if v.Beside != "" {
		rows = append(rows, []string{"  and", fmt.Sprintf("%s (project)", v.Beside)})
	}
	t.rows(rows)
}
