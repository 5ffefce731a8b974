package export

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/clients"
	"github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// A locked is the project that was made, with its lock.
type locked struct {
	w    *workspace.Workspace
	lock *workspace.Lock
	pins *clients.Pins
	kept map[cas.Digest]bool // the files that are vendored
}

func (l *locked) close() {
	if l.lock != nil {
		l.lock.Close()
	}
	l.w.Close()
}

// project makes a project that requires the bundle, locks and vendors it, and adds its files to the plugin.
func (e *exporter) project(ctx context.Context) (_ *locked, err error) {
	bundles, err := e.closure(ctx)
	if err != nil {
		return nil, err
	}
	yaml, err := e.yaml(bundles)
	if err != nil {
		return nil, err
	}
	if e.temp, err = osfile.TempDir("export"); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(e.temp, workspace.MarkerFile), yaml.Format(), 0o600); err != nil {
		return nil, err
	}
	paths := e.w.Paths
	paths.Dir, paths.NoDir, paths.Named = e.temp, nil, true
	made := &locked{}
	if made.w, err = workspace.Open(ctx, paths, e.w.Options); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			made.close()
		}
	}()
	if err := e.makeLock(ctx, made.w, yaml, bundles); err != nil {
		return nil, err
	}
	if made.lock, err = made.w.OpenLock(false); err != nil {
		return nil, err
	}
	if made.pins, err = clients.Open(ctx, made.lock); err != nil {
		return nil, err
	}
	if err := made.vendor(ctx); err != nil {
		return nil, err
	}
	return made, e.addProject(ctx, made)
}

// closure returns the lines of the bundle and of those that it requires: the ones of the project's lock, or else the
// installed ones.
func (e *exporter) closure(ctx context.Context) (lines []file.Bundle, err error) {
	var visit func(b *bundle.Bundle) error
	visit = func(b *bundle.Bundle) error {
		if slices.ContainsFunc(lines, func(l file.Bundle) bool { return l.ID == b.BundleID }) {
			return nil
		}
		lines = append(lines, file.Bundle{ID: b.BundleID, Version: b.Version, Manifest: b.ID, Source: e.source(b)})
		for _, need := range b.Requires {
			other, err := e.required(ctx, b, need)
			if err == nil {
				err = visit(other)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	err = visit(e.bundle)
	slices.SortFunc(lines, func(a, b file.Bundle) int { return strings.Compare(a.ID, b.ID) })
	return lines, err
}

// required returns the bundle that another one requires.
func (e *exporter) required(ctx context.Context, by *bundle.Bundle, need manifest.Require) (*bundle.Bundle, error) {
	allowed, err := semver.Parse(need.Version)
	if err != nil {
		return nil, err
	}
	found := ""
	if e.lock != nil && e.lock.Old.Bundle(need.BundleID) != nil {
		set, err := e.lockedSet(ctx)
		if err != nil {
			return nil, err
		}
		b := set.Bundle(need.BundleID)
		if found = b.Version; allowed.Contains(found) {
			return b, nil
		}
	} else if at, err := e.w.Finder().Current(need.BundleID); err != nil {
		return nil, err
	} else if at != nil {
		if found = at.Version; allowed.Contains(found) {
			return at.Bundle, nil
		}
	}
	return nil, lock.Unmet(lock.BundleName(by.BundleID, by.Version), need.BundleID, need.Version, found)
}

// source returns where a bundle comes from: the address that the project's lock has. A path means nothing elsewhere,
// so the name that rye bundle export gives to the archive takes its place.
func (e *exporter) source(b *bundle.Bundle) ryeyaml.Source {
	if e.lock != nil {
		if line := e.lock.Old.Bundle(b.BundleID); line != nil && line.Manifest == b.ID && line.Source.Remote() {
			return line.Source
		}
	}
	return ryeyaml.Source{Where: archive.FileName(b.BundleID, b.Version)}
}

// yaml returns rye.yaml. Only the exported bundle has roots.
func (e *exporter) yaml(bundles []file.Bundle) (*ryeyaml.Project, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "# The project behind the plugin %s, made by rye export plugin. rye docs plugins\n", e.Plugin)
	if v := e.w.Version; v != "devel" {
		fmt.Fprintf(&text, "rye: %s\n", yamltree.Quote(v))
	}
	text.WriteString("requires:\n")
	for _, b := range bundles {
		version, _, _ := strings.Cut(b.Version, "+")
		place, use := "from", ""
		if b.Source.Index {
			place = "index"
		}
		if b.ID != e.bundle.BundleID {
			use = ", use: []"
		}
		fmt.Fprintf(&text, "  %s: {version: %s, %s: %s%s}\n", yamltree.Quote(b.ID), yamltree.Quote("="+version), place,
			yamltree.Quote(b.Source.Where), use)
	}
	return ryeyaml.Parse([]byte(text.String()), e.w.Version)
}

// makeLock locks the project. The store has its bundles, so that no source is asked for them. In a vendored clone
// without their sources it may have only what the clone's lock pins: then that is what the project pins.
func (e *exporter) makeLock(ctx context.Context, w *workspace.Workspace, yaml *ryeyaml.Project,
	bundles []file.Bundle) error {
	l := w.LockIn(w.Root.Root, w.Root.DotAI())
	l.Yaml, l.Stands = yaml, yaml
	l.Old = &file.Lock{Requires: slices.Clone(yaml.Requires), Bundles: bundles}
	slices.SortFunc(l.Old.Requires, func(a, b ryeyaml.Requirement) int { return strings.Compare(a.ID, b.ID) })
	if e.lock != nil {
		l.Old.Artifacts = e.lock.Old.Artifacts
		for _, pin := range e.lock.Old.Pins {
			if slices.ContainsFunc(bundles, func(b file.Bundle) bool {
				locked := e.lock.Old.Bundle(b.ID)
				return pin.From == file.System+b.ID && locked != nil && locked.Manifest == b.Manifest
			}) {
				l.Old.Pins = append(l.Old.Pins, pin)
			}
		}
	}
	defer l.Close()
	if err := l.Open(); err != nil {
		return err
	}
	made, err := restore.Make(ctx, l, restore.Request(ctx, l))
	if err != nil {
		return err
	}
	return l.Write(made)
}

// vendor writes what the lock names into .ai/vendor.
func (l *locked) vendor(ctx context.Context) error {
	if err := os.MkdirAll(l.lock.DotAI, 0o700); err != nil {
		return err
	}
	set, err := restore.Stored(ctx, l.lock)
	if err != nil {
		return err
	}
	objects, err := set.Objects(ctx)
	if err != nil {
		return err
	}
	l.kept = map[cas.Digest]bool{}
	for _, o := range objects {
		l.kept[o.ID.Digest] = true
	}
	_, err = restore.Vendor(ctx, l.lock, restore.FetchResult{})
	return err
}

// addProject adds the files of the project.
func (e *exporter) addProject(ctx context.Context, made *locked) error {
	if err := e.signers(ctx, made.lock); err != nil {
		return err
	}
	blobs := &find.Blobs{FS: os.DirFS(e.temp), At: map[cas.Digest]manifest.File{}}
	err := fs.WalkDir(blobs.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		r, err := blobs.FS.Open(name)
		if err != nil {
			return err
		}
		defer r.Close()
		h := cas.NewHasher()
		size, err := io.Copy(h, r)
		if err != nil {
			return err
		}
		f := manifest.File{Path: name, Digest: h.Digest(), Size: size, Mode: cas.File}
		blobs.At[f.Digest] = f
		e.files = append(e.files, f)
		return nil
	})
	e.built = blobs
	if err == nil {
		err = e.add(ctx, ".gitattributes", []byte("* -text\n"))
	}
	if err == nil {
		err = e.add(ctx, ".gitignore", []byte(".ai/threads/\n.ai/outputs/\n"))
	}
	return err
}

// projectKeys returns the project's list of signers; nil without one.
func (e *exporter) projectKeys() []byte {
	if e.lock == nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(e.lock.DotAI, source.SignersFile))
	if err != nil {
		return nil
	}
	return text
}

