package items

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/reply"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/manifest/policy"
)

type showRun struct {
	Ref    string `arg:"" complete:"ref|path" help:"Ref, or file below .ai."`
	Source bool   `xor:"part" help:"Print the file."`
	Body   bool   `xor:"part" help:"Print the text of a directive or of knowledge."`
	Graph  string `enum:"text,dot,mermaid," default:"" blank:"" placeholder:"FORM" help:"Draw a state graph as text, dot or mermaid."`
}

// ShowAnswer is everything about an item. --source, --body and --graph add Part, the text to print.
type ShowAnswer struct {
	itemLine
	Kind        string          `json:"kind"`
	ID          string          `json:"id"`
	Description string          `json:"description"`
	Category    string          `json:"category"`
	Tags        []string        `json:"tags"`
	Size        int64           `json:"size"`
	Stripped    string          `json:"stripped"`
	Format      string          `json:"format"`
	Count       int             `json:"count"`     // number of signing keys that the rule counts
	Threshold   int             `json:"threshold"` // number of keys that the rule requires
	Policy      string          `json:"policy"`
	Fields      json.RawMessage `json:"fields"` // as the file has them
	Permissions []string        `json:"permissions"`
	Risk        string          `json:"risk,omitempty"`
	Derived     string          `json:"risk_derived,omitempty"` // why a tool that declares no risk has this one
	declare     string          // the line that would declare it
	Network     string          `json:"network,omitempty"`
	Secrets     []string        `json:"secrets"`
	Files       *filesLine      `json:"files,omitempty"` // of a tool
	Interface   string          `json:"interface"`       // hash of inputs and outputs; empty if the item can't run
	Grants      string          `json:"grants"`          // hash of the permissions that it declares
	Chain       []chainLine     `json:"chain"`
	ChainError  string          `json:"chain_error,omitempty"`
	Tree        *treeLine       `json:"tree,omitempty"`
	Hides       []string        `json:"hides"` // spaces whose item of this id is hidden
	Lock        string          `json:"lock"`  // "locked", "differs" or "not locked"; empty without a lock
	Wrong       []check.Problem `json:"problems"`
	Part        string          `json:"part,omitempty"` // with --source, --body or --graph
	Only        bool            `json:"-"`
}

// chainLine is a link of a chain, from the tool to the primitive.
type chainLine struct {
	Ref     string     `json:"ref"`
	Version string     `json:"version"`
	Space   string     `json:"space"`
	Raw     cas.Digest `json:"raw"`
	Trust   string     `json:"trust"`
	Reason  string     `json:"reason"`
	words   string
}

// treeLine describes the other files of a tool.
type treeLine struct {
	Digest cas.Digest  `json:"digest"`
	Dir    string      `json:"dir"` // in the space
	Files  []tree.File `json:"files"`
}

// filesLine lists the paths of the project that a tool declares to read and write.
type filesLine struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
}

func (c *showRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Graph != "" && (c.Source || c.Body) {
		return nil, fault.New(fault.Validation, "--graph can't be used together with --source or --body")
	}
	view, err := spaces.OpenItems(ctx, app)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	it, err := shown(ctx, view, c.Ref)
	if err != nil {
		return nil, err
	}
	ans := &ShowAnswer{}
	if c.Source || c.Body || c.Graph != "" {
		if ans.Part, err = c.text(it, app.Term.Json); err != nil {
			return nil, err
		}
		if c.Body && !app.Term.Json && !strings.HasSuffix(ans.Part, "\n") {
			ans.Part += "\n" // Body has no final line end
		}
		ans.Only = true
	}
	if err := describe(ctx, view, it, ans); err != nil {
		return nil, err
	}
	if ans.Message != "" {
		app.Term.Warn("%s, and not to be used: %s", strings.ToUpper(ans.Trust), ans.Message)
	}
	view.Count()
	return ans, nil
}

