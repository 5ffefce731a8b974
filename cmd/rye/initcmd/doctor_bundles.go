package initcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// checkBundles checks that installed bundles are readable, complete in the store and not expired. It verifies no
// signatures; rye bundle verify does.
func checkBundles(ctx context.Context, app *cli.App) paths.Finding {
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	defer work.Close()
	all, err := work.Finder(ctx).AllInstalled(ctx)
	if err != nil {
		f := paths.Bad(paths.StatusWarn, err)
		f.Hint = "rye bundle list"
		return f
	}
	if len(all) == 0 {
		return paths.Good("none installed")
	}
	var wrong, names []string
	for _, at := range all {
		names = append(names, at.BundleID+"@"+at.Version)
		if n, err := absent(ctx, work, at); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %s", at.BundleID, fault.Of(err).Text))
		} else if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s lacks %s in the store", at.BundleID, fault.Count(int64(n), "file")))
		}
		if at.Expired(app.Now()) {
			wrong = append(wrong, fmt.Sprintf("%s expired at %s", at.BundleID, yamltree.DateText(at.Expires)))
		}
	}
	if len(wrong) > 0 {
		return paths.Finding{Status: paths.StatusWarn, Detail: strings.Join(wrong, "; "),
			Hint: "rye bundle install ARCHIVE"}
	}
	const most = 4
	words := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return paths.Good("%s installed: %s", fault.Count(int64(len(all)), "bundle"), words)
}

// absent counts the files of a bundle that the store lacks.
func absent(ctx context.Context, b *paths.Workspace, at *install.Installed) (int, error) {
	s, err := b.OpenStore(false)
	if err != nil {
		return 0, err
	}
	ids := make([]cas.ID, len(at.Files))
	for i := range ids {
		ids[i] = cas.ID{Kind: cas.Blob, Digest: at.Files[i].Digest}
	}
	missing, err := s.Missing(ctx, ids)
	return len(missing), err
}
