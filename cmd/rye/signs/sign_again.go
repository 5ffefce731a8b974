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

// What rye sign --all has found signed it need not look at again as long as nothing has changed (lock/recall). That
// signs and admits nothing: what verifies or runs an item still verifies its bytes.

// question is about all items and the key; nil where the answer isn't remembered.
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

// again is the answer where every item was found signed in the state that there is now; else nil. It is kept in two
// parts: only --json shows what each file carries.
func (c *SignRun) again(ctx context.Context, a *cli.App, q *paths.Question) *SignAnswer {
	if q == nil || !q.Known() { // the first time there is something to sign
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

// remember keeps an answer by which nothing had to be signed and the policy lets everything be used.
func (c *SignRun) remember(ctx context.Context, q *paths.Question, ans *SignAnswer) {
	if q != nil && !q.Known() {
		q.Expect()
		return
	}
	if q == nil || ans.Signed > 0 || ans.Unchanged < 2 { // of one item it is said which
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
		q.Keep(ctx, append(append(b, '\n'), files...))
	}
}
