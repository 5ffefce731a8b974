package serves

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/secrets"
	"github.com/rye-build/rye/exec/serve"
)

type tokenAddRun struct {
	Name    string   `arg:"" help:"Name of the token."`
	Scope   []string `placeholder:"SCOPE" default:"call" help:"Scope: call, approve or admin (${default}; repeatable)."`
	Tenant  string   `placeholder:"NAME" help:"Tenant that its calls are for."`
	Person  string   `placeholder:"NAME" help:"Person who holds it; default: the token's name."`
	Expires string   `placeholder:"WHEN" help:"Expiry: 30d, 12h, 2027-01-31 or 2027-01-31T18:00:00Z."`
}

// tokenLine describes a token without the token itself.
type tokenLine struct {
	Name    string   `json:"name"`
	Scopes  []string `json:"scopes"`
	Tenant  string   `json:"tenant,omitempty"`
	Person  string   `json:"person"`
	Created string   `json:"created"`
	Expires string   `json:"expires,omitempty"`
	Expired bool     `json:"expired,omitempty"`
}

// lineOf describes a token.
func lineOf(t *serve.Token, now time.Time) tokenLine {
	l := tokenLine{Name: t.Name, Tenant: t.Tenant, Person: t.Holder(),
		Created: t.Created.Format(time.RFC3339), Expired: t.Expired(now)}
	for _, s := range t.Scopes {
		l.Scopes = append(l.Scopes, string(s))
	}
	if !t.Expires.IsZero() {
		l.Expires = t.Expires.Format(time.RFC3339)
	}
	return l
}

// tokenAdded has the token itself, which only this answer shows.
type tokenAdded struct {
	Token string `json:"token"`
	Name  string `json:"name"`
}

func (x tokenAdded) Text(t *cli.Terminal) { t.Printf("%s\n", x.Token) }

func (c *tokenAddRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	store, err := tokens(app)
	if err != nil {
		return nil, err
	}
	t := serve.Token{Name: c.Name, Tenant: c.Tenant, Person: c.Person}
	for _, s := range c.Scope {
		t.Scopes = append(t.Scopes, serve.Scope(s))
	}
	if t.Expires, err = secrets.ParseEnd("--expires", c.Expires, app.Now()); err != nil {
		return nil, err
	}
	secret, err := store.Add(ctx, t)
	if err != nil {
		return nil, err
	}
	app.Term.Note("the token %q is shown this once; clients send it as Authorization: Bearer", c.Name)
	return tokenAdded{secret, c.Name}, nil
}

type tokenListRun struct{}

type tokenList struct {
	Tokens []tokenLine `json:"tokens"`
}

func (*tokenListRun) Run(_ context.Context, app *cli.App) (cli.Answer, error) {
	store, err := tokens(app)
	if err != nil {
		return nil, err
	}
	all, err := store.List()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		app.Term.Note("no tokens yet: rye serve token add NAME creates one")
	}
	var ans tokenList
	for i := range all {
		ans.Tokens = append(ans.Tokens, lineOf(&all[i], app.Now()))
	}
	return ans, nil
}

func (x tokenList) Text(term *cli.Terminal) {
	var rows [][]string
	for _, tokenLine := range x.Tokens {
		state := "does not expire"
		switch {
		case tokenLine.Expired:
			state = "expired " + tokenLine.Expires
		case tokenLine.Expires != "":
			state = "expires " + tokenLine.Expires
		}
		if tokenLine.Tenant != "" {
			state += ", for " + tokenLine.Tenant
		}
		if tokenLine.Person != tokenLine.Name {
			state += ", of " + tokenLine.Person
		}
		rows = append(rows, []string{tokenLine.Name, strings.Join(tokenLine.Scopes, ", "), state})
	}
	term.Rows(rows)
}

type tokenRemoveRun struct {
	Name string `arg:"" complete:"token" help:"Name of the token."`
}

type tokenRemoved struct {
	Name string `json:"name"`
}

func (tokenRemoved) Text(*cli.Terminal) {}

func (c *tokenRemoveRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	store, err := tokens(a)
	if err != nil {
		return nil, err
	}
	if err := store.Remove(ctx, c.Name); err != nil {
		return nil, err
	}
	a.Term.Note("removed the token %q; a server that runs cancels its requests within seconds", c.Name)
	return tokenRemoved{c.Name}, nil
}

// CompleteTokens offers the names of tokens.
func CompleteTokens(a *cli.App) []cli.Candidate {
	store, err := tokens(a)
	if err != nil {
		return nil
	}
	all, _ := store.List()
	return cli.Offer(all, func(t serve.Token) (string, string) { return t.Name, "token" })
}

// CheckTokens checks that only their owner can read the tokens of rye serve.
func CheckTokens(_ context.Context, app *cli.App) paths.Finding {
	store, err := tokens(app)
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	all, err := store.List()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	expired := 0
	for i := range all {
		if all[i].Expired(app.Now()) {
			expired++
		}
	}
	if expired > 0 {
		return paths.Good("%s, %d of them expired", fault.Count(int64(len(all)), "token"), expired)
	}
	return paths.Good("%s", fault.Count(int64(len(all)), "token"))
}