// shown finds the item of an argument. Unlike FindNamed, it also returns an item that hides a protected one.
func shown(ctx context.Context, v *spaces.Items, text string) (*ai.Item, error) {
	it, err := v.FindNamed(ctx, text)
	e, ok := errors.AsType[*ai.ShadowError](err)
	if !ok {
		return it, err
	}
	all, err := v.All(ctx, e.Ref)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// text returns the part of an item that --source, --body or --graph selects.
func (c *showRun) text(it *ai.Item, asJSON bool) (string, error) {
	text := string(it.Bytes)
	if c.Graph != "" {
		return drawn(it, c.Graph)
	}
	if c.Body {
		if text = it.Model.Body; text == "" {
			return "", fault.New(fault.NotFound, "%q has no text", it.Ref).
				Try("rye show "+fault.Quote(it.Ref.String())+" --source").On("ref", it.Ref.String())
		}
	}
	if asJSON && !utf8.ValidString(text) {
		return "", fault.New(fault.Validation, "%q is not UTF-8, so JSON can't contain it", it.Ref).
			Try("rye show --source "+fault.Quote(it.Ref.String())).On("ref", it.Ref.String())
	}
	return text, nil
}

// describe fills in everything about an item. A problem with the item goes into the answer; an error means that the
// command can't continue.
func describe(ctx context.Context, view *spaces.Items, it *ai.Item, ans *ShowAnswer) error {
	model := it.Model
	w, found := view.Worth(ctx, it)
	ans.itemLine = line(view, it, w)
	ans.Kind, ans.ID, ans.Description, ans.Category, ans.Size = it.Ref.Kind, it.ID, model.Description, model.Category,
		int64(len(it.Bytes))
	ans.Tags, ans.Format, ans.Wrong = model.Tags, it.Signed.Format.String(),
		(&check.Checker{Name: view.Name}).Fields(it.File, model.Problems)
	if it.Broken == nil {
		ans.Stripped = it.Stripped.String()
	}
	if found != nil {
		ans.Count, ans.Threshold = found.Decision.Count, found.Decision.Threshold
		if view.Trust != nil && !it.Space.Builtin {
			ans.Policy = view.Trust.Describe(found.Decision.Project)
		}
	}
	ans.fields(model)
	if err := ans.hashes(model); err != nil {
		ans.Wrong = append(ans.Wrong, check.Problem{Severity: check.Error, Code: fault.Validation, Ref: ans.Ref,
			Space: ans.Space,
			File:  ans.File, Message: err.Error()})
	}
	treeDigest, err := writeTree(ctx, view, it, ans)
	if err != nil {
		return err
	}
	if err := chain(ctx, view, it, ans); err != nil {
		return err
	}
	ans.Lock = view.Locked(it, treeDigest)
	all, err := view.All(ctx, it.Ref)
	for i, o := range all {
		switch {
		case i == 0 && o.Space != it.Space:
			ans.HiddenBy = o.Space.Label
		case o.Space != it.Space && ans.HiddenBy == "":
			ans.Hides = append(ans.Hides, o.Space.Label)
		}
	}
	if e, ok := errors.AsType[*ai.ShadowError](check.Shadow(ctx, view.View, it)); ok && err == nil {
		ans.Denied, ans.Trust, ans.Reason, ans.Message = true, "refused", "protected", fault.Of(e).Text
	}
	return ctx.Err()
}

// fields adds the fields of the file, and the permissions that it declares.
func (s *ShowAnswer) fields(model *model.Model) {
	s.Fields = json.RawMessage("null")
	if j, err := model.Fields.JSON(); err == nil {
		if b, err := reply.Marshal(j); err == nil {
			s.Fields = b
		}
	}
	var permissions []capability.Capability
	switch {
	case model.Tool != nil:
		permissions = model.Tool.Permissions
		if !model.Tool.Lends() || !model.Tool.NoRisk {
			risk, why := model.Tool.DeriveRisk()
			if s.Risk, s.Derived = risk.String(), why; why != "" {
				s.declare = model.RiskLine(risk)
			}
		}
		s.Network = model.Tool.Network.String()
		s.Secrets = model.Tool.Secrets
		s.Files = (*filesLine)(&model.Tool.Files)
	case model.Directive != nil:
		permissions = model.Directive.Permissions
	}
	for _, c := range permissions {
		s.Permissions = append(s.Permissions, c.String())
	}
}

// hashes adds the hashes of the interface and of the permissions to a tool or directive.
func (s *ShowAnswer) hashes(m *model.Model) error {
	if m.Tool == nil && m.Directive == nil {
		return nil
	}
	i, err := m.Interface().Hash()
	if err != nil {
		return err
	}
	g, err := m.Grants().Hash()
	if err != nil {
		return err
	}
	s.Interface, s.Grants = i.String(), g.String()
	return nil
}

// writeTree adds the other files of a tool, and returns the digest of their listing.
func writeTree(ctx context.Context, v *spaces.Items, it *ai.Item, ans *ShowAnswer) (cas.Digest, error) {
	anchor, err := v.Admit.Anchor(ctx, it)
	if err != nil || anchor == nil {
		return cas.Digest{}, ctx.Err() // the item's trust already reports the error
	}
	t, err := v.Admit.Tree(ctx, it)
	if err != nil || t == nil {
		return cas.Digest{}, ctx.Err()
	}
	ans.Tree = &treeLine{t.Digest, anchor.Dir, t.Files}
	return t.Digest, nil
}

// chain adds the links from a tool to its primitive, up to the first that can't be resolved, and the error of the
// chain.
func chain(ctx context.Context, view *spaces.Items, it *ai.Item, ans *ShowAnswer) error {
	if it.Model.Tool == nil {
		return nil
	}
	_, err := ai.WalkFrom(ctx, view, it)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		ans.ChainError = fault.Of(err).Text
		if e, ok := errors.AsType[*ai.ChainError](err); ok && len(e.Issues) > 0 {
			ans.ChainError = ""
			for _, i := range e.Issues {
				ans.ChainError += i.Message + "\n"
			}
			ans.ChainError = strings.TrimSuffix(ans.ChainError, "\n")
		}
	}
	seen := map[model.Ref]bool{} // show each link of a cycle once
	for at := it; len(ans.Chain) < ai.MaxChain && !seen[at.Ref]; {
		seen[at.Ref] = true
		w, _ := view.Worth(ctx, at)
		ans.Chain = append(ans.Chain, chainLine{Ref: at.Ref.String(), Version: at.Model.Version, Space: at.Space.Label,
			Raw:   at.Raw,
			Trust: w.Trust, Reason: w.Reason, words: w.Words()})
		t := at.Model.Tool
		if t == nil || t.Primitive || t.Executor == "" {
			break
		}
		if at, err = view.Resolve(ctx, model.Ref{Kind: "tool", ID: t.Executor}, at.Space); err != nil {
			break
		}
	}
	return ctx.Err()
}

