package bundles

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/builds"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/build"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// BundleCreateRun is rye bundle create. Tools of the library use it too (package functions).
type BundleCreateRun struct {
	ID       string   `arg:"" optional:"" name:"id" complete:"bundle" help:"Bundle's id; default: bundle.yaml's."`
	Refs     []string `arg:"" optional:"" name:"ref" complete:"own" help:"Items to sign (with --sign)."`
	Package  string   `placeholder:"DIR" complete:"dir" help:"Create it from DIR instead of the project."`
	Sign     bool     `help:"Sign items first; default: those this key signed before."`
	Paranoid bool     `help:"Read and check every file; ignore caches."`
	DryRun   bool     `name:"dry-run" help:"Check everything; sign and write nothing."`
	trusts.KeyFlag

	Head []recipe.Line `kong:"-"` // content for a missing bundle.yaml, from tools
}

// BundleCreated is the new manifest, or the problems that prevented it.
type BundleCreated struct {
	Bundle     string           `json:"bundle"`
	Version    string           `json:"version"`
	Manifest   string           `json:"manifest"` // its id; empty if the bundle was refused
	File       string           `json:"file"`
	Files      int              `json:"files"`
	Items      int              `json:"items"`
	Bytes      int64            `json:"bytes"`
	Read       int64            `json:"read"`    // files whose content was read
	Written    bool             `json:"written"` // false if the manifest was unchanged
	DryRun     bool             `json:"dry_run"`
	Key        string           `json:"key"`
	Signatures int              `json:"signatures"` // of the manifest
	Allowed    bool             `json:"allowed"`    // the policy now admits the bundle
	Signed     []signs.SignLine `json:"signed"`     // items that --sign signed
	Problems   []check.Problem  `json:"problems"`   // after an error among them, no manifest is written
}

func (c *BundleCreated) Text(term *cli.Terminal) {
	spaces.PrintProblems(term, c.Problems)
	if c.Manifest == "" {
		return
	}
	verb := "unchanged"
	switch {
	case c.DryRun:
		verb = "would make"
	case c.Written:
		verb = "made"
	}
	term.Printf("%s  %s@%s  %s\n", term.Stdout.Paint(cli.RoleGood, verb, term.Ascii), c.Bundle, c.Version, c.Manifest)
	if !c.DryRun {
		term.Note("%s: %s, %s, %s", c.File, fault.Count(int64(c.Files), "file"), fault.Count(int64(c.Items), "item"),
			cli.ByteSize(float64(c.Bytes)))
	}
}

// A maker is one run of rye bundle create. Its workspace must be closed (found.Close).
type maker struct {
	run    *BundleCreateRun
	app    *cli.App
	found  *paths.Workspace
	dir    string         // of the project or the plugin
	plugin *plugin.Plugin // nil for a project's bundle
	recipe *recipe.Recipe
	trust  *trust.Trust
	key    trusts.Signer
	store  *disk.Store
	answer *BundleCreated
	doc    manifest.Document // the signed manifest, for admitted

	closePlugin func()
}

// close closes what begin opened.
func (m *maker) close() {
	if m.closePlugin != nil {
		m.closePlugin()
	}
	m.found.Close()
}

func (c *BundleCreateRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if strings.Contains(c.ID, ":") { // a ref, not an id: kong put it into the first argument
		c.ID, c.Refs = "", append([]string{c.ID}, c.Refs...)
	}
	if len(c.Refs) > 0 && !c.Sign {
		return nil, fault.New(fault.Validation, "%q is only signed with --sign", c.Refs[0]).Try(app.With("--sign"))
	}
	if c.Package != "" {
		app.Package = c.Package
	}
	creation, err := c.begin(ctx, app)
	if err != nil {
		return nil, err
	}
	defer creation.close()
	if c.Sign {
		if ans, err := creation.signItems(ctx); err != nil {
			return ans, err
		}
		if c.DryRun && len(creation.answer.Signed) > 0 {
			app.Term.Note("sign these items to check the rest")
			return creation.answer, nil
		}
	}
	return creation.make(ctx)
}

