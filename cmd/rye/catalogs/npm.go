// The list of packages of rye mcp add --npm.

package catalogs

import (
	"cmp"
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
	"github.com/rye-build/rye/exec/primitive"
)

// maxList is the largest package-lock.json, in bytes.
const maxList = 16 << 20

// packageList returns the package-lock.json that pins a package: the file of --package-lock, or one that npm writes
// after a person has agreed.
func (c *addRun) packageList(ctx context.Context, a *cli.App, pack *catalog.Package, signer catalog.Key) ([]byte,
	error) {
	if c.PackageLock != "" {
		at := a.Absolute(cli.Setting{Value: c.PackageLock})
		if at.Err != nil {
			return nil, at.Err
		}
		return osfile.ReadSmall(at.Value, maxList)
	}
	if a.IsOffline() {
		return nil, fault.New(fault.Offline, "npm can't list the dependencies of %s: %s", pack,
			a.Offline().Origin).Because("--package-lock takes an existing list").
			Try("rye help mcp add")
	}
	return listWithNPM(ctx, a, pack, signer)
}

// publicRegistry is npm's default registry.
const publicRegistry = "registry.npmjs.org"

// listWithNPM asks a person and runs npm in the sandbox, in a temporary directory. It returns the package-lock.json
// that npm wrote.
func listWithNPM(ctx context.Context, a *cli.App, pack *catalog.Package, signer catalog.Key) ([]byte, error) {
	st, err := stage(ctx, a)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	registry, err := st.Registry()
	if err != nil {
		return nil, err
	}
	host := ""
	if u, err := url.Parse(registry); err == nil {
		host = u.Host
	}
	ref := model.Ref{Kind: "tool", ID: "npm/list"}
	it, err := st.Draft(ref, pack.Resolving(registry, cmp.Or(host, publicRegistry)))
	if err == nil {
		err = st.Write(ctx, it, signer)
	}
	if err != nil {
		return nil, err
	}
	dir, err := osfile.TempDir("npm") // not in the stage: it is in the cache, where no tool may write
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
	a.Term.Say("", "npm would now list the dependencies of %s, in an empty directory and without package scripts:",
		[]any{pack.String()})
	sayRows(a, agreement.rows())
	if err := a.Confirm(ctx, "Run npm?"); err != nil {
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
		f := runs.CallFault(a, plan, r)
		f.Why = output.lines()
		f.Text = "npm can't list the dependencies of " + pack.String()
		f.Hint = []string{"npm view " + fault.Quote(pack.String())}
		return nil, f
	}
	return osfile.ReadSmall(filepath.Join(work, "package-lock.json"), maxList)
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
