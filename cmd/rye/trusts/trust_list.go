package trusts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

func TrustListCommand() cli.Command {
	return cli.Command{
		Path: "trust list", Group: "trust", Help: "Show trusted keys, revocations and execution rules.",
		More: "Examples:\n\n    rye trust list\n    rye trust list --json\n    rye --trust team.yaml trust list",
		Aka:  []string{"trust ls", "trust show"},
		New:  func() cli.Runner { return new(trustListRun) }, Schema: "trust-list/1", Output: TrustListAnswer{},
	}
}

type trustListRun struct{}

type TrustListAnswer struct {
	Policy   string         `json:"policy"`
	ID       string         `json:"id"`
	Origin   string         `json:"origin"`
	Keys     []TrustKeyLine `json:"keys"`
	Rules    []ruleLine     `json:"rules"`
	Digests  []digestLine   `json:"digests"`
	Revoked  []revokedLine  `json:"revoked"`
	Lists    []listLine     `json:"lists"`
	Override []string       `json:"override"` // globs over protected names that a project may replace
	Inside   []string       `json:"inside"`   // hosts that may be inside the user's network wherever a project names them
	Grants   []grantLine    `json:"grants"`
	Exec     []execLine     `json:"exec"` // where it differs from what holds without a word
}

type TrustKeyLine struct {
	Name        string `json:"name"`
	Public      string `json:"public"`
	Fingerprint string `json:"fingerprint"`
	Owner       string `json:"owner"`
	NotBefore   string `json:"not_before,omitempty"`
	Expires     string `json:"expires,omitempty"`
	Expired     bool   `json:"expired"`
	Revoked     bool   `json:"revoked"`
	Fault       string `json:"fault,omitempty"` // of a key that a rule names: why it doesn't count
}

func NewTrustKeyLine(k policy.Key, now time.Time) TrustKeyLine {
	return TrustKeyLine{Name: k.Name, Public: k.Public.String(), Fingerprint: k.Public.Fingerprint().String(), Owner: k.Owner,
		NotBefore: yamltree.DateText(k.NotBefore), Expires: yamltree.DateText(k.Expires), Expired: !k.Expires.IsZero() && !now.Before(k.Expires)}
}

type ruleLine struct {
	Names     string   `json:"names"`
	Keys      []string `json:"keys"`
	Threshold int      `json:"threshold"`
	Accept    []string `json:"accept"`
	Except    []string `json:"except"`
}

type digestLine struct {
	Digest string `json:"digest"`
	As     string `json:"as,omitempty"`
	Reason string `json:"reason,omitempty"`
}

type revokedLine struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	Date   string `json:"date"`
}

// grantLine is what the items that a glob covers may be permitted.
type grantLine struct {
	Names string   `json:"names"`
	Allow []string `json:"allow"`
}

// execLine is one word about execution, as trust edit shows it.
type execLine struct {
	Field  string `json:"field"`
	Secret string `json:"secret,omitempty"`
	Value  string `json:"value"`
}

// listLine is a revocation list that a policy names.
type listLine struct {
	Name    string `json:"name"`
	From    string `json:"from"`
	Key     string `json:"key"`
	Counter int64  `json:"counter"` // of the last good issue; 0: there is none
	Issued  string `json:"issued,omitempty"`
	Expires string `json:"expires,omitempty"`
	Changed bool   `json:"changed"` // by this command
}