// begin opens the workspace and reads the recipe, the policy and the signing key. The caller closes found.
func (c *BundleCreateRun) begin(ctx context.Context, app *cli.App) (_ *maker, err error) {
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	creation := &maker{run: c, app: app, found: work, dir: work.Root.Root, answer: &BundleCreated{DryRun: c.DryRun,
		Signed:   []signs.SignLine{},
		Problems: []check.Problem{}}}
	defer func() {
		if err != nil {
			creation.close()
		}
	}()
	if dir := find.PluginDir(paths.Paths(app).Dir); dir != "" && len(dir) >= len(work.Root.Root) {
		err = creation.readPlugin(dir)
	} else {
		err = creation.readRecipe()
	}
	if err != nil {
		return nil, err
	}
	creation.answer.Bundle, creation.answer.Version = creation.recipe.ID, creation.recipe.Version
	if creation.trust, err = paths.OpenTrust(app); err != nil {
		return nil, err
	}
	if creation.key, err = trusts.SigningKey(ctx, app, c.Key); err != nil {
		return nil, err
	}
	creation.answer.Key = creation.key.Public().Fingerprint().String()
	creation.store, err = work.OpenStore(!c.DryRun)
	if errors.Is(err, fs.ErrNotExist) && c.DryRun {
		err = nil // without a store, a dry run can't show how items changed
	}
	if err != nil {
		return nil, err
	}
	return creation, nil
}

// readRecipe reads the recipe of the project's bundle.
func (m *maker) readRecipe() error {
	if m.dir == "" {
		_, err := paths.Paths(m.app).OpenProject()
		return err
	}
	found, assumed, err := find.Recipe(m.dir, m.run.ID, m.run.Head)
	if err != nil {
		return err
	}
	if m.recipe = found; len(assumed) > 0 {
		m.app.Term.Warn("no %s: assumed %s", recipe.File, strings.Join(assumed, ", "))
	}
	return nil
}

// make checks the files, signs their list and writes the manifest. A dry run does so in a temporary store.
func (m *maker) make(ctx context.Context) (cli.Answer, error) {
	app, run := m.app, m.run
	if err := m.current(ctx); err != nil {
		return nil, err
	}
	below, needs, err := m.found.Below(ctx, m.recipe.ID, m.recipe.Requires)
	if err != nil {
		return nil, err
	}
	if m.plugin != nil {
		err := create.CheckServers(os.DirFS(m.dir), m.recipe)
		if refused, ok := errors.AsType[*create.RefusedError](err); ok {
			return m.refused(refused)
		}
		if err != nil {
			return nil, err
		}
		if err := m.parts(ctx, bundle.VerifyOptions{Below: below, Needs: needs}); err != nil {
			return nil, err
		}
	}
	cache := paths.OpenStatCache(app, run.Paranoid || run.DryRun)
	defer cache.Finish(ctx, app)
	var memory *create.Memory
	if run.DryRun {
		done, err := m.scratch()
		if err != nil {
			return nil, err
		}
		defer done()
	} else if memory, err = m.memory(ctx); err != nil {
		app.Term.Warn("no cache, so every file is checked: %v", err)
	}
	replaced, _ := find.IsV1(m.dir, m.recipe.ID)
	progress := app.Progress("reading", 0)
	defer progress.Done()
	created, err := create.Create(ctx, create.Options{
		Dir: m.dir, Recipe: m.recipe, Trust: m.trust.Exam(), Below: below,
		Listed: workspace.Listing(ctx, m.trust, m.dir).Listed,
		Keys:   func(s manifest.Signatures) []manifest.SignerKey { return signs.SignerKeys(app, s) },
		Store:  m.store, Sign: m.sign, Journal: m.found.Journal(),
		Cache: cache.Cache, Memory: memory, Paranoid: run.Paranoid, DryRun: run.DryRun, Lock: trust.LockPolicy,
		Progress: progress.Reached(),
	})
	progress.Done()
	switch refused, ok := errors.AsType[*create.RefusedError](err); {
	case ok:
		return m.refused(refused)
	case err != nil:
		return nil, err
	}
	m.unused(created.Unused)
	paths.WarnExtractors(app, created.Warnings)
	cache.Files.Add(int64(len(created.Files)))
	cache.Read.Add(created.Read)
	ans := m.answer
	ans.Manifest, ans.File, ans.Files, ans.Items, ans.Bytes = created.ID.String(), created.Path,
		len(created.Files), created.Items,
		created.FileList.Bytes
	ans.Read, ans.Written, ans.Signatures = created.Read, created.Written, len(created.Signatures)
	if created.Written && replaced {
		app.Term.Note("replaced the v1 manifest")
	}
	if run.DryRun {
		return ans, nil
	}
	m.admitted()
	return ans, m.keep(ctx, created)
}

