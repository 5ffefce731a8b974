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
)

// pipelines is the directory of the library's files for other services.
const pipelines = "tools/rye/core/pipelines"

// maxPipeline bounds a file that may be replaced.
const maxPipeline = 1 << 20

// A serviceFile is a file by which another service runs rye. It stands at the root of the repository.
type serviceFile struct {
	path, what string // the path is from the root
	template   string // in the library
	mark       string // of a file that others write to as well: it stays, and has this once ours was added

	content, old []byte // old is nil for no file
}

// serviceFiles are the files of each service.
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

// pipeline writes the files of a service. A file that differs is shown, and replaced only after a yes.
func (c *initRun) pipeline(ctx context.Context, a *cli.App, ans *initAnswer) error {
	root, dir, err := repository(ans.Dir)
	if err != nil {
		return err
	}
	changed, err := changedFiles(a, c.CI, root, dir)
	if err != nil {
		return err
	}
	for _, f := range changed {
		ans.Written, ans.Commit = append(ans.Written, initLine{f.path, f.what}), append(ans.Commit, f.path)
	}
	if len(changed) == 0 {
		a.Term.Note("the files for %s are up to date", c.CI)
	}
	if err := confirmReplace(ctx, a, changed, c.DryRun); err != nil || c.DryRun {
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
	return nil
}

// changedFiles returns the files of a service that are missing or differ.
func changedFiles(a *cli.App, service, root, dir string) (changed []serviceFile, err error) {
	for _, f := range serviceFiles[service] {
		template, err := fs.ReadFile(std.FS(), pipelines+"/"+f.template)
		if err != nil {
			return nil, err
		}
		f.content = []byte(filled(dir).Replace(string(template)))
		at := filepath.Join(root, filepath.FromSlash(f.path))
		if err := osfile.RefuseLinks(at, root); err != nil {
			return nil, err
		}
		f.old, err = osfile.ReadSmall(at, maxPipeline)
		missing := errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing {
			return nil, err
		}
		if !missing && f.old == nil {
			f.old = []byte{}
		}
		theirs := f.mark != "" && !missing && !bytes.HasPrefix(f.old, []byte(`# Written by "rye init`))
		switch {
		case bytes.Equal(f.old, f.content) || theirs && bytes.Contains(f.old, []byte(f.mark)):
		case theirs:
			a.Term.Note("%q is there: add to it", f.path)
			for line := range strings.Lines(string(f.content)) {
				a.Term.Note("    %s", strings.TrimSuffix(line, "\n"))
			}
		default:
			changed = append(changed, f)
		}
	}
	return changed, nil
}

// filled puts this rye's version and the project's directory in the repository into a file of the library.
func filled(dir string) *strings.Replacer {
	version, flag, prefix := "latest", "", ""
	if v := cli.ThisVersion().Version; paths.IsRelease(v) {
		version = "v" + strings.TrimPrefix(v, "v")
	}
	if dir != "." {
		at := dir
		if strings.HasPrefix(dir, "-") {
			at = "./" + dir // else it is a flag
		}
		flag, prefix = "-C "+at+" ", regexp.QuoteMeta(dir)+"/"
	}
	return strings.NewReplacer("<<version>>", version, "<<directory>>", dir, "<<-C>>", flag, "<<prefix>>", prefix)
}

// confirmReplace asks whether files that exist may be replaced.
func confirmReplace(ctx context.Context, a *cli.App, changed []serviceFile, dry bool) error {
	var names []string
	for _, f := range changed {
		if f.old == nil {
			continue
		}
		names = append(names, fmt.Sprintf("%q", f.path))
		a.Term.Note("%s differs:", f.path)
		for _, line := range signs.ChangedLines(f.old, f.content) {
			a.Term.Note("    %s", line)
		}
	}
	if len(names) == 0 || dry {
		return nil
	}
	return a.Confirm(ctx, "replace "+strings.Join(names, " and ")+"?")
}

// repository returns the root of the repository that a project is in, and the project's directory in it. The root is
// the nearest directory above the project that holds .git, else the project.
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
		err = fault.New(fault.Validation, "the project's directory %q can't be written into these files: "+
			"it has other characters than letters, digits, and ._-/", dir)
	}
	return root, dir, err
}
