// Package export writes a bundle as a plugin that every agent client reads (package plugin).
//
// A bundle that was made of a plugin comes back as it was: every file that its manifest lists, the manifest and the
// keys of its signers. Any other bundle becomes a directory
//
//	plugin.json               name, version, description and licence
//	skills/NAME/              the bundle's skills, as they were imported, and its directives as skills
//	mcp.json                  one server: rye mcp serve -C ${PLUGIN_ROOT} --frozen
//	rye.yaml rye.lock .ai/    a project that requires this version of the bundle, locked and vendored
//	README.md                 how to trust the signers: a plugin brings evidence and no trust
//	.gitattributes .gitignore
//
// and the licences that the bundle has at its top. The server is missing if the bundle has nothing but skills.
//
// # How an export goes through here
//
// Plugin finds the bundle (exporter.find: the one that the project's lock names, else as rye bundle export does) and
// brings it into the store, verified. asIs lists the files of a plugin. For others project locks and vendors a project
// in a temporary directory, and skills and papers add the rest. plugin.Read checks the result before anything is
// written. Then worktree.Checkout builds the directory under another name and renames it, so that it is complete or
// missing.
package export

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/trust"
)

// Options say what Plugin writes, and where.
type Options struct {
	Bundle *find.Found // nil: the bundle ID of the project's lock
	ID     string
	Dir    string   // absolute; missing or empty
	Name   string   // of the plugin; empty: made of the bundle's id
	Tools  []string // globs of tools that the server offers by their own names
	DryRun bool
	// Forbidden are directories that can't be replaced, such as the user's home.
	Forbidden []string
}

// A Result is the plugin that was written, or would be.
type Result struct {
	Plugin   string    `json:"plugin"` // its name
	Bundle   string    `json:"bundle"`
	Version  string    `json:"version"`
	Manifest string    `json:"manifest"` // of the bundle
	Dir      string    `json:"dir"`
	AsIs     bool      `json:"as_is"`   // the bundle is a plugin, and comes back as it was
	Skills   []string  `json:"skills"`  // sorted
	Server   bool      `json:"server"`  // mcp.json has a server
	Skipped  []Skipped `json:"skipped"` // what a plugin can't have
	Signers  []Signer  `json:"signers"` // whose keys a receiver has to trust, before the server starts
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	DryRun   bool      `json:"dry_run"`
}

// A Skipped is a part of the bundle that clients of the plugin don't get.
type Skipped struct {
	Part string `json:"part"` // a file of the bundle, or something of an item
	Why  string `json:"why"`
}

// A Signer is a signer of what the plugin's lock pins.
type Signer struct {
	Fingerprint string   `json:"fingerprint"`
	Owner       string   `json:"owner"`
	Names       []string `json:"names"` // globs that cover what the key signed
	Trust       string   `json:"trust"` // the command that trusts it, in the plugin's directory
}

// An exporter is one export.
type exporter struct {
	o      Options
	w      *workspace.Workspace
	lock   *workspace.Lock // the project's; nil without one
	trust  *trust.Trust
	store  *disk.Store
	bundle *bundle.Bundle
	temp   string // the directory of the project that is made; empty until then

	files []manifest.File // of the plugin
	made  cas.Memory      // the bytes of those that only the plugin has
	built cas.Getter      // the files in temp; may be nil
	Result
}

// Locked reports whether the project's lock has a bundle.
func Locked(w *workspace.Workspace, id string) bool {
	l := w.ProjectLock()
	return l != nil && l.Old.Bundle(id) != nil
}

