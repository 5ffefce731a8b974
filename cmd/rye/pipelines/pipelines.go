// Package pipelines writes the files by which other services run rye: a GitHub Action with its workflow, a GitLab job,
// and the hooks of pre-commit.
//
// They stand at the root of the repository: the nearest directory above the project that holds .git, else the project.
// A file that is there and differs is shown, and replaced only after a yes. A step's exit status is rye's: steps run
// under "bash -eo pipefail", and a report that is written to a file hides none.
package pipelines

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
)

//go:embed templates
var templates embed.FS

// A File is one that a service reads.
type File struct {
	Path string // from the repository's root
	What string

	template string
	content  []byte
	mark     string // others write to it too: what is there stays, and has this once ours was added
	old      []byte
}

// maxFile bounds a file that may be replaced.
const maxFile = 1 << 20

// filesOf returns the files of a service.
func filesOf(service string) []File {
	switch service {
	case "github":
		return []File{
			{Path: ".github/actions/rye/action.yml", What: "the steps, as an action", template: "action.yml"},
			{Path: ".github/workflows/rye.yml", What: "the workflow that runs them", template: "workflow.yml"},
		}
	case "gitlab":
		return []File{
			{Path: ".gitlab/rye.yml", What: "the jobs", template: "gitlab.yml"},
			{Path: ".gitlab-ci.yml", What: "includes them", template: "include.yml", mark: ".gitlab/rye.yml"},
		}
	}
	return []File{{Path: ".pre-commit-config.yaml", What: "the hooks", template: "pre-commit.yml",
		mark: "id: rye-lock-check"}}
}

// Write writes the files of a service for a project, and returns those that it wrote or would write.
func Write(ctx context.Context, a *cli.App, service, project string, dry bool) ([]File, error) {
	root, dir, err := repository(project)
	if err != nil {
		return nil, err
	}
	version := "latest"
	if v := cli.ThisVersion().Version; paths.IsRelease(v) {
		version = "v" + strings.TrimPrefix(v, "v")
	}
	values := struct{ Version, Dir, Place, Files string }{version, dir, "", `^(rye\.(yaml|lock)|\.ai/)`}
	if dir != "." {
		at := dir
		if strings.HasPrefix(dir, "-") {
			at = "./" + dir // else it is a flag
		}
		values.Place, values.Files = "-C "+at+" ", "^"+regexp.QuoteMeta(dir)+`/(rye\.(yaml|lock)|\.ai/)`
	}
	var changed []File
	for _, f := range filesOf(service) {
		var b bytes.Buffer
		t := template.Must(template.New(f.template).Delims("<<", ">>").ParseFS(templates, "templates/"+f.template))
		if err := t.Execute(&b, values); err != nil {
			return nil, err
		}
		f.content = b.Bytes()
		if f.old, err = read(root, f.Path); err != nil {
			return nil, err
		}
		theirs := f.mark != "" && f.old != nil && !bytes.HasPrefix(f.old, []byte(`# Written by "rye init`))
		switch {
		case bytes.Equal(f.old, f.content) || theirs && bytes.Contains(f.old, []byte(f.mark)):
			continue
		case theirs:
			a.Term.Note("%q is there: add to it", f.Path)
			for line := range strings.Lines(string(f.content)) {
				a.Term.Note("    %s", strings.TrimSuffix(line, "\n"))
			}
			continue
		}
		changed = append(changed, f)
	}
	if err := replace(ctx, a, changed, dry); err != nil || dry {
		return changed, err
	}
	for _, f := range changed {
		if err := write(root, f); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// replace asks whether files that are there may be replaced.
func replace(ctx context.Context, a *cli.App, changed []File, dry bool) error {
	var names []string
	for _, f := range changed {
		if f.old == nil {
			continue
		}
		names = append(names, fmt.Sprintf("%q", f.Path))
		a.Term.Note("%s differs:", f.Path)
		for _, line := range signs.ChangedLines(f.old, f.content) {
			a.Term.Note("    %s", line)
		}
	}
	if len(names) == 0 || dry {
		return nil
	}
	return a.Confirm(ctx, "replace "+strings.Join(names, " and ")+"?")
}

// repository returns the root of the repository that a project is in, and the project's directory in it.
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
	if dir = filepath.ToSlash(rel); err == nil && !regexp.MustCompile(`^[A-Za-z0-9._/-]+$`).MatchString(dir) {
		err = fault.New(fault.Validation,
			"the project's directory %q can't be written into these files: it has other characters than letters, digits, and ._-/",
			dir)
	}
	return root, dir, err
}

// read returns a file of the repository; nil if there is none. A link on the way is refused.
func read(root, name string) ([]byte, error) {
	at := root
	for part := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, part)
		fi, err := os.Lstat(at)
		switch {
		case os.IsNotExist(err):
			return nil, nil
		case err != nil:
			return nil, err
		case fi.Mode()&fs.ModeSymlink != 0:
			return nil, fault.New(fault.Denied, "%q is a symbolic link, and is not followed", at).On("path", at)
		}
	}
	b, err := osfile.ReadSmall(at, maxFile)
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

func write(root string, f File) error {
	dir := filepath.Join(root, filepath.FromSlash(path.Dir(f.Path)))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	d, err := osfile.OpenDir(dir, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Write(path.Base(f.Path), 0o644, f.old == nil, f.content)
}
