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
	Ref    string `arg:"" complete:"own|path" help:"Ref, or file below .ai."`
	NewID  string `arg:"" name:"newid" help:"New id, such as acme/web/fetch."`
	Sign   bool   `help:"Sign it even if another key signed it before."`
	DryRun bool   `help:"Show what would be done; write nothing."`
	trusts.KeyFlag
}

type mvAnswer struct {
	Ref      string         `json:"ref"` // the new ref
	Old      string         `json:"old"`
	File     string         `json:"file"`
	OldFile  string         `json:"old_file"`
	Files    []string       `json:"files"`  // the other files of its tree, at their new place
	Edited   []edit.Field   `json:"edited"` // the fields that changed in the file
	Signed   bool           `json:"signed"` // the item was signed again
	Key      string         `json:"key"`
	Lost     []string       `json:"lost"` // keys whose signatures are lost
	Mentions []edit.Mention `json:"mentioned_by"`
	DryRun   bool           `json:"dry_run"`
}

func (m mvAnswer) Text(term *cli.Terminal) {
	verb := cli.DryVerb(m.DryRun, "moved", "would move")
	term.Printf("%s %s to %s  %s", verb, m.Old, m.Ref, m.File)
	if n := len(m.Files); n > 0 {
		term.Printf(", and %s of its tree", fault.Count(int64(n), "file"))
	}
	if m.Signed {
		term.Printf(", signed with %s", paths.Short(m.Key))
	}
	term.Printf("\n")
	for _, e := range m.Edited {
		term.Printf("  line %d  %s: %q is now %q\n", e.Line, e.Field, e.Old, e.New)
	}
}

func (c *mvRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	it, err := shown(ctx, view, c.Ref)
	if err != nil {
		return nil, err
	}
	move, err := c.plan(ctx, view, it)
	if err != nil {
		return nil, err
	}
	ans := mvAnswer{Ref: move.New.Ref.String(), Old: it.Ref.String(), File: view.Name(it.Space, move.New.Path),
		OldFile: view.Name(it.Space, it.Path),
		Files:   []string{}, Edited: append([]edit.Field{}, move.Edited...), Lost: []string{}, DryRun: c.DryRun}
	for _, p := range move.Files() {
		ans.Files = append(ans.Files, view.Name(it.Space, p))
	}
	userKey, err := c.signer(ctx, view, move, &ans)
	if err != nil {
		return nil, err
	}
	if ans.Mentions, err = mentions(ctx, view, []model.Ref{it.Ref}); err != nil {
		return nil, err
	}
	warnMentions(app, ans.Mentions)
	for _, id := range ans.Lost {
		app.Term.Warn("the signature of %s is lost: it is about the old id, %q", id, it.Ref)
	}
	if c.DryRun {
		return ans, nil
	}
	unlock, err := aloneWith(ctx, app, move.New)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := view.Move(ctx, move, signer(view, userKey)); err != nil {
		return nil, err
	}
	afterwards(ctx, view, move.New)
	view.WarnTrees(ctx, it.Space, it.Path, it.Ref, move.New.Ref)
	return ans, nil
}

// plan parses the new id and plans the move. It refuses an id of another kind.
func (c *mvRun) plan(ctx context.Context, view *spaces.Items, it *ai.Item) (*edit.Move, error) {
	if err := edit.CheckWritable(it); err != nil {
		return nil, err
	}
	kind, _, colon := strings.Cut(c.NewID, ":")
	if _, known := view.Kind(kind); colon && known && kind != it.Ref.Kind {
		return nil, fault.New(fault.Validation, "%s is a %s: its kind can't change to that of %q", it.Ref, it.Ref.Kind,
			c.NewID).
			Because("the content of a file decides its kind: rye new creates a "+kind).On("ref", it.Ref.String())
	}
	ref, err := model.ParseRef(it.Ref.Kind + ":" + strings.TrimPrefix(c.NewID, it.Ref.Kind+":"))
	if err != nil {
		return nil, items.BadRef(c.NewID, err)
	}
	return view.PlanMove(ctx, it, ref)
}

// signer returns the key that signs the item under its new id, or the zero Signer for an unsigned item. Without
// --sign it refuses an item that has no valid signature of this key.
func (c *mvRun) signer(ctx context.Context, view *spaces.Items, m *edit.Move, ans *mvAnswer) (trusts.Signer, error) {
	it := m.Old
	if it.Signed.Format == sign.None && it.Broken == nil && !c.Sign {
		return trusts.Signer{}, nil
	}
	userKey, err := trusts.SigningKey(ctx, view.App, c.Key)
	if err != nil {
		return trusts.Signer{}, err
	}
	if err := view.CheckSignable(ctx, it); err != nil {
		return trusts.Signer{}, err
	}
	own := userKey.Public().Fingerprint()
	found, err := view.Admit.Admit(ctx, it, policy.ToUse)
	good := err == nil && found.Decision.Allowed
	if good {
		good = slices.ContainsFunc(found.Signers, func(s sign.Signer) bool {
			return s.Key.Fingerprint() == own && s.Format == sign.V2
		})
	}
	if !good && !c.Sign {
		return trusts.Signer{}, fault.New(fault.Policy, "%s has no valid signature by %q", it.Ref,
			userKey.Name).From(err).
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
	return userKey, nil
}
