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
	Ref    string `arg:"" complete:"ref" help:"Ref, or file below .ai."`
	Source bool   `xor:"part" help:"Print the file."`
	Body   bool   `xor:"part" help:"Print its prose."`
	Graph  string `enum:"text,dot,mermaid," default:"" blank:"" placeholder:"FORM" help:"Draw a state graph as text, dot or mermaid."`
}

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
	Count       int             `json:"count"`     // of keys that count
	Threshold   int             `json:"threshold"` // that the rule asks for
	Policy      string          `json:"policy"`
	Fields      json.RawMessage `json:"fields"` // as the file has them
	Permissions []string        `json:"permissions"`
	Risk        string          `json:"risk,omitempty"`
	Network     string          `json:"network,omitempty"`
	Secrets     []string        `json:"secrets"`
	Files       *filesLine      `json:"files,omitempty"` // of a tool
	Interface   string          `json:"interface"`       // hash of what it takes and gives; empty if it isn't run
	Grants      string          `json:"grants"`          // hash of what it wants to be allowed
	Chain       []chainLine     `json:"chain"`
	ChainError  string          `json:"chain_error,omitempty"`
	Tree        *treeLine       `json:"tree,omitempty"`
	Hides       []string        `json:"hides"` // spaces with an item of this id
	Lock        string          `json:"lock"`  // "locked", "differs" or "not locked"; empty where there is no lock
	Wrong       []check.Problem `json:"problems"`
	Part        string          `json:"part,omitempty"` // with --source and --body
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

// treeLine is the other files of a tool.
type treeLine struct {
	Digest cas.Digest  `json:"digest"`
	Dir    string      `json:"dir"` // in the space
	Files  []tree.File `json:"files"`
}

// filesLine is the paths of the project that a tool touches.
type filesLine struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
}

func (c *showRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Graph != "" && (c.Source || c.Body) {
		return nil, fault.New(fault.Validation, "--graph can't be used together with --source or --body")
	}
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	it, err := shown(ctx, v, c.Ref)
	if err != nil {
		return nil, err
	}
	ans := &ShowAnswer{}
	if c.Source || c.Body || c.Graph != "" {
		if ans.Part, err = c.text(it, a.Term.Json); err != nil {
			return nil, err
		}
		if c.Body && !a.Term.Json && !strings.HasSuffix(ans.Part, "\n") {
			ans.Part += "\n" // which the file may have without it
		}
		ans.Only = true
	}
	if err := describe(ctx, v, it, ans); err != nil {
		return nil, err
	}
	if ans.Message != "" {
		a.Term.Warn("%s, and not to be used: %s", strings.ToUpper(ans.Trust), ans.Message)
	}
	v.Count()
	return ans, nil
}

// shown finds the item of an argument. One that stands where it may not can be looked at all the same.
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

// text returns the part of an item that was asked for.
func (c *showRun) text(it *ai.Item, asJSON bool) (string, error) {
	text := string(it.Bytes)
	if c.Graph != "" {
		return drawn(it, c.Graph)
	}
	if c.Body {
		if text = it.Model.Body; text == "" {
			return "", fault.New(fault.NotFound, "%q has no prose", it.Ref).
				Try("rye show "+fault.Quote(it.Ref.String())+" --source").On("ref", it.Ref.String())
		}
	}
	if asJSON && !utf8.ValidString(text) {
		return "", fault.New(fault.Validation, "%q is not UTF-8, which JSON is", it.Ref).
			Try("rye show --source "+fault.Quote(it.Ref.String())).On("ref", it.Ref.String())
	}
	return text, nil
}

// describe fills in everything about an item. Only what stops all of it is an error.
func describe(ctx context.Context, v *spaces.Items, it *ai.Item, ans *ShowAnswer) error {
	m := it.Model
	w, found := v.Worth(ctx, it)
	ans.itemLine = line(v, it, w)
	ans.Kind, ans.ID, ans.Description, ans.Category, ans.Size = it.Ref.Kind, it.ID, m.Description, m.Category,
		int64(len(it.Bytes))
	ans.Tags, ans.Format, ans.Wrong = m.Tags, it.Signed.Format.String(),
		(&check.Checker{Name: v.Name}).Fields(it.File, m.Problems)
	if it.Broken == nil {
		ans.Stripped = it.Stripped.String()
	}
	if found != nil {
		ans.Count, ans.Threshold = found.Decision.Count, found.Decision.Threshold
		if v.Trust != nil && !it.Space.Builtin {
			ans.Policy = v.Trust.Describe(found.Decision.Project)
		}
	}
	ans.fields(m)
	if err := ans.hashes(m); err != nil {
		ans.Wrong = append(ans.Wrong, check.Problem{Severity: check.Error, Code: fault.Validation, Ref: ans.Ref,
			Space: ans.Space,
			File:  ans.File, Message: err.Error()})
	}
	treeDigest, err := writeTree(ctx, v, it, ans)
	if err != nil {
		return err
	}
	if err := chain(ctx, v, it, ans); err != nil {
		return err
	}
	ans.Lock = v.Locked(it, treeDigest)
	all, err := v.All(ctx, it.Ref)
	for i, o := range all {
		switch {
		case i == 0 && o.Space != it.Space:
			ans.HiddenBy = o.Space.Label
		case o.Space != it.Space && ans.HiddenBy == "":
			ans.Hides = append(ans.Hides, o.Space.Label)
		}
	}
	if e, ok := errors.AsType[*ai.ShadowError](check.Shadow(ctx, v.View, it)); ok && err == nil {
		ans.Denied, ans.Trust, ans.Reason, ans.Message = true, "refused", "protected", fault.Of(e).Text
	}
	return ctx.Err()
}

