package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/create"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/policy"
)

func bundleCreateCommand() command {
	return command{
		path: "bundle create", group: "bundles", help: "Make a bundle of the project's items, and sign it.",
		more: "bundle.yaml in the project says what belongs to the bundle. Without it, ID is needed, and what has this id or one below it belongs to " +
			"the bundle. All files are put into the store and checked; then the list of them is signed and written to .ai/bundles/ID/manifest.yaml. " +
			"If anything is wrong, all of it is told and nothing is written: every item must be valid, and signed by somebody whom the policy lets; " +
			"what looks like a secret is refused. Files that have not changed are not read again, except with --paranoid.\n\n" +
			"--sign REF signs these items first, as rye sign does. --sign alone does so with items that this key has signed before and that were " +
			"changed since: it shows what changed, and asks.\n\nExamples:\n\n    rye bundle create\n    rye bundle create acme/deploy --dry-run\n" +
			"    rye bundle create --sign\n    rye bundle create --sign tool:acme/fetch 'directive:acme/*'",
		aka: []string{"bundle make", "bundle build", "bundle new", "pack"},
		new: func() runner { return new(bundleCreateRun) }, schema: "bundle-create/1", output: &bundleCreated{},
	}
}

type bundleCreateRun struct {
	ID       string   `arg:"" optional:"" name:"id" complete:"bundle" help:"Which bundle; that of bundle.yaml when left out."`
	Refs     []string `arg:"" optional:"" name:"ref" complete:"own" help:"With --sign: the items to sign."`
	Package  string   `placeholder:"DIR" complete:"dir" help:"Make it of what is in DIR instead of the project."`
	Sign     bool     `help:"Sign the items REF first; without any, those that this key has signed before."`
	Paranoid bool     `help:"Read and check every file, whatever is remembered."`
	DryRun   bool     `name:"dry-run" help:"Check everything; sign, write and keep nothing."`
	keyFlag

	head []recipeLine // what a tool says in place of a bundle.yaml that isn't there
}

// A recipeLine is a line of bundle.yaml.
type recipeLine struct {
	name  string
	value any
}

type bundleCreated struct {
	Bundle     string         `json:"bundle"`
	Version    string         `json:"version"`
	Manifest   string         `json:"manifest"` // its id; empty if it was refused
	File       string         `json:"file"`
	Files      int            `json:"files"`
	Items      int            `json:"items"`
	Bytes      int64          `json:"bytes"`
	Read       int64          `json:"read"`    // files whose bytes were read
	Written    bool           `json:"written"` // false: it was there with these bytes
	DryRun     bool           `json:"dry_run"`
	Key        string         `json:"key"`
	Signatures int            `json:"signatures"` // of the manifest
	Allowed    bool           `json:"allowed"`    // the policy lets it be used now
	Signed     []signLine     `json:"signed"`     // items that --sign has signed
	Problems   []checkProblem `json:"problems"`   // with an error nothing was made
}

func (c *bundleCreated) text(t *terminal) {
	printProblems(t, c.Problems)
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
	t.printf("%s  %s@%s  %s\n", t.stdout.paint(roleGood, verb, t.ascii), c.Bundle, c.Version, c.Manifest)
	if !c.DryRun {
		t.note("%s: %s, %s, %s", c.File, fault.Count(int64(c.Files), "file"), fault.Count(int64(c.Items), "item"), byteSize(float64(c.Bytes)))
	}
}

func (c *bundleCreateRun) complete(ctx context.Context, a *app, name, _ string) []candidate {
	if name == "key" {
		return completeKeys(a)
	}
	return nil
}

// A making is one rye bundle create.
type making struct {
	run    *bundleCreateRun
	app    *app
	found  *bundles
	recipe *recipe.Recipe
	trust  *trust
	key    signer
	store  *disk.Store
	answer *bundleCreated
	doc    manifest.Document // as it was signed
}

func (c *bundleCreateRun) run(ctx context.Context, a *app) (answer, error) {
	if strings.Contains(c.ID, ":") { // it is no id, and so the first ref
		c.ID, c.Refs = "", append([]string{c.ID}, c.Refs...)
	}
	if len(c.Refs) > 0 && !c.Sign {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is to be signed, and there is no --sign", c.Refs[0]),
			Hint: []string{a.with("--sign")}}
	}
	if c.Package != "" {
		a.globals.Project = c.Package
	}
	m, err := c.begin(ctx, a)
	if err != nil {
		return nil, err
	}
	defer m.found.close()
	if c.Sign {
		if ans, err := m.signItems(ctx); err != nil {
			return ans, err
		}
		if c.DryRun && len(m.answer.Signed) > 0 {
			a.term.note("the rest can be said when these are signed")
			return m.answer, nil
		}
	}
	return m.make(ctx)
}

