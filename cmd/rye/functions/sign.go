package functions

import (
	"context"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/exec/agenttools"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/manifest/sign"
)

// SignParams are the parameters of tool:rye/primary/rye_sign.
type SignParams struct {
	Kind string `json:"item_type"`
	ID   string `json:"item_id"`
}

// SignNeeds returns the needed permission: to sign the item with the user's own key.
func SignNeeds(p SignParams) function.Need {
	return function.Need{Permissions: []capability.Capability{capabilityFor(capability.Sign, p.Kind,
		agenttools.BareID(p.Kind, p.ID))}, Own: true}
}

func signFunction(ctx context.Context, a *cli.App, c *function.Call, p SignParams) (any, error) {
	ref, err := model.ParseRef(p.Kind + ":" + agenttools.BareID(p.Kind, p.ID))
	if err != nil {
		return function.No(ctx, fault.Wrap(err, "invalid item: %v", err))
	}
	run := &signs.SignRun{Items: []string{ref.String()}, Format: sign.V2.String()}
	ans, err := run.Run(ctx, paths.Unattended(a, c.Files.Project, c.Errs))
	if err != nil {
		return function.No(ctx, err)
	}
	return function.Yes(ans.(*signs.SignAnswer).Files[0])
}
