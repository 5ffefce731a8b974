package bundles

import (
	"context"
	"fmt"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/locate"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

func BundleListCommand() cli.Command {
	return cli.Command{
		Path: "bundle list", Group: "bundles", Help: "List the project's bundles, installed bundles and the library.",
		More: "It says what the manifests say, and verifies nothing. With --all those in the store are listed too.\n\nExamples:\n\n    rye bundle list\n" +
			"    rye bundle list --all --json",
		Aka: []string{"bundle ls"},
		New: func() cli.Runner { return new(BundleListRun) }, Schema: "bundle-list/1", Output: BundleList{},
	}
}

type BundleListRun struct {
	All bool `help:"Include the bundles in the store."`
}

type BundleList struct {
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
		SignedBy: []string{}, Expires: trusts.DateText(l.Expires), Expired: l.Expired(now), Previous: []versionLink{}}
	for _, s := range l.Signatures {
		line.SignedBy = append(line.SignedBy, s.Key.String())
	}
	return line
}

// bundleLineOf is a bundle below a directory, in either format.
func bundleLineOf(where, dir, id string, now time.Time) bundleLine {
	var line bundleLine
	first, err := workspace.IsV1(dir, id)
	if err == nil && first {
		line, err = firstLine(where, dir, id)
	} else if err == nil {
		var read *bundle.Bundle
		if read, err = workspace.ReadManifest(dir, id); err == nil {
			line = newBundleLine(where, read.FileList, now)
		}
	}
	if err != nil {
		return bundleLine{Bundle: id, Where: where, SignedBy: []string{}, Previous: []versionLink{}, Error: fault.Of(err).Text}
	}
	return line
}

func (c *BundleListRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	b, err := places.OpenWorkspace(a)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	ans := BundleList{Bundles: []bundleLine{}}
	if b.Root.Root != "" {
		ids, err := workspace.ProjectBundles(b.Root.Root)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			ans.Bundles = append(ans.Bundles, bundleLineOf(locate.InProject, b.Root.Root, id, a.Now()))
		}
	}
	if space, err := b.Space(); err == nil {
		installed, err := b.InstalledAll(ctx, space)
		if err != nil {
			a.Term.Warn("%s", fault.Of(err).Text)
		}
		for _, at := range installed {
			line := newBundleLine(locate.InUser, at.FileList, a.Now())
			for _, v := range at.Previous {
				line.Previous = append(line.Previous, versionLink{v.Version, v.ID.String()})
			}
			ans.Bundles = append(ans.Bundles, line)
		}
	}
	if home := a.UserBase(); home.Err == nil && home.Value != b.Root.Root {
		ids, _ := workspace.ProjectBundles(home.Value)
		for _, id := range ids {
			if first, err := workspace.IsV1(home.Value, id); err == nil && first {
				ans.Bundles = append(ans.Bundles, bundleLineOf(locate.InUser, home.Value, id, a.Now()))
			}
		}
	}
	if c.All {
		kept, err := b.Finder(ctx).Lists(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range kept {
			ans.Bundles = append(ans.Bundles, newBundleLine(locate.InStore, l, a.Now()))
		}
		firsts, err := b.Finder(ctx).V1Lists(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range firsts {
			ans.Bundles = append(ans.Bundles, newV1Line(locate.InStore, l.Manifest, l.Digest.String()))
		}
	}
	l, err := b.Finder(ctx).Library()
	if err != nil {
		return nil, err
	}
	ans.Bundles = append(ans.Bundles, newBundleLine(locate.InBinary, l.Read.FileList, a.Now()))
	return ans, nil
}

func (l BundleList) Text(t *cli.Terminal) {
	var rows [][]string
	for _, b := range l.Bundles {
		if b.Error != "" {
			rows = append(rows, []string{b.Bundle, "-", "-", b.Where, "can't be read: " + b.Error})
			continue
		}
		words := fault.Count(int64(b.Files), "file")
		if b.Format == sign.V1.String() {
			words += ", v1 format" // which knows no sizes
		} else {
			words += ", " + cli.ByteSize(float64(b.Bytes))
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
	t.Rows(rows)
}
