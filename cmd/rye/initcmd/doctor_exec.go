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

// checkSandbox reports what this machine can enforce, against what the policies require.
func checkSandbox(_ context.Context, a *cli.App) paths.Finding {
	return Offered(paths.Machine(a).Offers(), execFloor(a))
}

// Offered is what comes of what a machine has where a policy asks for something.
func Offered(o sandbox.Offers, asked floor.Exec) paths.Finding {
	var has, lacks []string
	for _, p := range o.Parts {
		if p.Works {
			has = append(has, strings.TrimSpace(p.Name+" "+p.Version))
		} else {
			lacks = append(lacks, p.Name+": "+strings.ReplaceAll(p.Why, "\n", ", "))
		}
	}
	detail := max(o.Best, floor.None).String()
	if len(has) > 0 {
		detail += ", by " + strings.Join(has, ", ")
	}
	if !o.Hosts {
		lacks = append(lacks, "a network of some hosts alone")
	}
	if len(lacks) > 0 {
		detail += "; without " + strings.Join(lacks, "; without ")
	}
	f := paths.Finding{Status: paths.StatusOK, Detail: detail}
	strangers := floor.Landlock
	if asked.Strangers != floor.Unset {
		strangers = asked.Strangers
	}
	all := max(asked.Floor, floor.None)
	switch strangers = max(strangers, all); {
	case o.Best < all:
		f.Status, f.Hint = paths.StatusFail, "rye docs sandbox"
		f.Detail += fmt.Sprintf(". Everything needs %s, so nothing is run here", all)
	case o.Best < strangers:
		f.Status, f.Hint = paths.StatusWarn, "rye docs sandbox"
		f.Detail += fmt.Sprintf(". Tools of others need %s, so they aren't run here", strangers)
	}
	return f
}

// execFloor is the sandbox that the policies require. Another check reports unreadable policies.
func execFloor(a *cli.App) (e floor.Exec) {
	if root, err := paths.Paths(a).RootPolicy(); err == nil && root.File != nil {
		e = root.Side.Policy.Sections().Exec
	}
	if project, err := paths.Paths(a).ProjectPolicy(); err == nil && project != nil {
		e = e.Narrow(project.Side.Policy.Sections().Exec)
	}
	return e
}

// checkInterpreters finds the programs that the library's runtimes would start.
func checkInterpreters(ctx context.Context, a *cli.App) paths.Finding {
	v, err := find.LibraryView(ctx)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	temp := os.TempDir() // nothing is run there
	q := env.Request{Host: paths.MachineHost(a), Home: temp, Temp: temp}
	if p, err := paths.Paths(a).OpenProject(); err == nil {
		q.Project, q.Forbidden = p.Root, []string{p.Root}
	}
	var found []string
	for _, name := range []string{"bash", "node", "python_script"} {
		ref := model.Ref{Kind: "tool", ID: "rye/core/runtimes/" + name + "_runtime"}
		it, err := v.Find(ctx, ref)
		if err != nil {
			return paths.Bad(paths.StatusFail, err)
		}
		q.Links = []env.Link{{Name: ref.String(), EnvConfig: it.Model.Tool.EnvConfig}}
		made, err := env.Resolve(ctx, q)
		if missing, ok := errors.AsType[*env.NotFoundError](err); ok {
			text := missing.What + " isn't here"
			if missing.Err != nil {
				text += fmt.Sprintf(" (%v)", missing.Err)
			}
			found = append(found, text)
			continue
		}
		if err != nil {
			return paths.Bad(paths.StatusWarn, err)
		}
		for _, p := range made.Programs {
			found = append(found, fmt.Sprintf("%q %s", p.Path, p.Digest.Short()))
		}
	}
	return paths.Good("%s", strings.Join(found, ", "))
}

// checkAudit checks that a key of the user has signed this machine's, which signs the log and receipts.
func checkAudit(ctx context.Context, a *cli.App) paths.Finding {
	p, err := audits.Dirs(a)
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	kept, err := key.OpenDir(p.Machine).List()
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	if len(kept) == 0 {
		return paths.Good("nothing was run yet")
	}
	own := kept[0]
	if own.Err != nil {
		return paths.Bad(paths.StatusFail, own.Err)
	}
	unvouched := paths.Finding{Status: paths.StatusWarn, Hint: "rye audit vouch",
		Detail: fmt.Sprintf(
			"no key of yours has signed this machine's, %s, so others can't verify its calls with your public key",
			paths.Short(own.Public.Fingerprint().String()))}
	voucher := receipt.Voucher(p.Machine, own.Public)
	if voucher == nil {
		return unvouched
	}
	keys, err := audits.AuditKeys(ctx, a, p, nil)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	by, err := receipt.CheckVoucher(voucher, own.Public, audits.PublicKeys(keys))
	if err != nil {
		return unvouched
	}
	i := slices.IndexFunc(keys, func(l audits.AuditKeyLine) bool { return l.Key == by })
	return paths.Good("%q, signed by this machine's key %s, which %q has signed", p.Log,
		paths.Short(own.Public.Fingerprint().String()), keys[i].Name)
}
