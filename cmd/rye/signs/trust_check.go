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
	Name string `arg:"" complete:"ref" help:"Name: kind:id."`
	File string `arg:"" optional:"" complete:"file" help:"File to check under NAME."`
}

type trustCheckAnswer struct {
	Name     string            `json:"name"`
	Policies []trust.NameCheck `json:"policies"` // the root, and the project's if there is one
	File     *signing.Evidence `json:"file,omitempty"`
}

func (c *trustCheckRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	trusted, err := paths.OpenTrust(app)
	if trust.IsMissing(err) {
		return nil, fault.Of(err).Asked()
	}
	if err != nil {
		return nil, err
	}
	if !strings.Contains(c.Name, ":") {
		if c.Name, err = withKind(ctx, app, c.Name); err != nil {
			return nil, err
		}
	}
	if err := trusts.KnownKind(ctx, app, c.Name); err != nil {
		return nil, err
	}
	ans := trustCheckAnswer{Name: c.Name}
	var refused *fault.Error
	for _, au := range trusted.Authorities() {
		line, err := au.CheckName(c.Name, trusted.Now)
		if err != nil {
			return nil, err
		}
		if ans.Policies = append(ans.Policies, line); refused == nil {
			refused = line.Refusal(c.Name)
		}
	}
	if c.File != "" {
		file, err := (&VerifyRun{Items: []string{c.File}, As: c.Name}).Run(ctx, app)
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
	failure := fault.New(fault.Validation, "%q has no kind: expected kind:id", id)
	var refs []string
	if v, err := spaces.OpenItems(ctx, a); err == nil {
		defer v.Close()
		for _, k := range v.Kinds() {
			if _, err := v.Find(ctx, model.Ref{Kind: k.Name, ID: id}); err == nil {
				refs = append(refs, k.Name+":"+id)
				failure.Try(fault.Command("rye trust check", k.Name+":"+id))
			}
		}
	}
	if len(refs) == 1 {
		return refs[0], nil
	}
	return "", failure.Try(fault.Command("rye trust check", "bundle:"+id))
}

func (c trustCheckAnswer) Text(term *cli.Terminal) {
	for _, nameCheck := range c.Policies {
		var who []string
		for _, k := range nameCheck.Keys {
			s := k.Name + " " + paths.Short(k.Fingerprint)
			if k.Fault != "" {
				s += " (" + k.Fault + ")"
			}
			who = append(who, s)
		}
		switch {
		case nameCheck.Rule == "":
			term.Printf("%s: no rule covers %s\n", nameCheck.Origin, c.Name)
		case nameCheck.Excepted:
			term.Printf("%s: %q excepts %s\n", nameCheck.Origin, nameCheck.Rule, c.Name)
		default:
			term.Printf("%s: %q covers %s, keys: [%s], threshold: %d\n", nameCheck.Origin, nameCheck.Rule, c.Name,
				strings.Join(who, ", "),
				nameCheck.Threshold)
		}
		for _, l := range nameCheck.Ask {
			term.Printf("%s: calls: %q: %s\n", nameCheck.Origin, l.Line, l.Text)
		}
	}
	if strings.HasPrefix(c.Name, "tool:") {
		term.Printf(
			"other calls of threads, MCP clients and servers: ask if the risk is infra, money or destructive\n")
	}
	if c.File != nil {
		printEvidence(term, c.File)
	}
}
