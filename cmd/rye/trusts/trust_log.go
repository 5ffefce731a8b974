package trusts

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// readRotation reads the document of --rotation, which may be at an address.
func (c *trustAddRun) readRotation(ctx context.Context, app *cli.App) ([]byte, error) {
	if !strings.Contains(c.Rotation, "://") {
		return osfile.ReadSmall(c.Rotation, paths.MaxKeyFile)
	}
	fetch := paths.Fetcher(app)
	if fetch == nil {
		return nil, fault.New(fault.Offline, "%q is not read: rye is offline", c.Rotation).Try(app.Online())
	}
	body, _, err := fetch.Get(ctx, c.Rotation, registry.MaxRotation)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// isLogRotation reports whether a document is about the key of a registry's log.
func isLogRotation(text []byte) bool {
	return bytes.Contains(text, []byte("\nrye: \"registry-rotation/"))
}

// rotateLog lets the project's registry go on with the new key of its log.
func (c *trustAddRun) rotateLog(ctx context.Context, app *cli.App, text []byte) (cli.Answer, error) {
	rotation, err := registry.ParseRotation(text)
	if err != nil {
		return nil, err
	}
	unlock, err := paths.Alone(ctx, app, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	lock, err := paths.OpenLock(app, true)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	all, err := lock.Rotated(rotation)
	if err != nil {
		return nil, err
	}
	if at, err := url.Parse(c.Rotation); err == nil && at.Host != "" {
		lock.Typed = append(lock.Typed, at.Host)
	}
	app.Term.Note("the log %s goes on after %s with another key", rotation.Log.Name,
		fault.Count(rotation.Entries, "entry"))
	app.Term.Note("  before  %s", rotation.Before)
	app.Term.Note("  now     %s", rotation.Log)
	for _, at := range all {
		app.Term.Note("  of      %s", at.URL)
	}
	if err := app.Confirm(ctx, "write the new key into rye.yaml?"); err != nil {
		return nil, err
	}
	edited, err := lock.FollowRotation(ctx, rotation, all)
	if err != nil {
		return nil, err
	}
	if err := update.WriteProject(lock.Dir, edited.Format()); err != nil {
		return nil, err
	}
	path := filepath.Join(lock.Dir, workspace.MarkerFile)
	answer := paths.TrustChange{Change: trust.Change{Policy: path, ID: cas.Sum(edited.Format()).String(),
		Changes: []policy.Change{}}}
	for _, at := range all {
		if at.Log != rotation.Log {
			answer.Changes = append(answer.Changes, policy.Change{Section: "registries", Entry: at.URL, Field: "log",
				Old: at.Log.String(), New: rotation.Log.String()})
		}
	}
	app.Term.Note("proofs beside archives and in .ai/vendor are by the old key: rye fetch and rye vendor renew them")
	return answer, nil
}
