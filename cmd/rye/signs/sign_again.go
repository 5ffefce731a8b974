package signs

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/sign"
)

// This file caches the answer of rye sign --all (lock/recall): while nothing has changed, it reads no item again.
// The cached answer signs and admits nothing: commands that verify or run an item still verify its bytes.

// question returns the question about all items and the key; nil if the answer isn't cached.
func (c *SignRun) question(ctx context.Context, a *cli.App) (*paths.Question, error) {
	if !c.All || c.open != nil || c.shown != nil || c.Format != sign.V2.String() || c.Upgrade {
		return nil, nil
	}
	k, ok := trusts.KnownSigner(a, c.Key)
	if !ok {
		return nil, nil
	}
	w, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.AskOfItems(ctx, "sign", k.String()), nil
}

// again returns the cached answer if every item was found signed in the current state; else nil. The answer has two
// parts, because only --json shows the signatures of each file.
func (c *SignRun) again(ctx context.Context, a *cli.App, q *paths.Question) *SignAnswer {
	if q == nil || !q.Known() { // not asked before, so items may need a signature
		return nil
	}
	b, ok := q.Recall(ctx)
	head, files, _ := bytes.Cut(b, []byte("\n"))
	ans := &SignAnswer{DryRun: c.DryRun}
	if !ok || json.Unmarshal(head, ans) != nil || a.Term.Json && json.Unmarshal(files, &ans.Files) != nil {
		return nil
	}
	ans.DryRun = c.DryRun
	return ans
}

// remember caches an answer if nothing had to be signed and the policy admits every item.
func (c *SignRun) remember(ctx context.Context, question *paths.Question, ans *SignAnswer) {
	if question != nil && !question.Known() {
		question.Expect()
		return
	}
	if question == nil || ans.Signed > 0 || ans.Unchanged < 2 { // for a single item the answer names it
		return
	}
	for _, l := range ans.Files {
		if l.Refusal != nil {
			return
		}
	}
	head := *ans
	head.Files = nil
	b, err := json.Marshal(head)
	if err != nil {
		return
	}
	if files, err := json.Marshal(ans.Files); err == nil {
		question.Keep(ctx, append(append(b, '\n'), files...))
	}
}