// fields adds what the file says.
func (s *ShowAnswer) fields(m *model.Model) {
	s.Fields = json.RawMessage("null")
	if j, err := m.Fields.JSON(); err == nil {
		if b, err := reply.Marshal(j); err == nil {
			s.Fields = b
		}
	}
	var permissions []capability.Capability
	switch {
	case m.Tool != nil:
		permissions = m.Tool.Permissions
		s.Risk, s.Network = m.Tool.Risk.String(), m.Tool.Network.String()
		s.Secrets = m.Tool.Secrets
		s.Files = (*filesLine)(&m.Tool.Files)
	case m.Directive != nil:
		permissions = m.Directive.Permissions
	}
	for _, c := range permissions {
		s.Permissions = append(s.Permissions, c.String())
	}
}

// hashes adds the hashes of what an item takes, gives and wants, of one that is run.
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
		return cas.Digest{}, ctx.Err() // the item's worth says why
	}
	t, err := v.Admit.Tree(ctx, it)
	if err != nil || t == nil {
		return cas.Digest{}, ctx.Err()
	}
	ans.Tree = &treeLine{t.Digest, anchor.Dir, t.Files}
	return t.Digest, nil
}

// chain adds the links between a tool and its primitive, as far as there are any.
func chain(ctx context.Context, v *spaces.Items, it *ai.Item, ans *ShowAnswer) error {
	if it.Model.Tool == nil {
		return nil
	}
	_, err := ai.WalkFrom(ctx, v, it)
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
	seen := map[model.Ref]bool{} // each link of a circle is shown once
	for at := it; len(ans.Chain) < ai.MaxChain && !seen[at.Ref]; {
		seen[at.Ref] = true
		w, _ := v.Worth(ctx, at)
		ans.Chain = append(ans.Chain, chainLine{Ref: at.Ref.String(), Version: at.Model.Version, Space: at.Space.Label,
			Raw:   at.Raw,
			Trust: w.Trust, Reason: w.Reason, words: w.Words()})
		t := at.Model.Tool
		if t == nil || t.Primitive || t.Executor == "" {
			break
		}
		if at, err = v.Resolve(ctx, model.Ref{Kind: "tool", ID: t.Executor}, at.Space); err != nil {
			break
		}
	}
	return ctx.Err()
}

func (s *ShowAnswer) Text(t *cli.Terminal) {
	if s.Only {
		s.write(t)
		return
	}
	colour := cli.RoleGood
	if s.Trust == "refused" || s.Trust == "unsigned" {
		colour = cli.RoleWarn
	}
	t.Printf("%s  %s\n", s.Ref, t.Stdout.Paint(colour, s.Words(), t.Ascii))
	var rows showRows
	s.what(&rows)
	s.vouched(&rows)
	s.runs(&rows)
	t.Rows(rows)
	spaces.PrintProblems(t, s.Wrong)
}

// showRows are names with values; those without a value are left out.
type showRows [][]string

func (r *showRows) add(name, value string) {
	if value != "" {
		*r = append(*r, []string{"  " + name, value})
	}
}

// what says what it is, and where.
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

// vouched says who vouches for which bytes, and by which rule.
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
	rows.add("lock", map[string]string{"locked": "as it is locked",
		"differs": "not as it is locked: rye diff " + s.Ref, "not locked": "not in the lock"}[s.Lock])
}

// runs says what is wanted, by what it is run, and of what other files.
func (s *ShowAnswer) runs(rows *showRows) {
	if s.Kind == "tool" || s.Kind == "directive" {
		rows.add("permissions", cmp.Or(strings.Join(s.Permissions, ", "), "none"))
		rows.add("risk", s.Risk)
		rows.add("network", s.Network)
		rows.add("secrets", strings.Join(s.Secrets, ", "))
		if s.Files != nil {
			rows.add("reads", strings.Join(s.Files.Read, ", "))
			rows.add("writes", strings.Join(s.Files.Write, ", "))
		}
		var said struct {
			Limits json.RawMessage `json:"limits"`
			Tools  []string        `json:"tools"`
		}
		if json.Unmarshal(s.Fields, &said) == nil {
			rows.add("limits", string(said.Limits))
			rows.add("offers", strings.Join(said.Tools, ", "))
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

// write writes the part that was asked for: a terminal gets what can't repaint it.
func (s *ShowAnswer) write(t *cli.Terminal) {
	if !t.Stdout.Tty {
		t.Printf("%s", cli.Styled(s.Part))
		return
	}
	for line := range strings.Lines(s.Part) {
		text := strings.TrimSuffix(line, "\n")
		for i, piece := range strings.Split(text, "\t") {
			if i > 0 {
				t.Printf("\t")
			}
			t.Printf("%s", piece)
		}
		t.Printf("\n")
	}
}
