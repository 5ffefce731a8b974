package bundles

import (
	"context"
	"os"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/manifest/key"
)

// readPlugin reads the plugin in a directory and its recipe, and refuses one that breaks a rule. The caller closes it.
func (m *maker) readPlugin(dir string) error {
	p, done, err := find.ReadPlugin(dir)
	if err != nil {
		return err
	}
	m.plugin, m.dir, m.closePlugin = p, dir, done
	for _, found := range p.Problems {
		if !found.Invalid() {
			m.app.Term.Warn("%s", found.String())
		}
	}
	if err := parts.Check(p, nil); err != nil {
		return err
	}
	m.recipe, err = find.Plugin(p)
	if err == nil && m.run.ID != "" && m.run.ID != m.recipe.ID {
		err = fault.New(fault.Validation, "%s makes the bundle %q, not %q", plugin.ManifestFile, m.recipe.ID,
			m.run.ID).Try("rye bundle create " + fault.Quote(m.recipe.ID))
	}
	return err
}

// parts makes the items of the plugin's parts and writes them into its directory. A dry run starts no server, and
// writes nothing.
func (m *maker) parts(ctx context.Context, verify bundle.VerifyOptions) error {
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	read := sync.OnceValues(func() (*chain.Plugin, error) {
		return chain.ReadPlugin(ctx, m.recipe.ID, ai.Project.String(), root.FS(), m.plugin.Listing)
	})
	stage, err := catalogs.StageWith(ctx, m.app, func(context.Context, string) (*chain.Plugin, error) {
		return read()
	})
	if err != nil {
		return err
	}
	defer stage.Close()
	signer := catalog.Key{Private: m.key.Private, Now: m.app.Clock}
	options := parts.Options{Plugin: m.plugin, ID: m.recipe.ID, From: m.recipe.ID, Stage: stage, Old: parts.Old(m.dir),
		Key: signer}
	if len(m.plugin.Servers) > 0 {
		verify.Signers, verify.Now = []key.Public{m.key.Public()}, m.app.Now().UTC()
		if unchanged(ctx, m.dir, m.recipe.ID, verify) {
			options.Same = parts.Items(m.dir)
		}
	}
	if !m.run.DryRun {
		options.List, options.Ask = catalogs.Lister(m.app, signer), catalogs.Asker(m.app, stage)
	}
	made, err := parts.Make(ctx, options)
	if err != nil {
		return err
	}
	if err := parts.Check(m.plugin, made.Skipped); err != nil {
		return err
	}
	for _, s := range made.Servers {
		m.noteServer(s)
	}
	if m.run.DryRun {
		return nil
	}
	return made.Write(m.dir)
}

// unchanged reports whether the directory of a plugin is the bundle that the same key has signed.
func unchanged(ctx context.Context, dir, id string, verify bundle.VerifyOptions) bool {
	report, err := bundle.Verify(ctx, bundle.InDir(dir, id), verify)
	return err == nil && report.OK()
}

// noteServer says where the tools of a server come from.
func (m *maker) noteServer(s *parts.Server) {
	switch n := fault.Count(int64(len(s.Tools)), "tool"); {
	case s.State == parts.Kept:
		m.app.Term.Note("%s: %s, not started: the plugin is unchanged since they were pinned", s.Item.Ref, n)
	case s.State == parts.Asked:
		m.app.Term.Note("%s: %s pinned", s.Item.Ref, n)
	case m.run.DryRun && s.Why == "":
		m.app.Term.Note("%s: rye bundle create would ask it for its tools", s.Item.Ref)
	default:
		m.app.Term.Note("%s: its tools aren't pinned: %s", s.Item.Ref, s.Why)
	}
}
