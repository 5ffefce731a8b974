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

type BundleCreateRun struct {
	ID       string   `arg:"" optional:"" name:"id" complete:"bundle" help:"Bundle's id; default: bundle.yaml's."`
	Refs     []string `arg:"" optional:"" name:"ref" complete:"own" help:"Items to sign (with --sign)."`
	Package  string   `placeholder:"DIR" complete:"dir" help:"Create it from DIR instead of the project."`
	Sign     bool     `help:"Sign items first; default: those this key signed before."`
	Paranoid bool     `help:"Read and check every file; ignore caches."`
	DryRun   bool     `name:"dry-run" help:"Check everything; sign and write nothing."`
	trusts.KeyFlag

	Head []recipe.Line `kong:"-"` // stand for a bundle.yaml that is missing
}

type BundleCreated struct {
	Bundle     string           `json:"bundle"`
	Version    string           `json:"version"`
	Manifest   string           `json:"manifest"` // its id; empty if it was refused
	File       string           `json:"file"`
	Files      int              `json:"files"`
	Items      int              `json:"items"`
	Bytes      int64            `json:"bytes"`
	Read       int64            `json:"read"`    // files whose bytes were read
	Written    bool             `json:"written"` // false: it was there with these bytes
	DryRun     bool             `json:"dry_run"`
	Key        string           `json:"key"`
	Signatures int              `json:"signatures"` // of the manifest
	Allowed    bool             `json:"allowed"`    // the policy lets it be used now
	Signed     []signs.SignLine `json:"signed"`     // items that --sign has signed
	Problems   []check.Problem  `json:"problems"`   // with an error nothing was made
}

func (c *BundleCreated) Text(t *cli.Terminal) {
	spaces.PrintProblems(t, c.Problems)
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
	t.Printf("%s  %s@%s  %s\n", t.Stdout.Paint(cli.RoleGood, verb, t.Ascii), c.Bundle, c.Version, c.Manifest)
	if !c.DryRun {
		t.Note("%s: %s, %s, %s", c.File, fault.Count(int64(c.Files), "file"), fault.Count(int64(c.Items), "item"),
			cli.ByteSize(float64(c.Bytes)))
	}
}

// A making is one rye bundle create.
type making struct {
	run    *BundleCreateRun
	app    *cli.App
	found  *paths.Workspace
	recipe *recipe.Recipe
	trust  *trust.Trust
	key    trusts.Signer
	store  *disk.Store
	answer *BundleCreated
	doc    manifest.Document // as it was signed
}

func (c *BundleCreateRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if strings.Contains(c.ID, ":") { // it is no id, and so the first ref
		c.ID, c.Refs = "", append([]string{c.ID}, c.Refs...)
	}
	if len(c.Refs) > 0 && !c.Sign {
		return nil, fault.New(fault.Validation, "%q is only signed with --sign", c.Refs[0]).Try(a.With("--sign"))
	}
	if c.Package != "" {
		a.Package = c.Package
	}
	m, err := c.begin(ctx, a)
	if err != nil {
		return nil, err
	}
	defer m.found.Close()
	if c.Sign {
		if ans, err := m.signItems(ctx); err != nil {
			return ans, err
		}
		if c.DryRun && len(m.answer.Signed) > 0 {
			a.Term.Note("the rest can be said when these are signed")
			return m.answer, nil
		}
	}
	return m.make(ctx)
}