// begin finds all that a bundle is made with.
func (c *bundleCreateRun) begin(ctx context.Context, a *app) (*making, error) {
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	if b.root.root == "" {
		_, err := a.project()
		return nil, err
	}
	m := &making{run: c, app: a, found: b, answer: &bundleCreated{DryRun: c.DryRun, Signed: []signLine{}, Problems: []checkProblem{}}}
	if m.recipe, err = c.recipe(b.root.root); err != nil {
		return nil, err
	}
	m.answer.Bundle, m.answer.Version = m.recipe.ID, m.recipe.Version
	if m.trust, err = a.trust(); err != nil {
		return nil, err
	}
	if m.key, err = a.signingKey(ctx, c.Key); err != nil {
		return nil, err
	}
	m.answer.Key = m.key.Public().Fingerprint().String()
	m.store, err = b.store(!c.DryRun)
	if errors.Is(err, fs.ErrNotExist) && c.DryRun {
		err = nil // then it can't say what was changed in items
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return m, nil
}

// firstVersion is that of a bundle without bundle.yaml and without a manifest.
const firstVersion = "0.1.0"

// recipe reads bundle.yaml, or does without.
func (c *bundleCreateRun) recipe(dir string) (*recipe.Recipe, error) {
	r, err := readRecipe(dir)
	switch {
	case err != nil:
		return nil, err
	case r != nil && c.ID != "" && c.ID != r.ID:
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q makes the bundle %q, and %q was asked for", recipe.File, r.ID, c.ID),
			Hint: []string{"rye bundle create " + fault.Quote(r.ID)}, Details: map[string]any{"bundle": r.ID}}
	case r != nil:
		return r, c.agrees(r)
	case c.ID == "":
		name, hint := sharedID(dir), []string{"rye help bundle"}
		if name != "" {
			hint = []string{"rye bundle create " + fault.Quote(name), "rye help bundle"}
		} else if name = slug(filepath.Base(dir)); !validBundleID(name) {
			name = "bundle"
		}
		return nil, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("there is no %q in %q, and no id is given", recipe.File, dir),
			Why:     []string{"a " + recipe.File + " needs no more than these lines:", "id: " + name, "version: " + firstVersion, "include: [\".ai/**\"]"},
			Hint:    hint,
			Details: map[string]any{"path": filepath.Join(dir, recipe.File)}}
	}
	version := firstVersion
	if old := bundleLineOf(inProject, dir, c.ID, time.Time{}); old.Version != "" {
		version = old.Version
	}
	if len(c.head) > 0 {
		r, err = c.written(version)
	} else {
		r, err = recipe.New(c.ID, version)
	}
	if err != nil {
		return nil, &fault.Error{Code: fault.Validation, Err: err, Text: err.Error(), Details: map[string]any{"bundle": c.ID}}
	}
	return r, nil
}

// sharedID is the id that every item of a project has or is below, which so names a bundle of all of them; "" if there
// is none.
func sharedID(dir string) string {
	var shared []string
	begun := false
	root := filepath.Join(dir, markerDir)
	filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, file)
		if err != nil || relErr != nil {
			return nil
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() {
			if recipe.Never(rel) {
				return fs.SkipDir
			}
			return nil
		}
		for _, k := range model.Builtin() {
			ref, err := k.RefOf(rel)
			if err != nil {
				continue
			}
			segs := strings.Split(ref.ID, "/")
			if !begun {
				shared, begun = segs, true
			}
			n := 0
			for n < min(len(shared), len(segs)) && shared[n] == segs[n] {
				n++
			}
			shared = shared[:n]
		}
		return nil
	})
	if id := strings.Join(shared, "/"); validBundleID(id) {
		return id
	}
	return ""
}

// written is the bundle.yaml that the lines would be.
func (c *bundleCreateRun) written(version string) (*recipe.Recipe, error) {
	var text []byte
	for _, l := range append([]recipeLine{{"id", c.ID}, {"version", version}}, c.head...) {
		v, err := json.Marshal(l.value) // which YAML reads, too
		if err != nil {
			return nil, err
		}
		if l.name == "version" {
			version = string(v)
			continue
		}
		text = fmt.Appendf(text, "%s: %s\n", l.name, v)
	}
	return recipe.Parse(fmt.Appendf(text, "version: %s\n", version))
}

// agrees refuses what bundle.yaml says otherwise.
func (c *bundleCreateRun) agrees(r *recipe.Recipe) error {
	has := map[string]any{"version": r.Version, "entrypoint": r.Entrypoint, "description": r.Description}
	for _, l := range c.head {
		if old, ok := has[l.name]; ok && old != l.value {
			return &fault.Error{Code: fault.Conflict, Final: true, Text: fmt.Sprintf("the %s of %q is %q in %q, and %q was asked for", l.name, r.ID, old, recipe.File, l.value),
				Why: []string{"what is in " + recipe.File + " counts"}, Details: map[string]any{"bundle": r.ID}}
		}
	}
	return nil
}

