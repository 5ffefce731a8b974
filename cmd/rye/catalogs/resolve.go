// The lists of packages of servers from npm and PyPI.

package catalogs

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/runs"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/lock/packages"
)

// maxList is the largest package-lock.json, or report of pip, in bytes.
const maxList = 16 << 20

// packageList returns what pins a package: the file of --package-lock, or one that npm or pip writes after a person
// has agreed.
func (c *addRun) packageList(app *cli.App, signer catalog.Key) catalog.Lister {
	if c.PackageLock == "" {
		return Lister(app, signer)
	}
	return func(context.Context, *launcher.Package) ([]byte, error) {
		at := app.Absolute(cli.Setting{Value: c.PackageLock})
		if at.Err != nil {
			return nil, at.Err
		}
		return osfile.ReadSmall(at.Value, maxList)
	}
}

// Lister asks a person and runs npm or pip in the sandbox, in a temporary directory.
func Lister(app *cli.App, signer catalog.Key) catalog.Lister {
	return func(ctx context.Context, pack *launcher.Package) ([]byte, error) {
		return resolve(ctx, app, pack, signer)
	}
}

// resolve returns what npm or pip has written about a package.
func resolve(ctx context.Context, app *cli.App, pack *launcher.Package, signer catalog.Key) ([]byte, error) {
	if app.IsOffline() {
		f := fault.New(fault.Offline, "%s can't list the dependencies of %s: %s", catalog.ResolverOf(pack), pack,
			app.Offline().Origin).Try("rye help mcp add")
		if pack.Ecosystem == packages.NPM {
			f.Because("--package-lock takes an existing list")
		}
		return nil, f
	}
	st, err := Stage(ctx, app)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	registry, err := st.Registry(pack.Ecosystem)
	if err != nil {
		return nil, err
	}
	dir, err := osfile.TempDir("resolve") // not in the stage: it is in the cache, where no tool may write
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	dir = osfile.Unlinked(dir)
	work := filepath.Join(dir, catalog.WorkDir)
	if err := errors.Join(os.Mkdir(work, 0o700),
		os.WriteFile(filepath.Join(work, "package.json"), []byte("{}\n"), 0o600)); err != nil {
		return nil, err
	}
	roots := app.Env("SSL_CERT_FILE")
	if roots != "" { // npm and pip trust what rye trusts
		b, err := osfile.ReadSmall(roots, maxList)
		if err == nil {
			err = os.WriteFile(filepath.Join(work, catalog.Roots), b, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	host := ""
	if u, err := url.Parse(registry); err == nil {
		host = u.Host
	}
	resolver := catalog.NewResolver(pack, registry, host, roots != "")
	ref := model.Ref{Kind: "tool", ID: resolver.Name + "/list"}
	it, err := st.Draft(ref, ".yaml", resolver.Item())
	if err == nil {
		err = st.Write(ctx, it, signer)
	}
	if err != nil {
		return nil, err
	}
	preview, err := st.PrepareIn(ctx, ref, dir, true)
	if err != nil {
		return nil, err
	}
	spec, err := catalog.SpecOfProgram(it.Model)
	if err != nil {
		preview.Close()
		return nil, err
	}
	agreement := newConsent(spec, preview)
	preview.Close()
	app.Term.Say("", "%s would now list the dependencies of %s, in an empty directory and without package scripts:",
		[]any{resolver.Name, pack.String()})
	sayRows(app, agreement.rows())
	if err := app.Confirm(ctx, "Run "+resolver.Name+"?"); err != nil {
		return nil, err
	}
	plan, err := st.PrepareIn(ctx, ref, dir, false)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	output := new(tail)
	r, err := plan.Run(ctx, output)
	if err != nil {
		return nil, err
	}
	if r.Status != record.OK {
		f := runs.CallFault(app, plan, r)
		f.Why = output.lines()
		f.Text = resolver.Name + " can't list the dependencies of " + pack.String()
		f.Hint = []string{resolver.Hint(pack)}
		return nil, f
	}
	return osfile.ReadSmall(filepath.Join(work, resolver.Written), maxList)
}

// A tail is a sink that keeps the last 4096 bytes of standard error.
type tail struct{ text []byte }

// Emit implements primitive.Sink.
func (t *tail) Emit(s primitive.Stream, b []byte) error {
	if s == primitive.Stderr {
		t.text = append(t.text, b...)
		t.text = t.text[max(0, len(t.text)-4096):]
	}
	return nil
}

// lines returns the last lines, at most fault.MaxLines.
func (t *tail) lines() []string {
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return lines[max(0, len(lines)-fault.MaxLines):]
}
