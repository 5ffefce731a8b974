package signs

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/signing"
)

// This file signs an item at the request of a model or an agent.

// SignAsked signs the item of a ref, once the user has agreed to the file on the screen. who is the requester shown
// in the question.
func SignAsked(ctx context.Context, app *cli.App, flag trusts.KeyFlag, who, ref string) (*signing.Signed, error) {
	signRun := &SignRun{Items: []string{ref}, Format: sign.V2.String(), KeyFlag: flag}
	items, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer items.Close()
	sel, err := signRun.selected(ctx, items)
	if err != nil {
		return nil, err
	}
	if len(sel.Files) != 1 {
		return nil, fault.New(fault.NotFound, "%q not found", ref).On("ref", ref)
	}
	it, err := items.Load(ctx, sel.Files[0].File)
	if err != nil {
		return nil, err
	}
	subject, _, err := items.Admit.Subject(ctx, it)
	if err != nil {
		return nil, err
	}
	app.Term.Prompt("%s wants you to sign %s: %s, %s\n", who, ref, items.Name(it.Space, it.Path),
		fault.Count(int64(len(it.Bytes)), "byte"))
	switch line, err := app.Ask(ctx, "sign it?", "[y/N]"); {
	case err != nil:
		return nil, err
	case line != "y" && line != "yes":
		return nil, fault.New(fault.Approval, "the user declined to sign %q", ref).On("ref", ref)
	}
	signRun.shown = map[string]content{it.Ref.String(): {it.Stripped, subject.Tree}}
	ans, err := signRun.signItems(ctx, app)
	if err != nil {
		return nil, err
	}
	return ans.(*SignAnswer).Files[0], nil
}
