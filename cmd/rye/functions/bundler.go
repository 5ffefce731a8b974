package functions

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/bundles"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
)

// BundlerParams are the parameters of tool:rye/core/bundler/bundler.
type BundlerParams struct {
	Action      string `json:"action"`
	ID          string `json:"bundle_id"`
	Version     string `json:"version"`
	Entrypoint  string `json:"entrypoint"`
	Description string `json:"description"`
	Package     string `json:"package_path"`
}

// BundlerNeeds returns the needed permission: to sign a bundle with the user's own key, or to load it.
func BundlerNeeds(p BundlerParams) function.Need {
	id := cmp.Or(p.ID, "*")
	switch p.Action {
	case "create", "create-package":
		return function.Need{Permissions: []capability.Capability{capabilityFor(capability.Sign, "bundle", id)},
			Own: true}
	}
	return function.Need{Permissions: []capability.Capability{capabilityFor(capability.Load, "bundle", id)}}
}

// bundlerFunction runs the command of bundlerParams.Action and returns its answer in the fields of the tool's
// interface.
func bundlerFunction(ctx context.Context, app *cli.App, call *function.Call, bundlerParams BundlerParams) (any,
	error) {
	actions := map[string]func(context.Context, *cli.App) (map[string]any, error){
		"create": bundlerParams.create, "create-package": bundlerParams.createPackage,
		"verify": bundlerParams.verify, "inspect": bundlerParams.inspect,
		"list": bundlerParams.list,
	}
	do := actions[bundlerParams.Action]
	if do == nil {
		return map[string]any{
			"success": false, "error": "Unknown action: " + bundlerParams.Action,
			"valid_actions": slices.Sorted(maps.Keys(actions)),
		}, nil
	}
	// Only ids are accepted, so that a tool can't read archives from anywhere on the machine.
	if bundlerParams.ID != "" && !find.ValidID(bundlerParams.ID) || bundlerParams.ID == "" &&
		(bundlerParams.Action == "verify" || bundlerParams.Action == "inspect" || bundlerParams.Action == "create") {
		return function.No(ctx, fault.New(fault.Validation, "invalid bundle_id %q: expected the id of a bundle",
			bundlerParams.ID))
	}
	v, err := do(ctx, paths.Unattended(app, call.Files.Project, call.Errs))
	if err != nil {
		return function.No(ctx, err)
	}
	v["success"] = true
	return v, nil
}

