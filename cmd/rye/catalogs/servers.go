// The servers of a plugin, which a person agrees to before rye asks them for their tools.

package catalogs

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/parts"
)

// Asker shows what each server of a plugin runs and may do, asks a person, and then the server. A server that the
// person declines isn't asked.
func Asker(app *cli.App, by catalog.Preparer) parts.Asker {
	return func(ctx context.Context, servers []*catalog.Server) ([]*catalog.Announcement, error) {
		all := make([]*catalog.Announcement, len(servers))
		for i, server := range servers {
			agreement, err := consent(ctx, by, server)
			if err != nil {
				return nil, err
			}
			agreement.say(app)
			yes, err := app.Agrees(ctx, "Ask it for its tools?")
			if err != nil {
				return nil, err
			}
			if !yes {
				continue
			}
			if all[i], err = announced(ctx, app, by, server); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// Each asks one server after the other: one that doesn't start leaves the others, and is reported (§7.2.2).
func Each(app *cli.App, ask parts.Asker) parts.Asker {
	return func(ctx context.Context, servers []*catalog.Server) ([]*catalog.Announcement, error) {
		all := make([]*catalog.Announcement, len(servers))
		for i := range servers {
			announced, err := ask(ctx, servers[i:i+1])
			switch {
			case err == nil:
				all[i] = announced[0]
			case ctx.Err() != nil || fault.CodeOf(err) == fault.Approval: // the person can't be asked
				return nil, err
			default:
				f := fault.Of(err)
				app.Term.Warn("%s", strings.Join(append([]string{f.Text}, f.Why...), "; "))
			}
		}
		return all, nil
	}
}

// announced asks a server, and shows its tools.
func announced(ctx context.Context, app *cli.App, by catalog.Preparer, server *catalog.Server) (*catalog.Announcement,
	error) {
	a, _, err := ask(ctx, app, by, server)
	if err != nil {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("the server %q can't be asked for its tools: %s", server.Name, f.Text)
		return nil, f
	}
	changes, err := catalog.Compare(server.At, nil, a, nil)
	if err != nil {
		return nil, err
	}
	app.Term.Say("", "%s announces %s:", []any{server.Item.Ref.String(), tools(len(changes))})
	for i := range changes {
		sayLines(app, newLines(&changes[i]))
	}
	return a, nil
}
