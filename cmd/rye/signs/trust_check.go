package signs

import (
	"context"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/signing"
	"github.com/rye-build/rye/manifest/trust"
)

type trustCheckRun struct {
	Name string `arg:"" help:"Name: kind:id."`
	File string `arg:"" optional:"" complete:"file" help:"File to check under NAME."`
}

type trustCheckAnswer struct {
	Name     string            `json:"name"`
	Policies []trust.NameCheck `json:"policies"` // the root, and the project's if there is one
	File     *signing.Evidence `json:"file,omitempty"`
}

func (c *trustCheckRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	t, err := paths.OpenTrust(a)
	if trust.IsMissing(err) {
		return nil, fault.Of(err).Asked()
	}
	if err != nil {
		return nil, err
	}
	if !strings.Contains(c.Name, ":") {
		if c.Name, err = withKind(ctx, a, c.Name); err != nil {
			return nil, err
		}
	}
	if err := trusts.KnownKind(ctx, a, c.Name); err != nil {
		return nil, err
	}
	ans := trustCheckAnswer{Name: c.Name}
	var refused *fault.Error
	for _, au := range t.Authorities() {
		line, err := au.CheckName(c.Name, t.Now)
		if err != nil {
			return nil, err
		}
		if ans.Policies = append(ans.Policies, line); refused == nil {
			refused = line.Refusal(c.Name)
		}
	}
	if c.File != "" {
		file, err := (&VerifyRun{Items: []string{c.File}, As: c.Name}).Run(ctx, a)
		if r, ok := file.(*VerifyReport); ok {
			ans.File = r.Files[0]
		}
		return ans, err
	}
	if refused != nil {
		return ans, refused.Asked()
	}
	return ans, nil
}

// withKind returns the ref of a bare id that only one kind has. Otherwise the error suggests the refs that have it.
func withKind(ctx context.Context, a *cli.App, id string) (string, error) {
	f := fault.New(fault.Validation, "%q has no kind: expected kind:id", id)
	var refs []string
	if v, err := spaces.OpenItems(ctx, a); err == nil {
		defer v.Close()
		for _, k := range v.Kinds() {
			if _, err := v.Find(ctx, model.Ref{Kind: k.Name, ID: id}); err == nil {
				refs = append(refs, k.Name+":"+id)
				f.Try(fault.Command("rye trust check", k.Name+":"+id))
			}
		}
	}
	if len(refs) == 1 {
		return refs[0], nil
	}
	return "", f.Try(fault.Command("rye trust check", "bundle:"+id))
}

func (c trustCheckAnswer) Text(t *cli.Terminal) {
	for _, p := range c.Policies {
		var who []string
		for _, k := range p.Keys {
			s := k.Name + " " + paths.Short(k.Fingerprint)
			if k.Fault != "" {
				s += " (" + k.Fault + ")"
			}
			who = append(who, s)
		}
		switch {
		case p.Rule == "":
			t.Printf("%s: no rule covers %s\n", p.Origin, c.Name)
		case p.Excepted:
			t.Printf("%s: %q excepts %s\n", p.Origin, p.Rule, c.Name)
		default:
			t.Printf("%s: %q decides, keys: [%s], threshold: %d\n", p.Origin, p.Rule, strings.Join(who, ", "),
				p.Threshold)
		}
		for _, l := range p.Ask {
			t.Printf("%s: calls: %q: %s\n", p.Origin, l.Line, l.Text)
		}
	}
	if strings.HasPrefix(c.Name, "tool:") {
		t.Printf("other calls of threads, MCP clients and servers: ask if the risk is infra, money or destructive\n")
	}
	if c.File != nil {
		printEvidence(t, c.File)
	}
}