// lines returns the lines that replace a missing bundle.yaml.
func (p *BundlerParams) lines() (lines []recipe.Line) {
	for _, l := range []recipe.Line{{Name: "version", Value: p.Version}, {Name: "entrypoint", Value: p.Entrypoint},
		{Name: "description", Value: p.Description}} {
		if l.Value != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

func (p *BundlerParams) create(ctx context.Context, a *cli.App) (map[string]any, error) {
	project, err := paths.Paths(a).OpenProject()
	if err != nil {
		return nil, err
	}
	return created(ctx, a, &bundles.BundleCreateRun{ID: p.ID, Head: p.lines()}, project.Root)
}

// createPackage creates a bundle of everything in the .ai of another directory, which must be inside the project.
func (p *BundlerParams) createPackage(ctx context.Context, app *cli.App) (map[string]any, error) {
	project, err := paths.Paths(app).OpenProject()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(project.Root, filepath.FromSlash(p.Package))
	if filepath.IsAbs(p.Package) {
		dir = filepath.Clean(p.Package)
	}
	rel, err := filepath.Rel(osfile.Unlinked(project.Root), osfile.Unlinked(dir))
	wrong := func(what string) error {
		return fault.New(fault.Validation, "invalid package_path %q: %s", p.Package, what).On("path", dir)
	}
	if p.Package == "" || err != nil || !filepath.IsLocal(rel) {
		return nil, wrong("not inside the project")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, wrong("not a directory")
	}
	if info, err := os.Stat(filepath.Join(dir, workspace.MarkerDir)); err != nil || !info.IsDir() {
		return nil, wrong("it contains no .ai")
	}
	run := &bundles.BundleCreateRun{ID: p.ID, Package: dir,
		Head: append(p.lines(), recipe.Line{Name: "include", Value: []string{workspace.MarkerDir + "/**"}})}
	if r, err := recipe.Read(dir); err != nil {
		return nil, err
	} else if r == nil && p.ID == "" {
		run.ID = key.Slug(filepath.Base(dir))
	}
	v, err := created(ctx, app, run, dir)
	if err == nil {
		v["bundle_type"], v["manifest_path"] = "package",
			filepath.Join(dir, filepath.FromSlash(v["manifest_path"].(string)))
	}
	return v, err
}

// created runs rye bundle create and returns its answer. The problems of a refused bundle become the error's causes.
func created(ctx context.Context, a *cli.App, run *bundles.BundleCreateRun, dir string) (map[string]any, error) {
	ans, err := run.Run(ctx, a)
	if answer, ok := ans.(*bundles.BundleCreated); ok && err != nil && len(answer.Problems) > 0 {
		f := fault.Of(err)
		for _, p := range answer.Problems[:min(len(answer.Problems), audits.MostNamed)] {
			f.Why = append(f.Why, strings.TrimPrefix(p.File+": ", ": ")+p.Message)
		}
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	answer := ans.(*bundles.BundleCreated)
	read, err := find.ReadManifest(dir, answer.Bundle)
	if err != nil {
		return nil, err
	}
	count := typed()
	for i := range read.Files {
		count.add(read.Files[i].Ref)
	}
	return map[string]any{"status": "created", "bundle_id": answer.Bundle, "version": answer.Version,
		"manifest":      answer.Manifest,
		"manifest_path": answer.File, "file_count": answer.Files, "files_by_type": count}, nil
}

// typeCounts counts files by kind. Files that are not items count as assets.
type typeCounts map[string]int

func typed() typeCounts { return typeCounts{"directive": 0, "tool": 0, "knowledge": 0, "asset": 0} }

func (c typeCounts) add(ref string) {
	kind, _, item := strings.Cut(ref, ":")
	if !item {
		kind = "asset"
	}
	c[kind]++
}

// ofManifest lists the checks of a bundle as a whole. If one fails, no file can be compared with the manifest.
var ofManifest = []bundle.Check{bundle.CheckManifest, bundle.CheckSignatures, bundle.CheckExpired,
	bundle.CheckEvidence}

// verify runs rye bundle verify. A failed verification is a result with the status "failed", not an error.
func (p *BundlerParams) verify(ctx context.Context, a *cli.App) (map[string]any, error) {
	ans, err := (&bundles.BundleVerifyRun{Bundle: p.ID, AllowExtra: true}).Run(ctx, a)
	report, ok := ans.(*bundles.BundleReport)
	if !ok {
		return nil, cmp.Or(err, errors.New("no report"))
	}
	result := map[string]any{"status": "verified", "bundle_id": report.Bundle, "version": report.Version,
		"manifest":       report.Manifest,
		"manifest_valid": true,
		"files_checked":  report.Of, "files_ok": report.Files}
	if err != nil {
		result["status"] = "failed"
	}
	missing, tampered := map[string]bool{}, map[string]bool{}
	var wrong []string
	for _, f := range report.Failures {
		switch check := bundle.Check(f.Check); {
		case f.Path == "" || slices.Contains(ofManifest, check):
			wrong = append(wrong, f.Message)
		case check == bundle.CheckMissing:
			missing[f.Path] = true
		default:
			tampered[f.Path] = true
		}
	}
	if len(wrong) > 0 {
		result["manifest_valid"], result["manifest_error"] = false, strings.Join(wrong, "; ")
	}
	result["files_missing"], result["files_tampered"] = list(missing), list(tampered)
	return result, nil
}

func list(set map[string]bool) []string { return append([]string{}, slices.Sorted(maps.Keys(set))...) }

// inspect returns what a bundle declares, unverified.
func (p *BundlerParams) inspect(ctx context.Context, a *cli.App) (map[string]any, error) {
	ans, err := (&bundles.BundleInspectRun{Bundle: p.ID}).Run(ctx, a)
	if err != nil {
		return nil, err
	}
	n := ans.(*bundles.BundleInspection)
	files, count := []map[string]any{}, typed()
	for _, f := range n.Files {
		count.add(f.Ref)
		files = append(files, map[string]any{"path": f.Path, "digest": f.Digest, "bytes": f.Size, "ref": f.Ref})
	}
	return map[string]any{
		"bundle": map[string]any{"id": n.Bundle, "version": n.Version, "entrypoint": n.Entrypoint,
			"description": n.Description,
			"manifest":    n.Manifest, "format": n.Format, "signed_by": n.SignedBy},
		"files": files, "file_count": len(files), "files_by_type": count,
	}, nil
}

func (p *BundlerParams) list(ctx context.Context, a *cli.App) (map[string]any, error) {
	ans, err := new(bundles.BundleListRun).Run(ctx, a)
	if err != nil {
		return nil, err
	}
	listed := []map[string]any{}
	for _, l := range ans.(bundles.BundleList).Bundles {
		line := map[string]any{"bundle_id": l.Bundle, "version": l.Version, "entrypoint": l.Entrypoint,
			"description": l.Description,
			"where":       l.Where, "manifest_path": ""}
		if at, err := bundle.ManifestPath(l.Bundle); err == nil && l.Where == find.InProject {
			line["manifest_path"] = at
		}
		if l.Error != "" {
			line["error"] = l.Error
		}
		listed = append(listed, line)
	}
	return map[string]any{"bundles": listed}, nil
}