// Plugin writes a bundle as a plugin.
func Plugin(ctx context.Context, w *workspace.Workspace, options Options) (_ *Result, err error) {
	e := &exporter{o: options, w: w, lock: w.ProjectLock()}
	if e.lock != nil {
		defer e.lock.Close()
	}
	if e.trust, err = w.Policy(); err != nil {
		return nil, err
	}
	if e.store, err = w.OpenStore(true); err != nil {
		return nil, err
	}
	if err := e.find(ctx); err != nil {
		return nil, err
	}
	e.Result = Result{Bundle: e.bundle.BundleID, Version: e.bundle.Version, Manifest: e.bundle.ID.String(),
		Dir: e.o.Dir, Skills: []string{}, Skipped: []Skipped{}, Signers: []Signer{}, DryRun: e.o.DryRun}
	if e.bundle.Plugin != "" {
		err = e.asIs(ctx)
	} else {
		defer func() {
			if e.temp != "" {
				_ = os.RemoveAll(e.temp)
			}
		}()
		err = e.convert(ctx)
	}
	if err == nil {
		err = e.write(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &e.Result, nil
}

// find brings the bundle into the store, where its files then are, and requires that the policy admits it.
func (e *exporter) find(ctx context.Context) error {
	verify := bundle.VerifyOptions{Trust: e.trust.Exam(), Parts: e.w.Parts}
	found := e.o.Bundle
	switch {
	case found == nil:
		set, err := e.lockedSet(ctx)
		if err != nil {
			return err
		}
		e.bundle = set.Bundle(e.o.ID)
	case found.Where == find.InBinary:
		return fault.New(fault.Denied, "can't export %q: it is part of the binary and unsigned", find.LibraryID).
			On("reason", "builtin")
	case found.Where == find.InUser || found.Where == find.InStore:
		if err := found.Read(ctx); err != nil {
			return err
		}
		e.bundle = found.Bundle
	default:
		report, err := found.Import(ctx, e.store, verify, func(r io.Reader) io.Reader { return r })
		if err != nil {
			return err
		}
		e.bundle = report.Bundle
		return nil
	}
	_, err := verify.Admit(e.bundle)
	return err
}

// lockedSet returns the set of the project's lock. Its vendored objects are in the store then.
func (e *exporter) lockedSet(ctx context.Context) (*lock.Set, error) {
	vendored, err := e.lock.Vendored()
	if err != nil {
		return nil, err
	}
	if vendored != nil {
		l, err := e.lock.Current()
		if err != nil {
			return nil, err
		}
		defer l.Close()
		if _, err := l.Vendored(); err != nil {
			return nil, err
		}
		if err := restore.TakeVendored(ctx, l); err != nil {
			return nil, err
		}
	}
	return e.lock.Set(ctx)
}

// asIs lists the files of a plugin as they were. Without a signature there was no manifest.
func (e *exporter) asIs(ctx context.Context) error {
	if e.o.Name != "" || len(e.o.Tools) > 0 {
		return fault.New(fault.Validation,
			"%q is a plugin, which is exported as it is: --name and --tools don't apply", e.bundle.BundleID).
			On("bundle", e.bundle.BundleID)
	}
	e.files, e.AsIs = slices.Clone(e.bundle.Files), true
	if len(e.bundle.Signatures) > 0 {
		body, err := e.bundle.Body()
		if err != nil {
			return err
		}
		keys, err := e.keys()
		if err != nil {
			return err
		}
		if err := e.add(ctx, bundle.PluginManifest, manifest.Join(nil, body, e.bundle.Signatures)); err != nil {
			return err
		}
		if err := e.add(ctx, bundle.PluginKeys, keys); err != nil {
			return err
		}
		for _, proof := range e.bundle.Evidence {
			e.files = append(e.files, manifest.File{Path: e.bundle.Layout().Evidence(proof.Name),
				Digest: proof.Digest, Size: proof.Size, Mode: cas.File})
		}
	}
	read, err := e.read(ctx)
	if err != nil {
		return err
	}
	e.Plugin, e.Server = read.Manifest.Name, len(read.Servers) > 0
	for _, s := range read.Skills {
		e.Skills = append(e.Skills, s.Name)
	}
	return nil
}

// keys returns the file of the public keys of a plugin's signers: as it is beside the plugin, else of the keys that
// the policy and the project know.
func (e *exporter) keys() ([]byte, error) {
	if found := e.o.Bundle; found != nil && found.Where == find.InProject {
		if text, err := os.ReadFile(filepath.Join(found.Dir, filepath.FromSlash(bundle.PluginKeys))); err == nil {
			return text, nil
		}
	}
	var known []manifest.SignerKey
	for _, line := range e.bundle.Signatures {
		if k, ok := e.trust.Root.Side.Policy.Key(line.Key); ok {
			known = append(known, manifest.SignerKey{Public: k.Public, Owner: k.Owner})
		}
	}
	return bundle.SignersOf(e.bundle.Signatures, known, e.projectKeys())
}

// add adds a file that only the plugin has.
func (e *exporter) add(ctx context.Context, path string, text []byte) error {
	info, err := e.made.Put(ctx, cas.Blob, strings.NewReader(string(text)))
	e.files = append(e.files, manifest.File{Path: path, Digest: info.ID.Digest, Size: info.Size, Mode: cas.File})
	return err
}

// Get implements cas.Getter for the plugin's files.
func (e *exporter) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := e.made.Get(ctx, id)
	if err != nil && e.built != nil {
		o, err = e.built.Get(ctx, id)
	}
	if err != nil {
		o, err = e.store.Get(ctx, id)
	}
	return o, err
}

// read reads the plugin that is going to be written.
func (e *exporter) read(ctx context.Context) (*plugin.Plugin, error) {
	slices.SortFunc(e.files, func(a, b manifest.File) int { return cmp.Compare(a.Path, b.Path) })
	return plugin.Read(snapshot.FS(ctx, e, e.files, "."))
}

// write writes the plugin.
func (e *exporter) write(ctx context.Context) error {
	batch, err := e.made.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	root, err := install.PutTree(ctx, batch, e.files)
	if err == nil {
		err = batch.Commit(ctx)
	}
	if err != nil {
		return err
	}
	e.Files = len(e.files)
	for i := range e.files {
		e.Bytes += e.files[i].Size
	}
	if e.o.DryRun {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(e.o.Dir), 0o777); err != nil {
		return err
	}
	_, err = worktree.Checkout(ctx, e, cas.ID{Kind: cas.TreeKind, Digest: root}, e.o.Dir,
		worktree.CheckoutOptions{Forbidden: e.o.Forbidden})
	return err
}
