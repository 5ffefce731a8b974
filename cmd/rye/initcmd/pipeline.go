// The flag --ci of rye init: files with which other services run rye.

package initcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// pipelines is the library's directory of templates for these files.
const pipelines = "tools/rye/core/pipelines"

// maxPipeline is the largest existing file that may be replaced, in bytes.
const maxPipeline = 1 << 20

// A serviceFile is a file with which another service runs rye.
type serviceFile struct {
	path, what string // the path is relative to the root of the repository
	template   string // in the library
	mark       string // text that shows that a file shared with others has our lines; rye never replaces such a file

	content, old []byte // old is nil for no file
}

// serviceFiles maps a service to its files.
var serviceFiles = map[string][]serviceFile{
	"github": {
		{path: ".github/actions/rye/action.yml", what: "the steps, as an action", template: "_action.yml"},
		{path: ".github/workflows/rye.yml", what: "the workflow that runs them", template: "_workflow.yml"},
	},
	"gitlab": {
		{path: ".gitlab/rye.yml", what: "the jobs", template: "_gitlab.yml"},
		{path: ".gitlab-ci.yml", what: "includes them", template: "_include.yml", mark: ".gitlab/rye.yml"},
	},
	"pre-commit": {
		{path: ".pre-commit-config.yaml", what: "the hooks", template: "_pre-commit.yml", mark: "id: rye-lock-check"},
	},
}

// pipeline writes the files of a service. It shows the differences of existing files and asks before it replaces
// them.
func (c *initRun) pipeline(ctx context.Context, app *cli.App, ans *initAnswer) error {
	root, dir, err := repository(ans.Dir)
	if err != nil {
		return err
	}
	changed, err := changedFiles(app, c.CI, root, dir)
	if err != nil {
		return err
	}
	for _, f := range changed {
		ans.Written, ans.Commit = append(ans.Written, initLine{f.path, f.what}), append(ans.Commit, f.path)
	}
	if len(changed) == 0 {
		app.Term.Note("the files for %s are up to date", c.CI)
	}
	if err := confirmReplace(ctx, app, changed, c.DryRun); err != nil || c.DryRun {
		return err
	}
	for _, f := range changed {
		at := filepath.Join(root, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return err
		}
		if err := osfile.WriteFile(at, 0o644, f.old == nil, osfile.BytesOf(f.content)); err != nil {
			return err
		}
	}
	if c.CI != "pre-commit" { // whose hooks run under the policy of the user
		noteTrust(app, ans.Dir)
	}
	return nil
}

// noteTrust says what a machine without a home needs, so that the files of a service work there.
func noteTrust(app *cli.App, dir string) {
	file := filepath.Join(dir, workspace.MarkerDir, trust.File)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		from := filepath.Join(cli.UserSpace(app.UserBase()).Value, trust.File)
		app.Term.Note("the pipeline trusts only a policy in the repository; copy yours, then run this command again:")
		app.Term.Note("    %s", fault.Command("cp", from, file))
		return
	}
	known, err := policy.Parse(text)
	if err != nil {
		app.Term.Warn("%s: %v", file, err)
		return
	}
	app.Term.Note("commit %s, and set the variable RYE_TRUST of the service to its digest:",
		workspace.MarkerDir+"/"+trust.File)
	app.Term.Note("    %s", known.ID())
}

// changedFiles returns the files of a service that are missing or differ. For a file that others write too, it
// prints the lines to add instead.
func changedFiles(app *cli.App, service, root, dir string) (changed []serviceFile, err error) {
	for _, file := range serviceFiles[service] {
		template, err := fs.ReadFile(std.FS(), pipelines+"/"+file.template)
		if err != nil {
			return nil, err
		}
		file.content = []byte(filled(dir).Replace(string(template)))
		at := filepath.Join(root, filepath.FromSlash(file.path))
		if err := osfile.RefuseLinks(at, root); err != nil {
			return nil, err
		}
		file.old, err = osfile.ReadSmall(at, maxPipeline)
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing {
			return nil, err
		}
		if !missing && file.old == nil {
			file.old = []byte{}
		}
		theirs := file.mark != "" && !missing && !bytes.HasPrefix(file.old, []byte(`# Written by "rye init`))
		switch {
		case bytes.Equal(file.old, file.content) || theirs && bytes.Contains(file.old, []byte(file.mark)):
		case theirs:
			app.Term.Note("%q exists; add these lines:", file.path)
			for line := range strings.Lines(string(file.content)) {
				app.Term.Note("    %s", strings.TrimSuffix(line, "\n"))
			}
		default:
			changed = append(changed, file)
		}
	}
	return changed, nil
}

// filled returns the replacements for a template: this rye's version, and the project's directory in the repository.
func filled(dir string) *strings.Replacer {
	version, flag, prefix := "latest", "", ""
	if v := cli.ThisVersion().Version; paths.IsRelease(v) {
		version = "v" + strings.TrimPrefix(v, "v")
	}
	if dir != "." {
		at := dir
		if strings.HasPrefix(dir, "-") {
			at = "./" + dir // otherwise rye would read it as a flag
		}
		flag, prefix = "-C "+at+" ", regexp.QuoteMeta(dir)+"/"
	}
	return strings.NewReplacer("<<version>>", version, "<<directory>>", dir, "<<-C>>", flag, "<<prefix>>", prefix)
}

// confirmReplace shows how existing files would change and asks. It asks nothing in a dry run or if all files are
// new.
func confirmReplace(ctx context.Context, app *cli.App, changed []serviceFile, dry bool) error {
	var names []string
	for _, f := range changed {
		if f.old == nil {
			continue
		}
		names = append(names, fmt.Sprintf("%q", f.path))
		app.Term.Note("%s differs:", f.path)
		for _, line := range signs.ChangedLines(f.old, f.content) {
			app.Term.Note("    %s", line)
		}
	}
	if len(names) == 0 || dry {
		return nil
	}
	return app.Confirm(ctx, "replace "+strings.Join(names, " and ")+"?")
}

// repository returns the root of the repository that contains a project, and the project's directory in it. The
// root is the project or the nearest directory above it with .git; without one, it is the project.
func repository(project string) (root, dir string, err error) {
	for root = project; ; root = filepath.Dir(root) {
		if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return project, ".", nil
		}
	}
	rel, err := filepath.Rel(root, project)
	dir = filepath.ToSlash(rel)
	if err == nil && !regexp.MustCompile(`^[A-Za-z0-9._/-]+$`).MatchString(dir) {
		err = fault.New(fault.Validation, "the project's directory %q contains characters other than letters, digits "+
			"and ._-/", dir)
	}
	return root, dir, err
}