// begin finds all that a bundle is made with.
func (c *BundleCreateRun) begin(ctx context.Context, a *cli.App) (*making, error) {
	b, err := paths.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	if b.Root.Root == "" {
		_, err := paths.Paths(a).OpenProject()
		return nil, err
	}
	m := &making{run: c, app: a, found: b, answer: &BundleCreated{DryRun: c.DryRun, Signed: []signs.SignLine{},
		Problems: []check.Problem{}}}
	if m.recipe, err = find.Recipe(b.Root.Root, c.ID, c.Head); err != nil {
		return nil, err
	}
	m.answer.Bundle, m.answer.Version = m.recipe.ID, m.recipe.Version
	if m.trust, err = paths.OpenTrust(a); err != nil {
		return nil, err
	}
	if m.key, err = trusts.SigningKey(ctx, a, c.Key); err != nil {
		return nil, err
	}
	m.answer.Key = m.key.Public().Fingerprint().String()
	m.store, err = b.OpenStore(!c.DryRun)
	if errors.Is(err, fs.ErrNotExist) && c.DryRun {
		err = nil // then it can't say what was changed in items
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return m, nil
}

// make makes the bundle.
func (m *making) make(ctx context.Context) (cli.Answer, error) {
	a, c := m.app, m.run
	if err := m.current(ctx); err != nil {
		return nil, err
	}
	below, _, err := m.found.Below(ctx, m.recipe.ID, m.recipe.Requires)
	if err != nil {
		return nil, err
	}
	cache := paths.OpenStatCache(a, c.Paranoid || c.DryRun)
	defer cache.Finish(ctx, a)
	var memory *create.Memory
	if c.DryRun {
		done, err := m.scratch()
		if err != nil {
			return nil, err
		}
		defer done()
	} else if memory, err = m.memory(ctx); err != nil {
		a.Term.Warn("nothing is remembered, and everything checked: %v", err)
	}
	replaced, _ := find.IsV1(m.found.Root.Root, m.recipe.ID)
	p := a.Progress("reading", 0)
	defer p.Done()
	made, err := create.Create(ctx, create.Options{
		Dir: m.found.Root.Root, Recipe: m.recipe, Trust: m.trust.Exam(), Below: below,
		Listed: workspace.Listing(ctx, m.trust, m.found.Root.Root).Listed,
		Store:  m.store, Sign: m.sign,
		Cache: cache.Cache, Memory: memory, Paranoid: c.Paranoid, DryRun: c.DryRun, Lock: trust.LockPolicy,
		Progress: p.Reached(),
	})
	p.Done()
	switch refused, ok := errors.AsType[*create.RefusedError](err); {
	case ok:
		return m.refused(refused)
	case err != nil:
		return nil, err
	}
	m.unused(made.Unused)
	paths.WarnExtractors(a, made.Warnings)
	cache.Files.Add(int64(len(made.Files)))
	cache.Read.Add(made.Read)
	ans := m.answer
	ans.Manifest, ans.File, ans.Files, ans.Items, ans.Bytes = made.ID.String(), made.Path, len(made.Files), made.Items,
		made.FileList.Bytes
	ans.Read, ans.Written, ans.Signatures = made.Read, made.Written, len(made.Signatures)
	if made.Written && replaced {
		a.Term.Note("replaced the v1 manifest")
	}
	if c.DryRun {
		return ans, nil
	}
	m.admitted()
	return ans, m.keep(ctx, made)
}

// sign adds our signature to the manifest.
func (m *making) sign(d *manifest.Document) error {
	if err := cosign.SignBeside(d, m.key.Private, m.trust.Exam().Find,
		m.app.Clock().UTC().Truncate(time.Second)); err != nil {
		return err
	}
	m.doc = *d
	return nil
}

// keep names the bundle in the store, so that gc leaves its files alone.
func (m *making) keep(ctx context.Context, made *create.Result) error {
	id, err := m.store.Ref(install.Ref(made.ID))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !made.Written && id.Digest == made.ID {
		return nil
	}
	return install.KeepMade(ctx, m.store, &made.Bundle, made.Text, made.Tree,
		bundle.VerifyOptions{Trust: m.trust.Exam()})
}

// admitted says what the policy makes of the manifest. One signature may not be enough.
func (m *making) admitted() {
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

// scratch gives a dry run a store of its own, which goes when it is done.
func (m *making) scratch() (done func(), err error) {
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

// memory is what remembers that this bundle was checked, as long as this rye and the library are the same.
func (m *making) memory(ctx context.Context) (*create.Memory, error) {
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
	sum := cas.Sum([]byte(m.found.Root.Root + "\x00" + m.recipe.ID))
	return &create.Memory{Memory: admission.Memory{File: filepath.Join(dir, hex.EncodeToString(sum[:16]))},
		Under: cas.Sum(under.Bytes())}, nil
}

// current refuses a bundle whose steps would make something else than is there.
func (m *making) current(ctx context.Context) error {
	if len(m.recipe.Build) == 0 {
		return nil
	}
	w := &builds.Building{App: m.app, Dir: m.found.Root.Root, Recipe: m.recipe, Options: build.Options{DryRun: true}}
	w.Mode.Unlocked = m.app.Env("CI") == "" && m.found.ProjectLock() == nil
	made, err := w.Build(ctx)
	if err != nil {
		f := fault.Of(err)
		f.Hint = []string{"rye build"} // which says how to go on
		return f
	}
	if made.OK() {
		return nil
	}
	f := fault.New(fault.Conflict, "what the steps of bundle.yaml make isn't there as they would make it now").
		Permanent().Try("rye build")
	var stale []string
	for _, s := range made.Steps {
		switch {
		case s.State == build.Unchanged:
			continue
		case s.Err != nil:
			f.Why = append(f.Why, s.Step+": "+fault.Of(s.Err).Text)
		default:
			f.Why = append(f.Why, s.Step+": "+builds.FirstOr(s.Why, "it was not made here before"))
		}
		stale = append(stale, s.Step)
	}
	f.Details = map[string]any{"steps": stale}
	return f
}
