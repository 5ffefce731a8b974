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

// maxList bounds a list of packages, in bytes.
const maxList = 16 << 20

// packageList returns the list that pins a package: a file, or what npm makes of it after a person has agreed.
func (c *addRun) packageList(ctx context.Context, a *cli.App, p *catalog.Package, k catalog.Key) ([]byte, error) {
	if c.PackageLock != "" {
		at := a.Absolute(cli.Setting{Value: c.PackageLock})
		if at.Err != nil {
			return nil, at.Err
		}
		return osfile.ReadSmall(at.Value, maxList)
	}
	if a.IsOffline() {
		return nil, fault.New(fault.Offline, "npm can't be asked what %s needs: %s", p,
			a.Offline().Origin).Because("--package-lock takes a list that exists").
			Try("rye help mcp add")
	}
	return listWithNPM(ctx, a, p, k)
}

// publicRegistry is where npm asks if nothing else is said.
const publicRegistry = "registry.npmjs.org"

// listWithNPM runs npm in the sandbox, in a directory of its own.
func listWithNPM(ctx context.Context, a *cli.App, p *catalog.Package, k catalog.Key) ([]byte, error) {
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
	it, err := st.Draft(ref, p.Resolving(registry, cmp.Or(host, publicRegistry)))
	if err == nil {
		err = st.Write(ctx, it, k)
	}
	if err != nil {
		return nil, err
	}
	dir, err := osfile.TempDir("npm") // the stage lies in the cache, which no tool writes
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
	asked, err := st.PrepareIn(ctx, ref, dir, true)
	if err != nil {
		return nil, err
	}
	spec, err := catalog.SpecOfProgram(it.Model)
	if err != nil {
		asked.Close()
		return nil, err
	}
	shown := newConsent(spec, asked)
	asked.Close()
	a.Term.Say("", "npm would run now to list what %s needs, in an empty directory and without scripts of packages:",
		[]any{p.String()})
	sayRows(a, shown.rows())
	if err := a.Confirm(ctx, "Run npm?"); err != nil {
		return nil, err
	}
	plan, err := st.PrepareIn(ctx, ref, dir, false)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	said := new(tail)
	r, err := plan.Run(ctx, said)
	if err != nil {
		return nil, err
	}
	if r.Status != record.OK {
		f := runs.CallFault(a, plan, r)
		f.Why = said.lines()
		f.Text, f.Hint = "npm can't list what "+p.String()+" needs", []string{"npm view " + fault.Quote(p.String())}
		return nil, f
	}
	return osfile.ReadSmall(filepath.Join(work, "package-lock.json"), maxList)
}

// A tail keeps the last lines that a program prints on standard error.
type tail struct{ text []byte }

// Emit implements primitive.Sink.
func (t *tail) Emit(s primitive.Stream, b []byte) error {
	if s == primitive.Stderr {
		t.text = append(t.text, b...)
		t.text = t.text[max(0, len(t.text)-4096):]
	}
	return nil
}

// lines are the last of them.
func (t *tail) lines() []string {
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return lines[max(0, len(lines)-fault.MaxLines):]
}
