package closure

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// look examines an item: it fills the node with edges, problems and the pin.
func (c *closer) look(ctx context.Context, n *node, it *ai.Item) {
	own := 0
	n.unsigned = it.Signed.Format == sign.None
	for _, p := range it.Model.Problems {
		if !p.Warning {
			own++
		}
		if !p.Warning || p.Strict && !c.pinnedAs(it) {
			n.problem(p.At, p.Field, fault.New(fault.Validation, "%s", p.Message))
		}
	}
	c.chain(ctx, n, it, own)
	a := c.admit(ctx, n, it, own)
	c.uses(n, it, a != nil)
	if a != nil && len(n.problems)+len(n.echoes) == 0 {
		c.pin(ctx, n, it, a)
	}
}

// pinnedAs reports whether the present lock has an item with these bytes.
func (c *closer) pinnedAs(it *ai.Item) bool {
	return c.Pinned != nil && slices.Contains(c.Pinned(it.Ref), it.Raw)
}

// chain adds the edge to a tool's executor, and the problems between the two. Problems further down are reported
// there, because the executor is an item of the closure as well. An extractor isn't run.
func (c *closer) chain(ctx context.Context, n *node, it *ai.Item, own int) {
	t := it.Model.Tool
	if t == nil || t.Type == "extractor" {
		return
	}
	at := value.Pos{}
	if v := it.Model.Fields.Get("executor_id"); v != nil {
		at = v.At
	}
	if !t.Primitive && t.Executor != "" {
		n.edges = append(n.edges, edge{why: AsExecutor,
			to: want{model.Ref{Kind: "tool", ID: t.Executor}, it.Space, true}, at: at, field: "executor_id"})
	}
	_, err := ai.WalkFrom(ctx, &c.links, it)
	chain, ok := errors.AsType[*ai.ChainError](err)
	if !ok {
		return
	}
	n.echoes = append(n.echoes, n.about(at, "executor_id", err))
	switch {
	case chain.Code == fault.TooDeep, chain.Code == fault.Circular && firstOfCircle(chain.Path, it.Ref):
		n.problem(at, "executor_id", err)
	case len(chain.Issues) > own:
		for _, issue := range chain.Issues[own:] { // the first are the tool's own problems
			if issue.Link == it.Ref {
				one := *chain
				one.Issues, one.Code = []ai.Issue{issue}, issue.Code
				n.problem(at, "executor_id", &one)
			}
		}
	}
}

// firstOfCircle reports whether a tool is the one that reports the circle that a chain ends in.
func firstOfCircle(path []string, tool model.Ref) bool {
	circle := path[slices.Index(path, path[len(path)-1]):]
	return slices.Min(circle) == tool.String()
}

// admit returns the admission of an item, or nil if it may not be used. An invalid item can't be signed, so its
// missing signature isn't reported along with its own problems.
func (c *closer) admit(ctx context.Context, n *node, it *ai.Item, own int) *ai.Admission {
	admission, err := c.Admit.Admit(ctx, it, policy.ToUse)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		c.notAdmitted(n, it, err)
		return nil
	}
	if !admission.Decision.Allowed && admission.Decision.Code == policy.Unsigned && own > 0 {
		return nil
	}
	if !admission.Decision.Allowed {
		n.problem(value.Pos{}, "", ai.NotAdmitted(it.Ref, place(it.Space, it.Path), admission.Decision))
		return nil
	}
	if loose(it) && admission.Tree != nil && admission.Decision.Voucher == policy.ByKeys &&
		!admission.Decision.ByDigest &&
		admission.Signed.Format == sign.V1 {
		n.problem(value.Pos{}, "", fault.New(fault.Validation,
			"a v1 signature does not cover the %s in the tool's directory",
			fault.Count(int64(len(admission.Tree.Files)), "other file")))
		return nil
	}
	return admission
}

// notAdmitted reports why an item has no admission.
func (c *closer) notAdmitted(n *node, it *ai.Item, err error) {
	if _, ok := errors.AsType[*ai.ChainError](err); ok {
		n.echoes = append(n.echoes, n.about(value.Pos{}, "", err))
		return
	}
	refused, ok := errors.AsType[*tree.RefusedError](err)
	at, item := errors.AsType[*ai.ItemError](err)
	if !ok || !item {
		n.problem(value.Pos{}, "", err)
		return
	}
	// The same files affect all tools of the directory.
	for _, f := range refused.Files {
		n.problems = append(n.problems, &Problem{Ref: n.ref, Space: it.Space, Path: path.Join(at.Path, f.Path),
			Err: f.Err})
	}
	if len(refused.Files) == 0 {
		n.problem(value.Pos{}, "", err)
	}
}

// loose reports whether an item's file is listed in no manifest.
func loose(it *ai.Item) bool { return it.Space.Level != ai.System }

// pin makes the pin of an item without problems.
func (c *closer) pin(ctx context.Context, n *node, it *ai.Item, admission *ai.Admission) {
	pin := file.Pin{Ref: it.Ref, Version: strings.Clone(it.Model.Version), Digest: it.Raw, From: it.Space.Label}
	if admission.Tree != nil {
		pin.Tree = admission.Tree.Digest
	}
	for _, v := range admission.Decision.Signers {
		if v.Code == policy.Admitted && admission.Decision.Voucher == policy.ByKeys && !admission.Decision.ByDigest {
			pin.Signers, pin.Format = append(pin.Signers, v.Key), v.Format
		}
	}
	slices.SortFunc(pin.Signers, key.Fingerprint.Compare)
	if it.Model.Tool != nil || it.Model.Directive != nil {
		var err error
		if pin.Interface, err = it.Model.Interface().Hash(); err == nil {
			pin.Grants, err = it.Model.Grants().Hash()
		}
		if err != nil {
			n.problem(value.Pos{}, "", err)
			return
		}
	}
	if !c.packages(ctx, n, it, admission) {
		return
	}
	if loose(it) {
		if err := c.place(ctx, &pin, it, admission); err != nil {
			n.problem(value.Pos{}, "", err)
			return
		}
	}
	n.pin = &pin
}

// place sets the location of a pin's file, and stores it with the files that belong to it.
func (c *closer) place(ctx context.Context, p *file.Pin, it *ai.Item, a *ai.Admission) (err error) {
	p.Path, p.Size = it.Path, int64(len(it.Bytes))
	if p.Mode, err = mode(it); err != nil {
		return err
	}
	if err := c.put(ctx, it.Bytes, it.Raw); err != nil {
		return err
	}
	if a.Tree != nil {
		p.Files, err = c.filesOf(ctx, it, a.Tree, p.Mode)
	}
	return err
}

// mode returns the mode of an item's file: executable or not.
func mode(it *ai.Item) (cas.Mode, error) {
	perm := fs.FileMode(it.Stat.Mode).Perm()
	if it.Space.Exec != nil || perm == 0 {
		info, err := fs.Lstat(it.Space.FS, it.Path)
		if err != nil {
			return 0, &ai.ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path, Err: err}
		}
		if perm = info.Mode().Perm(); it.Space.Exec != nil {
			if perm = 0; it.Space.Exec(it.Path, info) {
				perm = 0o100
			}
		}
	}
	if perm&0o100 != 0 {
		return cas.Exec, nil
	}
	return cas.File, nil
}