// signers adds the public keys of those who signed what is pinned, and the manifests of its bundles. A project that is
// locked has the former alone.
func (e *exporter) signers(ctx context.Context, made *workspace.Lock) error {
	set, err := made.Set(ctx)
	if err != nil {
		return err
	}
	ids := map[key.Fingerprint][]string{}
	sign := func(by key.Fingerprint, names ...string) { ids[by] = append(ids[by], names...) }
	for i := range made.Old.Pins {
		pin := &made.Old.Pins[i]
		for _, by := range pin.Signers {
			sign(by, pin.Ref.ID, strings.TrimPrefix(pin.From, file.System))
		}
	}
	for i := range made.Old.Bundles {
		b := set.Bundle(made.Old.Bundles[i].ID)
		for _, line := range b.Signatures {
			sign(line.Key, b.BundleID)
		}
	}
	var keys []manifest.SignerKey
	for by, names := range ids {
		k, ok := e.trust.Root.Side.Policy.Key(by)
		if !ok {
			continue // its signature doesn't count here either
		}
		keys = append(keys, manifest.SignerKey{Public: k.Public, Owner: k.Owner})
		s := Signer{Fingerprint: by.String(), Owner: k.Owner, Names: workspace.Narrowest(names)}
		command := []string{"--from", ".ai/" + source.SignersFile, "--fingerprint", s.Fingerprint}
		for _, name := range s.Names {
			command = append(command, "--names", name)
		}
		s.Trust = fault.Command("rye trust add", command...)
		e.Signers = append(e.Signers, s)
	}
	slices.SortFunc(e.Signers, func(a, b Signer) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	text, err := manifest.AppendSigners(nil, keys)
	if err != nil {
		return err
	}
	return e.add(ctx, workspace.MarkerDir+"/"+source.SignersFile, text)
}

// readme adds a page for people who get the plugin.
func (e *exporter) readme(ctx context.Context) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n", e.Plugin)
	if e.bundle.Description != "" {
		text.WriteString(e.bundle.Description + "\n\n")
	}
	fmt.Fprintf(&text, "This directory is an Agent Plugin, made by `rye export plugin` of the signed bundle\n"+
		"`%s@%s` (`%s`).\n", e.Bundle, e.Version, e.Manifest)
	if e.Server {
		text.WriteString("\nIts MCP server is `rye`, which has to be installed. It runs only what `rye.lock` pins, " +
			"from `.ai/vendor`,\nin a sandbox. It doesn't start until you trust the keys that signed it. Compare each " +
			"fingerprint with one\nthat its owner gave you, then run in this directory:\n\n```console\n")
		for _, s := range e.Signers {
			if s.Owner != "" {
				fmt.Fprintf(&text, "# %s, as the publisher's policy names the owner\n", s.Owner)
			}
			text.WriteString("$ " + s.Trust + "\n")
		}
		text.WriteString("```\n")
	}
	return e.add(ctx, "README.md", []byte(text.String()))
}