// sign adds this key's signature to the manifest and keeps those of other keys that the policy knows.
func (m *maker) sign(d *manifest.Document) error {
	if err := cosign.SignBeside(d, m.key.Private, m.trust.Exam().Find,
		m.app.Clock().UTC().Truncate(time.Second)); err != nil {
		return err
	}
	m.doc = *d
	return nil
}

// keep sets the bundle's refs in the store, so that gc keeps its files. It skips an unchanged bundle.
func (m *maker) keep(ctx context.Context, created *create.Result) error {
	id, err := m.store.Ref(install.Ref(created.ID))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !created.Written && id.Digest == created.ID {
		return nil
	}
	return install.KeepMade(ctx, m.store, &created.Bundle, created.Text, created.Tree,
		bundle.VerifyOptions{Trust: m.trust.Exam()})
}

// admitted reports whether the policy admits the new manifest, and warns if it needs more signatures.
func (m *maker) admitted() {
	e, err := m.trust.Exam().ExamineDocument(&m.doc, m.recipe.Expires, policy.ToUse)
	if err != nil {
		m.app.Term.Warn("that is not enough: %s", fault.Of(err).Text)
		return
	}
	m.answer.Allowed = e.Decision.Allowed
	if !e.Decision.Allowed {
		m.app.Term.Warn("that is not enough: %q %s", m.doc.Name, e.Decision.Reason())
	}
	if e.Decision.Code.Fault() == fault.BelowThreshold {
		m.app.Term.Note("next: rye bundle cosign %s --key OTHER", fault.Quote(m.recipe.ID))
	}
}

// scratch gives a dry run a temporary store. done closes and removes it.
func (m *maker) scratch() (done func(), err error) {
	dir, err := osfile.TempDir("dry-run")
	if err != nil {
		return nil, err
	}
	if m.store, err = disk.Open(filepath.Join(dir, "store"), disk.Options{Create: true}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return func() {
		m.store.Close()
		os.RemoveAll(dir)
	}, nil
}

// memory returns the cache of this bundle's checks. Its key covers the rye binary, the library and every required
// bundle, because a check depends on them.
func (m *maker) memory(ctx context.Context) (*create.Memory, error) {
	dir, err := paths.BundleMemories(m.app)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var under bytes.Buffer
	program, err := paths.ThisProgram()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(&under, program)
	under.Write(std.Manifest())
	if l := m.found.ProjectLock(); l != nil {
		for _, line := range l.Old.Bundles {
			fmt.Fprintf(&under, "%s %s\n", line.ID, line.Manifest)
		}
	}
	for _, r := range m.recipe.Requires {
		if at, err := m.found.Finder(ctx).Current(r.BundleID); err == nil && at != nil {
			fmt.Fprintf(&under, "%s %s\n", r.BundleID, at.ID)
		}
	}
	sum := cas.Sum([]byte(m.dir + "\x00" + m.recipe.ID))
	return &create.Memory{Memory: admission.Memory{File: filepath.Join(dir, hex.EncodeToString(sum[:16]))},
		Under: cas.Sum(under.Bytes())}, nil
}

// current refuses a bundle whose build outputs are out of date. It runs the build steps dry.
func (m *maker) current(ctx context.Context) error {
	if len(m.recipe.Build) == 0 {
		return nil
	}
	building := &builds.Building{App: m.app, Dir: m.dir, Recipe: m.recipe,
		Options: build.Options{DryRun: true}}
	building.Mode.Unlocked = m.app.Env("CI") == "" && m.found.ProjectLock() == nil
	result, err := building.Build(ctx)
	if err != nil {
		f := fault.Of(err)
		f.Hint = []string{"rye build"} // its own error has better hints
		return f
	}
	if result.OK() {
		return nil
	}
	failure := fault.New(fault.Conflict, "outputs of the build steps in bundle.yaml are out of date").
		Permanent().Try("rye build")
	var stale []string
	for _, s := range result.Steps {
		switch {
		case s.State == build.Unchanged:
			continue
		case s.Err != nil:
			failure.Why = append(failure.Why, s.Step+": "+fault.Of(s.Err).Text)
		default:
			failure.Why = append(failure.Why, s.Step+": "+builds.FirstOr(s.Why, "not built here before"))
		}
		stale = append(stale, s.Step)
	}
	failure.Details = map[string]any{"steps": stale}
	return failure
}
