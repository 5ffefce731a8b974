package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

func bundleListCommand() command {
	return command{
		path: "bundle list", group: "bundles", help: "List the bundles of the project, those that are installed, and the library.",
		more: "It says what the manifests say, and verifies nothing. With --all those in the store are listed too.\n\nExamples:\n\n    rye bundle list\n" +
			"    rye bundle list --all --json",
		aka: []string{"bundle ls"},
		new: func() runner { return new(bundleListRun) }, schema: "bundle-list/1", output: bundleList{},
	}
}

type bundleListRun struct {
	All bool `help:"List the bundles in the store, too."`
}

type bundleList struct {
	Bundles []bundleLine `json:"bundles"`
}

// bundleLine is what the manifest of a bundle says.
type bundleLine struct {
	Bundle      string        `json:"bundle"`
	Version     string        `json:"version"`
	Manifest    string        `json:"manifest"` // its id
	Where       string        `json:"where"`
	Description string        `json:"description"`
	Entrypoint  string        `json:"entrypoint,omitempty"`
	Format      string        `json:"format"` // "v1", "v2"
	Files       int           `json:"files"`
	Bytes       int64         `json:"bytes"`
	SignedBy    []string      `json:"signed_by"` // fingerprints, which nobody has checked
	Expires     string        `json:"expires,omitempty"`
	Expired     bool          `json:"expired"`
	Previous    []versionLink `json:"previous"` // that can be rolled back to
	Error       string        `json:"error,omitempty"`
}

type versionLink struct {
	Version  string `json:"version"`
	Manifest string `json:"manifest"`
}

func newBundleLine(where string, l *manifest.FileList, now time.Time) bundleLine {
	line := bundleLine{Bundle: l.BundleID, Version: l.Version, Manifest: l.ID.String(), Format: sign.V2.String(), Where: where, Description: l.Description, Entrypoint: l.Entrypoint, Files: l.Files, Bytes: l.Bytes,
		SignedBy: []string{}, Expires: dateText(l.Expires), Expired: l.Expired(now), Previous: []versionLink{}}
	for _, s := range l.Signatures {
		line.SignedBy = append(line.SignedBy, s.Key.String())
	}
	return line
}

// bundleLineOf is a bundle below a directory, in either format.
func bundleLineOf(where, dir, id string, now time.Time) bundleLine {
	var line bundleLine
	first, err := isFirst(dir, id)
	if err == nil && first {
		line, err = firstLine(where, dir, id)
	} else if err == nil {
		var read *bundle.Bundle
		if read, err = readManifest(dir, id); err == nil {
			line = newBundleLine(where, read.FileList, now)
		}
	}
	if err != nil {
		return bundleLine{Bundle: id, Where: where, SignedBy: []string{}, Previous: []versionLink{}, Error: classify(err).Text}
	}
	return line
}

func (c *bundleListRun) run(ctx context.Context, a *app) (answer, error) {
	b, err := a.bundles()
	if err != nil {
		return nil, err
	}
	defer b.close()
	ans := bundleList{Bundles: []bundleLine{}}
	if b.root.root != "" {
		ids, err := projectBundles(b.root.root)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			ans.Bundles = append(ans.Bundles, bundleLineOf(inProject, b.root.root, id, a.now()))
		}
	}
	if space, err := b.space(); err == nil {
		installed, err := b.installedAll(ctx, space)
		if err != nil {
			a.term.warn("%s", classify(err).Text)
		}
		for _, at := range installed {
			line := newBundleLine(inUser, at.FileList, a.now())
			for _, v := range at.Previous {
				line.Previous = append(line.Previous, versionLink{v.Version, v.ID.String()})
			}
			ans.Bundles = append(ans.Bundles, line)
		}
	}
	if home := a.userBase(); home.err == nil && home.value != b.root.root {
		ids, _ := projectBundles(home.value)
		for _, id := range ids {
			if first, err := isFirst(home.value, id); err == nil && first {
				ans.Bundles = append(ans.Bundles, bundleLineOf(inUser, home.value, id, a.now()))
			}
		}
	}
	if c.All {
		kept, err := b.storedLists(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range kept {
			ans.Bundles = append(ans.Bundles, newBundleLine(inStore, l, a.now()))
		}
		firsts, err := b.storedFirsts(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range firsts {
			ans.Bundles = append(ans.Bundles, newFirstLine(inStore, l.Manifest, l.id.String()))
		}
	}
	l, err := library()
	if err != nil {
		return nil, err
	}
	ans.Bundles = append(ans.Bundles, newBundleLine(inBinary, l.read.FileList, a.now()))
	return ans, nil
}

func (l bundleList) text(t *terminal) {
	var rows [][]string
	for _, b := range l.Bundles {
		if b.Error != "" {
			rows = append(rows, []string{b.Bundle, "-", "-", b.Where, "can't be read: " + b.Error})
			continue
		}
		words := fault.Count(int64(b.Files), "file")
		if b.Format == sign.V1.String() {
			words += ", first format (v1)" // which knows no sizes
		} else {
			words += ", " + byteSize(float64(b.Bytes))
		}
		if b.Expired {
			words += ", expired " + b.Expires
		}
		if n := len(b.Previous); n > 0 {
			words += fmt.Sprintf(", %s before", fault.Count(int64(n), "version"))
		}
		if b.Description != "" {
			words += "  " + b.Description
		}
		rows = append(rows, []string{b.Bundle, b.Version, b.Manifest[len("blake3:"):][:12], b.Where, words})
	}
	t.rows(rows)
}