func (*trustListRun) Run(_ context.Context, a *cli.App) (cli.Answer, error) {
	au, err := places.RootAuthority(a)
	if err != nil {
		return nil, err
	}
	id := au.Side.Policy.ID().String()
	if au.File == nil {
		id = ""
		a.Term.Note("no policy at %q, so no key is trusted", au.Path)
	}
	lists, err := places.Lists(a).Load(au)
	if err != nil {
		return nil, err
	}
	s := au.Side.Policy.Sections()
	ans := TrustListAnswer{Policy: au.Path, ID: id, Origin: au.Origin, Keys: []TrustKeyLine{},
		Rules: []ruleLine{}, Digests: []digestLine{}, Revoked: []revokedLine{}, Lists: []listLine{}, Override: append([]string{}, s.Override...),
		Inside: append([]string{}, s.Inside...), Grants: []grantLine{}, Exec: []execLine{}}
	for _, k := range s.Keys {
		l := NewTrustKeyLine(k, a.Now())
		for _, r := range s.Revoked {
			l.Revoked = l.Revoked || r.Key == k.Public.Fingerprint()
		}
		ans.Keys = append(ans.Keys, l)
	}
	for _, r := range s.Rules {
		accept := []string{"v2"}
		if r.V1 {
			accept = []string{"v1", "v2"}
		}
		ans.Rules = append(ans.Rules, ruleLine{r.Glob, r.Keys, r.Threshold, accept, append([]string{}, r.Except...)})
	}
	for _, d := range s.Digests {
		ans.Digests = append(ans.Digests, digestLine{d.Digest.String(), d.As, d.Reason})
	}
	for _, r := range s.Revoked {
		ans.Revoked = append(ans.Revoked, revokedLine{r.What(), r.Reason, yamltree.DateText(r.Date)})
	}
	for _, g := range s.Grants {
		ans.Grants = append(ans.Grants, grantLine{g.Glob, append([]string{}, g.Allow...)})
	}
	silent, err := policy.Parse(nil)
	if err != nil {
		return nil, err
	}
	for _, c := range policy.Diff(silent, au.Side.Policy) {
		if c.Section == "exec" {
			ans.Exec = append(ans.Exec, execLine{c.Field, c.Entry, c.New})
		}
	}
	for _, l := range s.Lists {
		ans.Lists = append(ans.Lists, lineOfList(l, lists[l.Name]))
	}
	return ans, nil
}

func lineOfList(src policy.Source, l *policy.List) listLine {
	line := listLine{Name: src.Name, From: src.From, Key: src.Key}
	if l != nil {
		line.Counter, line.Issued, line.Expires = l.Counter, yamltree.DateText(l.Issued), yamltree.DateText(l.Expires)
	}
	return line
}

func (l TrustListAnswer) Text(t *cli.Terminal) {
	section := func(title string, rows [][]string) {
		if len(rows) > 0 {
			t.Printf("%s:\n", title)
			t.Rows(rows)
		}
	}
	var keys, rules, digests, revoked, lists, grants, exec [][]string
	for _, k := range l.Keys {
		until := ""
		switch {
		case k.Revoked:
			until = "revoked"
		case k.Expired:
			until = "expired " + k.Expires
		case k.Expires != "":
			until = "until " + k.Expires
		}
		keys = append(keys, []string{"  " + k.Name, places.Short(k.Fingerprint), OrDash(until), OrDash(k.Owner)})
	}
	for _, r := range l.Rules {
		rule := policy.Rule{Keys: r.Keys, Threshold: r.Threshold, V1: len(r.Accept) > 1, Except: r.Except}
		rules = append(rules, []string{fmt.Sprintf("  %q", r.Names), rule.String()})
	}
	for _, d := range l.Digests {
		digests = append(digests, []string{"  " + d.Digest, OrDash(d.As), d.Reason})
	}
	for _, r := range l.Revoked {
		revoked = append(revoked, []string{"  " + r.What, OrDash(r.Date), r.Reason})
	}
	for _, s := range l.Lists {
		lists = append(lists, s.row())
	}
	for _, g := range l.Grants {
		grants = append(grants, []string{"  " + g.Names, strings.Join(g.Allow, " ")})
	}
	for _, e := range l.Exec {
		exec = append(exec, []string{"  " + strings.TrimSpace(e.Field+" "+e.Secret), e.Value})
	}
	if l.ID != "" {
		section("policy", [][]string{{"  " + l.Policy + " (" + l.Origin + ")"}, {"  " + l.ID}}) // a machine without a home is told this id, in RYE_TRUST
	}
	section("keys", keys)
	section("names", rules)
	section("digests", digests)
	section("revoked", revoked)
	section("lists", lists)
	section("override", lines(l.Override))
	section("inside", lines(l.Inside))
	section("grants", grants)
	section("exec", exec)
}

func lines(words []string) (rows [][]string) {
	for _, w := range words {
		rows = append(rows, []string{"  " + w})
	}
	return rows
}

func (l listLine) row() []string {
	state := "never fetched"
	if l.Counter > 0 {
		state = fmt.Sprintf("issue %d of %s, expires %s", l.Counter, l.Issued, l.Expires)
	}
	return []string{"  " + l.Name, state, l.From}
}