// make makes the bundle.
func (m *making) make(ctx context.Context) (answer, error) {
	a, c := m.app, m.run
	if err := m.current(ctx); err != nil {
		return nil, err
	}
	below, err := m.found.below(ctx, m.recipe.ID, m.recipe.Requires)
	if err != nil {
		return nil, err
	}
	cache := a.statCache(c.Paranoid || c.DryRun)
	defer cache.close(ctx, a)
	var memory *create.Memory
	if c.DryRun {
		done, err := m.scratch()
		if err != nil {
			return nil, err
		}
		defer done()
	} else if memory, err = m.memory(); err != nil {
		a.term.warn("nothing is remembered, and everything checked: %v", err)
	}
	replaced, _ := isFirst(m.found.root.root, m.recipe.ID)
	p := a.progress("reading", 0)
	defer p.Done()
	made, err := create.Create(ctx, create.Options{
		Dir: m.found.root.root, Recipe: m.recipe, Trust: m.trust.exam(), Below: below, Listed: m.trust.listing(ctx, m.found.root.root).Listed,
		Store: m.store, Sign: m.sign,
		Cache: cache.Cache, Memory: memory, Paranoid: c.Paranoid, DryRun: c.DryRun, Lock: lockPolicy, Progress: p.reached(),
	})
	p.Done()
	switch refused, ok := errors.AsType[*create.RefusedError](err); {
	case ok:
		return m.refused(refused)
	case err != nil:
		return nil, err
	}
	m.unused(made.Unused)
	a.warnExtractors(made.Warnings)
	cache.files.Add(int64(len(made.Files)))
	cache.read.Add(made.Read)
	ans := m.answer
	ans.Manifest, ans.File, ans.Files, ans.Items, ans.Bytes = made.ID.String(), made.Path, len(made.Files), made.Items, made.FileList.Bytes
	ans.Read, ans.Written, ans.Signatures = made.Read, made.Written, len(made.Signatures)
	if made.Written && replaced {
		a.term.note("the manifest of the first format (v1) that was there is replaced")
	}
	if c.DryRun {
		return ans, nil
	}
	m.admitted()
	return ans, m.keep(ctx, made)
}

// sign adds our signature to the manifest.
func (m *making) sign(d *manifest.Document) error {
	if err := signBeside(d, m.key.Private, m.trust.exam().Find, m.app.clock().UTC().Truncate(time.Second)); err != nil {
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
	body, err := made.Body()
	if err != nil {
		return err
	}
	return install.Keep(ctx, m.store, &made.Bundle, body, bundle.VerifyOptions{Trust: m.trust.exam()})
}

// admitted says what the policy makes of the manifest. One signature may not be enough.
func (m *making) admitted() {
	e, err := m.trust.exam().ExamineDocument(&m.doc, m.recipe.Expires, policy.ToUse)
	if err != nil {
		m.app.term.warn("that is not enough: %s", classify(err).Text)
		return
	}
	m.answer.Allowed = e.Decision.Allowed
	if !e.Decision.Allowed {
		m.app.term.warn("that is not enough: %q %s", m.doc.Name, e.Decision.Reason())
	}
	if codeOf(e.Decision.Code) == fault.BelowThreshold {
		m.app.term.note("next: rye bundle cosign %s --key OTHER", fault.Quote(m.recipe.ID))
	}
}

// scratch gives a dry run a store of its own, which goes when it is done.
func (m *making) scratch() (done func(), err error) {
	dir, err := os.MkdirTemp("", unfinished+"dry-run-*")
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
func (m *making) memory() (*create.Memory, error) {
	dir, err := m.app.bundleMemories()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var under bytes.Buffer
	fmt.Fprintf(&under, "%+v\n", thisVersion())
	under.Write(std.Manifest())
	if l := m.found.projectLock(); l != nil {
		for _, line := range l.old.Bundles {
			fmt.Fprintf(&under, "%s %s\n", line.ID, line.Manifest)
		}
	}
	for _, r := range m.recipe.Requires {
		if at, err := m.found.installed(r.BundleID); err == nil && at != nil {
			fmt.Fprintf(&under, "%s %s\n", r.BundleID, at.ID)
		}
	}
	sum := cas.Sum([]byte(m.found.root.root + "\x00" + m.recipe.ID))
	return &create.Memory{Memory: exam.Memory{File: filepath.Join(dir, hex.EncodeToString(sum[:16]))}, Under: cas.Sum(under.Bytes())}, nil
}

// bundleMemories is the directory of what was found good.
func (a *app) bundleMemories() (string, error) {
	s := a.dir(cachePlace)
	return filepath.Join(s.value, "bundles"), s.err
}
