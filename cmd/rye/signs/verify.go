package signs

import (
	"context"
	"fmt"
	"io"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

func VerifyCommand() cli.Command {
	return cli.Command{
		Path: "verify", Group: "trust", Help: "Verify the signatures of items, or of a file under a name.",
		More: "An ITEM is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', '**'), or a file or directory below .ai. Any other file needs " +
			"--as NAME, what it is to be used as: kind:id, as in tool:acme/fetch, or the name of a document: bundle:ID@VERSION, policy:NAME, " +
			"revocations:NAME, rotation:RULE.\n\n" +
			"It reads every file whole, of a tool those of its tree too, checks the signatures, and asks the policy (see rye trust); nothing is " +
			"remembered from before. A bundle of the lock that isn't here is refused where a glob may stand for its items. If the answer is no, for one of many too, the exit status is 1 and the code says why; where the policy that would answer " +
			"is refused itself, it is 4.\n\n" +
			"Examples:\n\n    rye verify tool:acme/fetch\n    rye verify '**' --json\n    rye verify --trust team.yaml fetch.py --as tool:acme/fetch",
		New: func() cli.Runner { return new(VerifyRun) }, Schema: "verify/2", Output: &VerifyReport{},
	}
}

type VerifyRun struct {
	Items []string `arg:"" name:"item" complete:"ref" help:"Refs, globs, files or directories."`
	As    string   `placeholder:"NAME" help:"Name under which to use the one file."`
}

// VerifyAnswer is the evidence about one file, whatever the answer.
type VerifyAnswer struct {
	Name      string              `json:"name"`
	File      string              `json:"file"`
	Space     string              `json:"space,omitempty"` // of an item
	Allowed   bool                `json:"allowed"`
	Trust     string              `json:"trust"`          // "signed", "digest", "builtin", "unsigned", "refused"
	Reason    string              `json:"reason"`         // one word for what was found: the policy's, or what is wrong with the file
	Code      fault.Code          `json:"code,omitempty"` // of the refusal
	Message   string              `json:"message,omitempty"`
	Raw       string              `json:"raw"`
	Stripped  string              `json:"stripped"`       // without signature lines; of a document its id
	Tree      string              `json:"tree,omitempty"` // of the files beside it
	TreeFiles int                 `json:"tree_files"`
	Format    string              `json:"format"` // "none", "v1", "v2"
	Rule      string              `json:"rule"`
	Count     int                 `json:"count"`     // of keys that count
	Threshold int                 `json:"threshold"` // that the rule asks for
	Signers   []spaces.SignerLine `json:"signers"`
	Policy    string              `json:"policy"` // the file that decided
	PolicyID  string              `json:"policy_id"`
	Origin    string              `json:"origin"`            // "user", "--trust", "RYE_TRUST", "project"
	Beside    string              `json:"project,omitempty"` // the project's policy, which allows it too
	Revoked   string              `json:"revoked,omitempty"` // what is revoked: a key or a digest
	List      string              `json:"list,omitempty"`    // the revocation list that says so, or that is stale
	Warnings  []string            `json:"warnings"`
	Next      string              `json:"next,omitempty"` // the command by which what is allowed takes effect, of a rotation
	Expected  string              `json:"expected,omitempty"`
	Found     string              `json:"found,omitempty"`
	LineEnds  bool                `json:"only_line_endings_differ,omitempty"`
	reason    string
	hint      []string // where it needs another one than those of items
}

func (c *VerifyRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.As == "" {
		return c.verifyItems(ctx, a)
	}
	if len(c.Items) != 1 {
		return nil, &fault.Error{Code: fault.Validation, Text: "--as names one file, and " + fault.Count(int64(len(c.Items)), "file") + " are given",
			Hint: []string{"rye verify " + fault.Quote(c.Items[0]) + " --as NAME"}}
	}
	s, err := places.NewSubject(c.Items[0], c.As)
	if err != nil {
		return nil, err
	}
	if err := places.RefuseLinks(a, s.File); err != nil {
		return nil, err
	}
	t, err := trustToAsk(a)
	if err != nil {
		return nil, err
	}
	if ref, marked, err := itemAt(ctx, a, s); marked && ref == s.Name || err != nil {
		if err != nil {
			return nil, err
		}
		return c.verifyItems(ctx, a)
	}
	file, err := places.Open(a, s)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ans, f := verify(a, t, s, file)
	for _, w := range ans.Warnings {
		a.Term.Warn("%s", w)
	}
	return NewVerifyReport([]*VerifyAnswer{ans}, f)
}

// trustToAsk is the trust of a command that was asked: where nobody is trusted the answer is no.
func trustToAsk(a *cli.App) (*trust.Trust, error) {
	t, err := places.OpenTrust(a)
	if trust.IsMissing(err) {
		return nil, fault.Of(err).Asked()
	}
	return t, err
}

// verify examines a file; the fault is the refusal.
func verify(a *cli.App, t *trust.Trust, s places.Subject, file io.ReadSeeker) (*VerifyAnswer, *fault.Error) {
	e, err := places.Examine(t, s, file, policy.ToUse)
	ans := newVerifyAnswer(t, e)
	f := e.Refusal(t)
	if err != nil {
		f = s.Broken(err)
		ans.refuse(f)
	} else if f == nil && e.Decision.Rotation {
		if err := places.Lists(a).CheckOnce(t.Root.RotationStep(e.Identity.Name, e.Identity.ID, t.Now)); err != nil {
			f = fault.Of(err)
			ans.refuse(f)
		}
	}
	if f != nil {
		ans.Code, ans.Message = f.Line().Code, f.Text
	}
	return ans, f
}

func newVerifyAnswer(t *trust.Trust, e places.Examined) *VerifyAnswer {
	d := &e.Decision
	ans := &VerifyAnswer{
		Name: e.Name, File: e.About.File, Allowed: d.Allowed, Trust: "refused", Raw: e.Signed.Raw.String(), Stripped: e.Signed.Stripped.String(),
		Format: e.Signed.Format.String(), Rule: d.Rule, Count: d.Count, Threshold: d.Threshold,
		Signers: []spaces.SignerLine{}, Warnings: append([]string{}, d.Warnings...),
	}
	au := t.Root
	if d.Project && t.Project != nil {
		au = t.Project
	}
	ans.Policy, ans.PolicyID, ans.Origin = au.Path, au.Side.Policy.ID().String(), au.Origin
	if d.Code != policy.Undecided {
		ans.Reason, ans.reason = d.Code.String(), d.Reason()
	}
	if !e.Tree.IsZero() {
		ans.Tree = e.Tree.String()
	}
	switch {
	case d.Allowed && d.Voucher == policy.Builtin:
		ans.Trust = "builtin"
	case d.Allowed && d.ByDigest:
		ans.Trust = "digest"
	case d.Allowed:
		ans.Trust = "signed"
	case e.Signed.Format == sign.None:
		ans.Trust = "unsigned"
	}
	if d.Revoked != nil {
		ans.Revoked = d.Revoked.What()
	}
	ans.List = d.List
	if d.Rotation && d.Allowed {
		ans.Next = "rye trust add --rotation " + fault.Quote(e.About.File)
	}
	if d.Beside != nil {
		ans.Beside = t.Project.Path
		ans.Warnings = append(ans.Warnings, d.Beside.Warnings...)
	}
	ans.Signers = append(ans.Signers, spaces.SignerLines(au, e, d.Signers)...)
	return ans
}

// refuse makes the answer that of a file that is wrong in itself, whatever policy has said.
func (v *VerifyAnswer) refuse(f *fault.Error) {
	v.Allowed, v.Trust = false, "refused"
	v.Reason, _ = f.Details["reason"].(string)
	v.Expected, _ = f.Details["expected"].(string)
	v.Found, _ = f.Details["found"].(string)
	v.LineEnds, _ = f.Details["only_line_endings_differ"].(bool)
}

// Text says what was checked, and by whose word. What is refused is told as the error.
func (v *VerifyAnswer) Text(t *cli.Terminal) {
	if !v.Allowed {
		return
	}
	t.Printf("%s  %s\n", t.Stdout.Paint(cli.RoleGood, "verified", t.Ascii), v.Name)
	rows := [][]string{{"  file", v.File + ", " + v.Stripped}}
	if v.TreeFiles > 0 {
		rows = append(rows, []string{"  tree", fault.Count(int64(v.TreeFiles), "file") + " beside it, " + v.Tree})
	}
	for _, s := range v.Signers {
		who := fmt.Sprintf("%q %s", s.Name, places.Short(s.Key))
		if s.Name == "" {
			who = places.Short(s.Key)
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
	switch v.Trust {
	case "builtin":
		rows = append(rows, []string{"  rule", "it is part of this binary, which vouches for it"})
	case "digest":
		rows = append(rows, []string{"  rule", "its digest is listed under digests"})
	default:
		rows = append(rows, []string{"  rule", spaces.RuleText(v.Rule, v.Threshold, v.Count)})
	}
	rows = append(rows, []string{"  policy", fmt.Sprintf("%s (%s)", v.Policy, v.Origin)})
	if v.Beside != "" {
		rows = append(rows, []string{"  and", fmt.Sprintf("%s (project)", v.Beside)})
	}
	if v.Next != "" {
		rows = append(rows, []string{"  in force", "only by: " + v.Next})
	}
	t.Rows(rows)
}