func (s *ShowAnswer) Text(term *cli.Terminal) {
	if s.Only {
		s.write(term)
		return
	}
	colour := cli.RoleGood
	if s.Trust == "refused" || s.Trust == "unsigned" {
		colour = cli.RoleWarn
	}
	term.Printf("%s  %s\n", s.Ref, term.Stdout.Paint(colour, s.Words(), term.Ascii))
	var rows showRows
	s.what(&rows)
	s.vouched(&rows)
	s.runs(&rows)
	term.Rows(rows)
	spaces.PrintProblems(term, s.Wrong)
}

// showRows are rows of names and values. add leaves out a name without a value.
type showRows [][]string

func (r *showRows) add(name, value string) {
	if value != "" {
		*r = append(*r, []string{"  " + name, value})
	}
}

// what adds what the item is, and its place.
func (s *ShowAnswer) what(rows *showRows) {
	rows.add("title", s.Title)
	if s.Description != s.Title {
		rows.add("about", s.Description)
	}
	rows.add("version", s.Version)
	rows.add("file", s.File)
	rows.add("space", s.Space)
	over, under := "hides", "hidden by"
	if items.IsMerged(s.Ref) {
		over, under = "merged over", "merged under"
	}
	rows.add(under, s.HiddenBy)
	rows.add(over, strings.Join(s.Hides, ", "))
	rows.add("tags", strings.Join(s.Tags, ", "))
}

