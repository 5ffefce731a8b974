package items

import (
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

type mvRun struct {
	Ref    string `arg:"" complete:"own" help:"Ref, or file below .ai."`
	NewID  string `arg:"" name:"newid" help:"New id, such as acme/web/fetch."`
	Sign   bool   `help:"Sign it even if another key signed it before."`
	DryRun bool   `help:"Show what would be done; write nothing."`
	trusts.KeyFlag
}

type mvAnswer struct {
	Ref      string         `json:"ref"` // the new one
	Old      string         `json:"old"`
	File     string         `json:"file"`
	OldFile  string         `json:"old_file"`
	Files    []string       `json:"files"`  // the rest of its tree, where it is now
	Edited   []edit.Field   `json:"edited"` // in the file
	Signed   bool           `json:"signed"` // anew
	Key      string         `json:"key"`
	Lost     []string       `json:"lost"` // keys whose signatures are gone
	Mentions []edit.Mention `json:"mentioned_by"`
	DryRun   bool           `json:"dry_run"`
}

func (m mvAnswer) Text(t *cli.Terminal) {
	verb := cli.DryVerb(m.DryRun, "moved", "would move")
	t.Printf("%s %s to %s  %s", verb, m.Old, m.Ref, m.File)
	if n := len(m.Files); n > 0 {
		t.Printf(", and %s of its tree", fault.Count(int64(n), "file"))
	}
	if m.Signed {
		t.Printf(", signed with %s", paths.Short(m.Key))
	}
	t.Printf("\n")
	for _, e := range m.Edited {
		t.Printf("  line %d  %s: %q is now %q\n", e.Line, e.Field, e.Old, e.New)
	}
}

func (c *mvRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	it, err := shown(ctx, v, c.Ref)
	if err != nil {
		return nil, err
	}
	m, err := c.plan(ctx, v, it)
	if err != nil {
		return nil, err
	}
	ans := mvAnswer{Ref: m.New.Ref.String(), Old: it.Ref.String(), File: v.Name(it.Space, m.New.Path),
		OldFile: v.Name(it.Space, it.Path),
		Files:   []string{}, Edited: append([]edit.Field{}, m.Edited...), Lost: []string{}, DryRun: c.DryRun}
	for _, p := range m.Files() {
		ans.Files = append(ans.Files, v.Name(it.Space, p))
	}
	k, err := c.signer(ctx, v, m, &ans)
	if err != nil {
		return nil, err
	}
	if ans.Mentions, err = mentions(ctx, v, []model.Ref{it.Ref}); err != nil {
		return nil, err
	}
	warnMentions(a, ans.Mentions)
	for _, id := range ans.Lost {
		a.Term.Warn("the signature of %s is lost: it is about the old id, %q", id, it.Ref)
	}
	if c.DryRun {
		return ans, nil
	}
	unlock, err := aloneWith(ctx, a, m.New)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := v.Move(ctx, m, signer(v, k)); err != nil {
		return nil, err
	}
	afterwards(ctx, v, m.New)
	v.WarnTrees(ctx, it.Space, it.Path, it.Ref, m.New.Ref)
	return ans, nil
}

// plan reads the new id and says what the move changes.
func (c *mvRun) plan(ctx context.Context, v *spaces.Items, it *ai.Item) (*edit.Move, error) {
	if err := edit.CheckWritable(it); err != nil {
		return nil, err
	}
	kind, _, colon := strings.Cut(c.NewID, ":")
	if _, known := v.Kind(kind); colon && known && kind != it.Ref.Kind {
		return nil, fault.New(fault.Validation, "%s is a %s: its kind can't change to that of %q", it.Ref, it.Ref.Kind,
			c.NewID).
			Because("the content of a file decides its kind: rye new makes a "+kind).On("ref", it.Ref.String())
	}
	ref, err := model.ParseRef(it.Ref.Kind + ":" + strings.TrimPrefix(c.NewID, it.Ref.Kind+":"))
	if err != nil {
		return nil, items.BadRef(c.NewID, err)
	}
	return v.PlanMove(ctx, it, ref)
}

// signer is the key that signs the item under its new name; none where it wasn't signed.
func (c *mvRun) signer(ctx context.Context, v *spaces.Items, m *edit.Move, ans *mvAnswer) (trusts.Signer, error) {
	it := m.Old
	if it.Signed.Format == sign.None && it.Broken == nil && !c.Sign {
		return trusts.Signer{}, nil
	}
	k, err := trusts.SigningKey(ctx, v.App, c.Key)
	if err != nil {
		return trusts.Signer{}, err
	}
	if err := v.CheckSignable(ctx, it); err != nil {
		return trusts.Signer{}, err
	}
	own := k.Public().Fingerprint()
	found, err := v.Admit.Admit(ctx, it, policy.ToUse)
	good := err == nil && found.Decision.Allowed
	if good {
		good = slices.ContainsFunc(found.Signers, func(s sign.Signer) bool {
			return s.Key.Fingerprint() == own && s.Format == sign.V2
		})
	}
	if !good && !c.Sign {
		return trusts.Signer{}, fault.New(fault.Policy, "%s has no valid signature by %q", it.Ref, k.Name).From(err).
			Because("its new id needs a new signature, which covers the file as it is now").
			Try("rye show "+fault.Quote(it.Ref.String()),
				"rye mv --sign "+fault.Quote(c.Ref)+" "+fault.Quote(c.NewID)).
			On("reason", "not-own").On("ref", it.Ref.String())
	}
	for _, l := range it.Signed.Lines {
		if l.Key != own {
			ans.Lost = append(ans.Lost, l.Key.String())
		}
	}
	ans.Signed, ans.Key = true, own.String()
	return k, nil
}
