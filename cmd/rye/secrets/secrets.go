package secrets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/secret"
)

// A secretLine describes a secret without its value.
type secretLine struct {
	Name     string   `json:"name"`
	Variable string   `json:"variable"`
	Where    string   `json:"where"` // "environment", "keyring", "file"; "" if it isn't set
	Set      string   `json:"set,omitempty"`
	From     string   `json:"from,omitempty"` // where the value was read from
	Expires  string   `json:"expires,omitempty"`
	Expired  bool     `json:"expired,omitempty"`
	Items    []string `json:"items"` // the tools that the user's policy allows
}

// secretLines returns the stored secrets and those that the policy names, sorted by name.
func secretLines(app *cli.App) ([]secretLine, error) {
	store, err := paths.Secrets(app)
	if err != nil {
		return nil, err
	}
	stored, err := store.List()
	if err != nil {
		return nil, err
	}
	items := secretItems(app)
	for name := range items {
		if !slices.ContainsFunc(stored, func(s secret.Secret) bool { return s.Name == name }) {
			stored = append(stored, secret.Secret{Name: name})
		}
	}
	slices.SortFunc(stored, func(a, b secret.Secret) int { return strings.Compare(a.Name, b.Name) })
	lines := make([]secretLine, 0, len(stored))
	for _, s := range stored {
		lines = append(lines, openSecretLine(app, store, s, items[s.Name]))
	}
	return lines, nil
}

func openSecretLine(app *cli.App, store *secret.Store, named secret.Secret, items []string) secretLine {
	secretLine := secretLine{Name: named.Name, From: named.From, Items: append([]string{}, items...)}
	secretLine.Variable, _ = secret.Variable(named.Name) // an invalid name in the policy is never set
	switch {
	case store.Given(named.Name) != "":
		secretLine.Where = "environment"
	case named.Keyring:
		secretLine.Where = "keyring"
	case !named.Set.IsZero():
		secretLine.Where = "file"
	}
	if !named.Set.IsZero() {
		secretLine.Set = named.Set.Format(time.RFC3339)
	}
	if !named.Expires.IsZero() {
		secretLine.Expires, secretLine.Expired = named.Expires.Format(time.RFC3339), named.Expired(app.Now())
	}
	return secretLine
}

// secretItems returns the secrets that the user's policy names, with the items that may have them. An unreadable
// policy is reported by the commands that need it.
func secretItems(a *cli.App) map[string][]string {
	items := map[string][]string{}
	if root, err := paths.Paths(a).RootPolicy(); err == nil && root.File != nil {
		for _, s := range root.Side.Policy.Sections().Secrets {
			items[s.Name] = s.Items
		}
	}
	return items
}

// CompleteSecrets offers the names of secrets.
func CompleteSecrets(a *cli.App) []cli.Candidate {
	lines, _ := secretLines(a)
	return cli.Offer(lines, func(l secretLine) (string, string) { return l.Name, l.state() })
}

// state returns where a secret is stored and when it expires, in a few words.
func (l *secretLine) state() string {
	switch {
	case l.Where == "":
		return "not set"
	case l.Where == "environment" || l.Expires == "":
		return "in the " + l.Where
	case l.Expired:
		return fmt.Sprintf("in the %s, expired %s", l.Where, l.Expires)
	}
	return fmt.Sprintf("in the %s, expires %s", l.Where, l.Expires)
}

// noSecret turns the error for a secret that isn't set into a not-found error with similar names.
func noSecret(a *cli.App, name string, err error) error {
	if fault.CodeOf(err) != fault.AuthRequired {
		return err
	}
	f := fault.New(fault.NotFound, "secret %q not found", name).On("secret", name).Try("rye auth list").From(err)
	var names []string
	for _, c := range CompleteSecrets(a) {
		if c.Value != name {
			names = append(names, c.Value)
		}
	}
	return f.Near(name, names)
}

// CheckSecrets reports where secrets are stored, and which have expired.
func CheckSecrets(_ context.Context, app *cli.App) paths.Finding {
	store, err := paths.Secrets(app)
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	stored, err := store.List()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	place := fmt.Sprintf("in %q, encrypted with a key in the same directory, because no keyring is available",
		store.Dir)
	if store.Keyring != nil {
		place = "in the keyring of the system"
	}
	expired := slices.DeleteFunc(slices.Clone(stored), func(s secret.Secret) bool { return !s.Expired(app.Now()) })
	if len(expired) > 0 {
		return paths.Finding{Status: paths.StatusWarn, Hint: "rye auth set " + fault.Quote(expired[0].Name),
			Detail: fmt.Sprintf("%d of %d have expired, %q first; kept %s", len(expired), len(stored),
				expired[0].Name, place)}
	}
	f := paths.Good("%s, kept %s", fault.Count(int64(len(stored)), "secret"), place)
	filed := slices.DeleteFunc(stored, func(s secret.Secret) bool { return s.Keyring })
	if store.Keyring != nil && len(filed) > 0 {
		f.Detail += fmt.Sprintf(", %d of them in a file", len(filed))
	}
	return f
}
