package trusts

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

type trustListRun struct{}

// TrustListAnswer is the result of rye trust list.
type TrustListAnswer struct{ trust.Listing }

func (*trustListRun) Run(_ context.Context, app *cli.App) (cli.Answer, error) {
	au, err := paths.Paths(app).RootPolicy()
	if err != nil {
		return nil, err
	}
	if au.File == nil {
		app.Term.Note("no policy at %q, so no key is trusted", au.Path)
	}
	lists, err := paths.Lists(app).Load(au)
	if err != nil {
		return nil, err
	}
	return TrustListAnswer{trust.NewListing(au, lists, app.Now())}, nil
}

func (l TrustListAnswer) Text(t *cli.Terminal) {
	section := func(title string, rows [][]string) {
		if len(rows) > 0 {
			t.Printf("%s:\n", title)
			t.Rows(rows)
		}
	}
	var keys, rules, digests, revoked, lists, grants, exec, calls [][]string
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
		keys = append(keys, []string{"  " + k.Name, paths.Short(k.Fingerprint), OrDash(until), OrDash(k.Owner)})
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
		lists = append(lists, listRow(s))
	}
	for _, g := range l.Grants {
		grants = append(grants, []string{"  " + g.Names, strings.Join(g.Allow, " ")})
	}
	for _, e := range l.Exec {
		exec = append(exec, []string{"  " + strings.TrimSpace(e.Field+" "+e.Secret), e.Value})
	}
	for _, c := range l.Ask {
		calls = append(calls, []string{"  " + c.Line, c.Text})
	}
	if l.ID != "" {
		// the id is what RYE_TRUST takes on a machine without a home directory
		section("policy", [][]string{{"  " + l.Policy + " (" + l.Origin + ")"}, {"  " + l.ID}})
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
	section("ask", calls)
	var advisories [][]string
	for _, a := range l.Advisories {
		advisories = append(advisories, []string{"  " + a.Registry, "load " + OrDash(a.Load), "call " + OrDash(a.Call),
			"max-age " + a.MaxAge, "stale " + a.Stale})
	}
	section("advisories", advisories)
}

// lines returns rows with one word each.
func lines(words []string) (rows [][]string) {
	for _, w := range words {
		rows = append(rows, []string{"  " + w})
	}
	return rows
}

// listRow returns the state of a revocation list as a row.
func listRow(l trust.ListLine) []string {
	state := "never fetched"
	if l.Counter > 0 {
		state = fmt.Sprintf("issue %d of %s, expires %s", l.Counter, l.Issued, l.Expires)
	}
	return []string{"  " + l.Name, state, l.From}
}
