// The checks of rye doctor about running tools: sandbox, interpreters and the audit log.

package initcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// checkSandbox compares the sandbox of this machine with the one that the policies require.
func checkSandbox(_ context.Context, a *cli.App) paths.Finding {
	return Offered(paths.Machine(a).Offers(), execFloor(a))
}

// Offered returns the finding for a machine's sandbox and the policies' requirement: a failure if no tool could
// run, a warning if only tools of other people could not.
func Offered(offers sandbox.Offers, required floor.Exec) paths.Finding {
	var works, lacks []string
	for _, p := range offers.Parts {
		if p.Works {
			works = append(works, strings.TrimSpace(p.Name+" "+p.Version))
		} else {
			lacks = append(lacks, p.Name+": "+strings.ReplaceAll(p.Why, "\n", ", "))
		}
	}
	detail := max(offers.Best, floor.None).String()
	if len(works) > 0 {
		detail += ", by " + strings.Join(works, ", ")
	}
	if !offers.Hosts {
		lacks = append(lacks, "a network limited to some hosts")
	}
	if len(lacks) > 0 {
		detail += "; without " + strings.Join(lacks, "; without ")
	}
	finding := paths.Finding{Status: paths.StatusOK, Detail: detail}
	strangers := floor.Landlock
	if required.Strangers != floor.Unset {
		strangers = required.Strangers
	}
	all := max(required.Floor, floor.None)
	switch strangers = max(strangers, all); {
	case offers.Best < all:
		finding.Status, finding.Hint = paths.StatusFail, "rye docs sandbox"
		finding.Detail += fmt.Sprintf(". Everything needs %s, so nothing can run here", all)
	case offers.Best < strangers:
		finding.Status, finding.Hint = paths.StatusWarn, "rye docs sandbox"
		finding.Detail += fmt.Sprintf(". Tools of others need %s, so they can't run here", strangers)
	}
	return finding
}

// execFloor returns the sandbox that the policies require. It skips unreadable policies, which another check
// reports.
func execFloor(a *cli.App) (e floor.Exec) {
	if root, err := paths.Paths(a).RootPolicy(); err == nil && root.File != nil {
		e = root.Side.Policy.Sections().Exec
	}
	if project, err := paths.Paths(a).ProjectPolicy(); err == nil && project != nil {
		e = e.Narrow(project.Side.Policy.Sections().Exec)
	}
	return e
}

// checkInterpreters lists the programs that the library's runtimes would start here.
func checkInterpreters(ctx context.Context, a *cli.App) paths.Finding {
	view, err := find.LibraryView(ctx)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	temp := os.TempDir() // Resolve needs a directory, but runs nothing in it
	request := env.Request{Host: paths.MachineHost(a), Home: temp, Temp: temp}
	if p, err := paths.Paths(a).OpenProject(); err == nil {
		request.Project, request.Forbidden = p.Root, []string{p.Root}
	}
	var found []string
	for _, name := range []string{"bash", "node", "python_script"} {
		ref := model.Ref{Kind: "tool", ID: "rye/core/runtimes/" + name + "_runtime"}
		it, err := view.Find(ctx, ref)
		if err != nil {
			return paths.Bad(paths.StatusFail, err)
		}
		request.Links = []env.Link{{Name: ref.String(), EnvConfig: it.Model.Tool.EnvConfig}}
		resolved, err := env.Resolve(ctx, request)
		if missing, ok := errors.AsType[*env.NotFoundError](err); ok {
			text := missing.What + " not found"
			if missing.Err != nil {
				text += fmt.Sprintf(" (%v)", missing.Err)
			}
			found = append(found, text)
			continue
		}
		if err != nil {
			return paths.Bad(paths.StatusWarn, err)
		}
		for _, p := range resolved.Programs {
			found = append(found, fmt.Sprintf("%q %s", p.Path, p.Digest.Short()))
		}
	}
	return paths.Good("%s", strings.Join(found, ", "))
}

// checkAudit checks that a key of the user vouches for this machine's key, which signs the log and receipts.
// Without that, other people can't verify them.
func checkAudit(ctx context.Context, app *cli.App) paths.Finding {
	dirs, err := audits.Dirs(app)
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	stored, err := key.OpenDir(dirs.Machine).List()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	if len(stored) == 0 {
		return paths.Good("nothing was run yet")
	}
	own := stored[0]
	if own.Err != nil {
		return paths.Bad(paths.StatusFail, own.Err)
	}
	unvouched := paths.Finding{Status: paths.StatusWarn, Hint: "rye audit vouch",
		Detail: fmt.Sprintf(
			"no key of yours has signed this machine's, %s, so others can't verify its calls with your public key",
			paths.Short(own.Public.Fingerprint().String()))}
	voucher := receipt.Voucher(dirs.Machine, own.Public)
	if voucher == nil {
		return unvouched
	}
	keys, err := audits.AuditKeys(ctx, app, dirs, nil)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	by, err := receipt.CheckVoucher(voucher, own.Public, audits.PublicKeys(keys))
	if err != nil {
		return unvouched
	}
	i := slices.IndexFunc(keys, func(l audits.AuditKeyLine) bool { return l.Key == by })
	return paths.Good("%q, signed by this machine's key %s, which %q has signed", dirs.Log,
		paths.Short(own.Public.Fingerprint().String()), keys[i].Name)
}
