package spaces

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/lock/items"
)

// Items has the items that a command can see. Close closes it. In the grammar of a command, arguments carry the tag
// complete: "ref" for refs, "own" for refs of the space that can be changed, "kind", "space" and "bundle".
type Items struct {
	*items.Items
	App  *cli.App
	from *paths.Workspace
}

// OpenItems opens the items that are visible from the project, or from outside of any.
func OpenItems(ctx context.Context, a *cli.App) (*Items, error) {
	w, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	v, err := ItemsOf(ctx, w)
	if err != nil {
		w.Close()
	}
	return v, err
}

// ItemsOf opens the items that are visible from a workspace. Closing them closes the workspace.
func ItemsOf(ctx context.Context, w *paths.Workspace) (*Items, error) {
	v, err := items.Open(ctx, w.Workspace, w.Abs)
	if err != nil {
		return nil, err
	}
	return &Items{v, w.App, w}, nil
}

// Check checks the items and plugins that arguments name; without arguments, all items that this user may change here,
// and the plugin that the working directory is in.
func Check(ctx context.Context, a *cli.App, texts ...string) (*check.Report, error) {
	dirs, others := plugins(a, texts)
	report := &check.Report{Problems: []check.Problem{}}
	if len(others) > 0 || len(texts) == 0 && !alone(a, dirs) {
		var err error
		if report, err = checkItems(ctx, a, others...); err != nil {
			return nil, err
		}
	}
	for _, dir := range dirs {
		items, problems, err := checkPlugin(a, dir)
		if err != nil {
			return nil, err
		}
		report = report.With(items, problems)
	}
	return report, nil
}

func checkItems(ctx context.Context, a *cli.App, texts ...string) (*check.Report, error) {
	workspace, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	var question *paths.Question
	if len(texts) == 0 {
		question = workspace.AskOfItems(ctx, "check", "")
	}
	var report *check.Report
	if b, ok := question.Recall(ctx); ok && json.Unmarshal(b, &report) == nil {
		return report, nil
	}
	v, err := ItemsOf(ctx, workspace)
	if err != nil {
		return nil, err
	}
	defer v.Items.Close()
	v.ForgetLock()
	checked, err := v.Items.Check(ctx, append(rules(), check.Risk), texts...)
	if err != nil {
		return nil, err
	}
	v.CountChecked(checked)
	report = checked.Report()
	if b, err := json.Marshal(report); err == nil && report.Errors == 0 && !workspace.LeftOut() {
		question.Keep(ctx, b)
	}
	return report, nil
}

// Close closes the spaces and the workspace.
func (v *Items) Close() {
	v.Items.Close()
	v.from.Close()
}

// LeftOut reports whether the user was warned of items or bundles that can't be seen.
func (v *Items) LeftOut() bool { return v.from.LeftOut() }

// Checker returns a checker with all rules of rye.
func (v *Items) Checker() *check.Checker {
	return v.Items.Checker(rules()...)
}

// rules lists the rules of rye check beyond the model.
func rules() []check.Rule { return []check.Rule{session.CheckConfig, hook.Check, graph.Check} }

// CheckDraft returns an error for an item that isn't written yet if rye check would find one.
func (v *Items) CheckDraft(ctx context.Context, it *ai.Item) error {
	c := v.Checker()
	for _, rule := range rules() {
		c.Add(rule(ctx, c, &check.Checked{Item: it})...)
	}
	found := c.Report()
	if found.Errors == 0 {
		return nil
	}
	f := found.Fault("nothing was written")
	for _, p := range found.Problems {
		f.Because(fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message))
	}
	return f
}

// WarnTrees warns of signatures that become invalid when a file is written or removed. but are exempt.
func (v *Items) WarnTrees(ctx context.Context, s *ai.Space, p string, but ...model.Ref) {
	for _, ref := range v.Disturbed(ctx, s, p, but...) {
		v.App.Term.Warn("%q is one of the files of %q, whose signature is no longer valid: rye sign %s", v.Name(s, p),
			ref, fault.Quote(ref.String()))
	}
}

// Count reports what was read, for --verbose.
func (v *Items) Count() {
	items, bytes := v.Counts()
	v.App.Count("items read").Store(items)
	v.App.Count("bytes read").Store(bytes)
	hits, misses := v.Admit.Rate()
	v.App.Count("executor rule hits").Store(hits)
	v.App.Count("executor rule misses").Store(misses)
}

// CountChecked reports also how often a cached executor was used.
func (v *Items) CountChecked(c *check.Checker) {
	v.Count()
	hits, misses := c.Links.Rate()
	v.App.Count("executor hits").Store(hits)
	v.App.Count("executor misses").Store(misses)
}

// PrintProblems writes each problem on a line that editors can follow.
func PrintProblems(t *cli.Terminal, problems []check.Problem) {
	for _, p := range problems {
		colour := cli.RoleError
		if p.Severity == check.Warning {
			colour = cli.RoleWarn
		}
		t.Printf("%s: %s: %s\n", p.At(), t.Stdout.Paint(colour, p.Severity, t.Ascii), p.Message)
	}
}

// RuleText names the rule of a policy that admitted a file, and how many keys have signed it.
func RuleText(rule string, threshold, signed int) string {
	return fmt.Sprintf("%q, threshold: %d, signed by %s", rule, threshold, fault.Count(int64(signed), "key"))
}