// vouched adds the digests, the signers, and the rule that decides.
func (s *ShowAnswer) vouched(rows *showRows) {
	rows.add("digest", s.Raw)
	if s.Stripped != s.Raw {
		rows.add("stripped", s.Stripped)
	}
	for _, by := range s.Signers {
		who := strings.TrimSpace(fmt.Sprintf("%s %s", by.Name, paths.Short(by.Key)))
		if by.Owner != "" {
			who += ", " + by.Owner
		}
		if by.Verdict != policy.Admitted.String() {
			who += ": does not count, " + by.Verdict
		}
		rows.add("signed by", who)
	}
	if s.Rule != "" {
		rows.add("rule", spaces.RuleText(s.Rule, s.Threshold, s.Count))
	}
	rows.add("policy", s.Policy)
	rows.add("lock", map[string]string{"locked": "matches the lock",
		"differs": "differs from the lock: rye diff " + s.Ref, "not locked": "not in the lock"}[s.Lock])
}

// runs adds the declared permissions, the chain of executors and the other files.
func (s *ShowAnswer) runs(rows *showRows) {
	if s.Kind == "tool" || s.Kind == "directive" {
		rows.add("permissions", cmp.Or(strings.Join(s.Permissions, ", "), "none"))
		rows.add("risk", model.RiskText(s.Risk, s.Derived))
		rows.add("declare it by", s.declare)
		rows.add("network", s.Network)
		rows.add("secrets", strings.Join(s.Secrets, ", "))
		if s.Files != nil {
			rows.add("reads", strings.Join(s.Files.Read, ", "))
			rows.add("writes", strings.Join(s.Files.Write, ", "))
		}
		var extra struct {
			Limits json.RawMessage `json:"limits"`
			Tools  []string        `json:"tools"`
		}
		if json.Unmarshal(s.Fields, &extra) == nil {
			rows.add("limits", string(extra.Limits))
			rows.add("offers", strings.Join(extra.Tools, ", "))
		}
		rows.add("interface", s.Interface)
		rows.add("grants", s.Grants)
	}
	for i, l := range s.Chain {
		if i > 0 {
			rows.add("runs on", fmt.Sprintf("%s %s  %s, %s, %s", l.Ref, trusts.OrDash(l.Version), l.Space,
				l.Raw.Short(), l.words))
		}
	}
	for line := range strings.SplitSeq(s.ChainError, "\n") {
		rows.add("chain", line)
	}
	if s.Tree == nil {
		return
	}
	rows.add("tree", fmt.Sprintf("%s, %s", s.Tree.Digest, fault.Count(int64(len(s.Tree.Files)), "file")))
	for _, f := range s.Tree.Files {
		rows.add("  "+f.Path, fmt.Sprintf("%s, %d bytes, %s", f.Mode, f.Size, f.Raw))
	}
}

// write prints the selected part: its exact bytes, or on a terminal escaped text, so that it can't repaint the
// screen.
func (s *ShowAnswer) write(term *cli.Terminal) {
	if !term.Stdout.Tty {
		term.Printf("%s", cli.Styled(s.Part))
		return
	}
	for line := range strings.Lines(s.Part) {
		text := strings.TrimSuffix(line, "\n")
		for i, piece := range strings.Split(text, "\t") {
			if i > 0 {
				term.Printf("\t")
			}
			term.Printf("%s", piece)
		}
		term.Printf("\n")
	}
}
