package initcmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

type initRun struct {
	Dir    string `arg:"" optional:"" complete:"dir" help:"Directory; default: the working directory."`
	Owner  string `placeholder:"TEXT" help:"Owner of the first key."`
	DryRun bool   `help:"Show what would be written; write nothing."`
	CI     string `name:"ci" enum:",github,gitlab,pre-commit" default:"" blank:"" help:"Write files for github, gitlab or pre-commit."`
}

type initAnswer struct {
	Dir     string     `json:"dir"`
	Written []initLine `json:"written"` // files that were written, or would be
	Commit  []string   `json:"commit"`  // files that belong into version control
	Key     string     `json:"key"`     // fingerprint of the new key; empty without one
	DryRun  bool       `json:"dry_run"`
}

type initLine struct {
	Path string `json:"path"`
	What string `json:"what"`
}

func (i initAnswer) Text(term *cli.Terminal) {
	if len(i.Written) == 0 {
		return
	}
	verb := cli.DryVerb(i.DryRun, "wrote", "would write")
	var rows [][]string
	for _, w := range i.Written {
		rows = append(rows, []string{verb + " " + w.Path, w.What})
	}
	term.Rows(rows)
	if len(i.Commit) > 0 {
		term.Printf("commit %s\n", strings.Join(i.Commit, " "))
	}
}

const (
	maxGitFile   = 1 << 20
	starterName  = "project"
	starterNotes = `# A project of rye. "rye docs what-to-commit" says what to put into version control.

# Its name and version for others.
name: %s
version: 0.1.0

# The oldest version of rye that may work on it.
rye: %s
`
)

// GitLines returns the lines that a project needs in .gitattributes and .gitignore.
func GitLines() []gitFile {
	return []gitFile{
		{".gitattributes", []string{"rye.lock text eol=lf", "rye.yaml text eol=lf", ".ai/** -text"},
			"keeps git from changing signed bytes"},
		{".gitignore", []string{".ai/threads/", ".ai/outputs/"}, "ignores the results of runs"},
	}
}

// A gitFile is a file that git reads, the lines that belong in it, and their purpose.
type gitFile struct {
	File  string
	Lines []string
	what  string
}

func (c *initRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir, err := c.place(app)
	if err != nil {
		return nil, err
	}
	ans := &initAnswer{Dir: dir, Written: []initLine{}, Commit: []string{}, DryRun: c.DryRun}
	if outer := around(dir); outer != "" {
		app.Term.Note("the directory is inside the project %q", outer)
	}
	_, missing := os.Lstat(filepath.Join(dir, workspace.MarkerFile))
	if c.CI == "" || missing != nil {
		if err := c.checkHome(app); err != nil {
			return nil, err
		}
		if err := c.project(ctx, app, ans); err != nil {
			return nil, err
		}
	}
	for _, w := range ans.Written {
		if w.Path != workspace.MarkerDir+"/" {
			ans.Commit = append(ans.Commit, w.Path)
		}
	}
	if len(ans.Commit) > 0 {
		ans.Commit = append(ans.Commit, workspace.MarkerDir+"/")
	}
	created := len(ans.Written)
	if c.CI != "" {
		if err := c.pipeline(ctx, app, ans); err != nil || created == 0 {
			return ans, err
		}
	}
	err = c.identity(ctx, app, ans)
	switch {
	case err != nil:
		return ans, noHome(app, err).Because("the project was created; a key or a policy is missing")
	case len(ans.Written) == 0:
		app.Term.Note("%q is already a complete project", dir)
	case created > 0:
		there := app.Globals
		there.Project = cmp.Or(c.Dir, there.Project)
		app.Term.Note("next: %s", there.Placed("rye new tool acme/hello"))
	}
	return ans, nil
}

// place returns the directory that becomes a project. It refuses the root of the file system, the home directory and
// the directory of the user space.
func (c *initRun) place(app *cli.App) (string, error) {
	setting := app.Absolute(cli.Setting{Value: c.Dir})
	if setting.Err != nil {
		return "", setting.Err
	}
	search := workspace.Search{}
	if base := app.UserBase(); base.Err == nil {
		search.UserBase = base.Value
	}
	if fi, err := os.Stat(setting.Value); err == nil && !fi.IsDir() {
		return "", fault.New(fault.Validation, "%q is not a directory", setting.Value).On("path", setting.Value)
	}
	if filepath.Dir(setting.Value) == setting.Value {
		return "", fault.New(fault.Config, "%q is the root of the file system and can't be a project", setting.Value).
			Because("everything on this machine would be in it").Try("mkdir PROJECT", "rye init PROJECT")
	}
	if home := app.Home(); search.UserBase != home.Value && home.Err == nil &&
		(workspace.Search{UserBase: home.Value}).IsUserBase(setting.Value) {
		return "", fault.New(fault.Config, "%q is the home directory and can't be a project", setting.Value).
			Because("everything in it, keys included, would be part of the project").
			Try("mkdir PROJECT", "rye init PROJECT")
	}
	if search.IsUserBase(setting.Value) {
		return "", fault.New(fault.Config, "%q holds the user space and can't be a project", setting.Value).
			Try("mkdir PROJECT", "rye init PROJECT")
	}
	return setting.Value, nil
}

// around returns the project with rye.yaml that contains a directory, or "". A project within another is often a
// mistake.
func around(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	near := filepath.Dir(dir)
	for near != filepath.Dir(near) {
		if _, err := os.Lstat(near); err == nil {
			break
		}
		near = filepath.Dir(near)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return "" // a repository ends the search for a project
	}
	p, err := workspace.Search{AnyOwner: true}.Find(near)
	if err != nil || p.Marker != workspace.MarkerFile {
		return ""
	}
	return p.Root
}

// A starting is a file to create, or to extend by lines.
type starting struct {
	name, what string
	content    []byte
	exclusive  bool // the file doesn't exist yet
}

// project writes the missing files of a project. It reads everything before it writes anything.
func (c *initRun) project(ctx context.Context, a *cli.App, ans *initAnswer) error {
	if !c.DryRun {
		if err := os.MkdirAll(ans.Dir, 0o777); err != nil {
			return noPlace(ans.Dir, err)
		}
		unlock, err := paths.Hold(ctx, a, ans.Dir)
		if err != nil {
			return err
		}
		defer unlock()
	}
	hasAI, err := osfile.IsDir(filepath.Join(ans.Dir, workspace.MarkerDir))
	if err != nil {
		return err
	}
	files, err := missingFiles(ans.Dir, hasAI)
	if err != nil {
		return err
	}
	if !hasAI {
		ans.Written = append(ans.Written, initLine{workspace.MarkerDir + "/",
			"the project's directives, tools, knowledge and config"})
	}
	for _, f := range files {
		ans.Written = append(ans.Written, initLine{f.name, f.what})
	}
	if c.DryRun || len(ans.Written) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(ans.Dir, workspace.MarkerDir), 0o777); err != nil {
		return noPlace(filepath.Join(ans.Dir, workspace.MarkerDir), err)
	}
	d, err := osfile.OpenDir(ans.Dir, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, f := range files {
		mode := fs.FileMode(0o644)
		if fi, err := os.Lstat(d.Where(f.name)); err == nil {
			mode = fi.Mode().Perm()
		}
		if err := d.Write(f.name, mode, f.exclusive, f.content); err != nil {
			return err
		}
	}
	return nil
}

// missingFiles returns the files to write: missing ones, and those that lack lines. It includes an empty lock only
// for a new project, because an existing .ai may have items that rye lock must pin.
func missingFiles(dir string, hasAI bool) ([]starting, error) {
	read := func(string) ([]byte, error) { return nil, nil }
	if ok, err := osfile.IsDir(dir); err != nil {
		return nil, err
	} else if ok {
		d, err := osfile.OpenDir(dir, 0o777)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		read = func(name string) ([]byte, error) { return d.Read(name, maxGitFile) }
	}
	var files []starting
	old, err := read(workspace.MarkerFile)
	if err != nil {
		return nil, err
	}
	if old == nil {
		files = append(files, starting{workspace.MarkerFile, "the project's name, and what it needs",
			[]byte(Starter(dir)), true})
	}
	lock, err := read(lockfile.Name)
	if err != nil {
		return nil, err
	}
	if old == nil && lock == nil && !hasAI {
		empty, err := lockfile.Append(nil, new(lockfile.Lock))
		if err != nil {
			return nil, err
		}
		files = append(files, starting{lockfile.Name, "the lock: the items that may run, none so far", empty, true})
	}
	for _, g := range GitLines() {
		old, err := read(g.File)
		if err != nil {
			return nil, err
		}
		if b := WithLines(old, g.Lines); !bytes.Equal(b, old) {
			files = append(files, starting{g.File, g.what, b, old == nil})
		}
	}
	return files, nil
}

// Starter returns the rye.yaml of a new project. It takes the name from the directory.
func Starter(dir string) string {
	name := cmp.Or(key.Slug(strings.ReplaceAll(filepath.Base(dir), ".", "-")), starterName)
	least := "0.0.0" // any version, because this binary is not a release
	if v := cli.ThisVersion().Version; paths.IsRelease(v) {
		least = v
	}
	// In quotes, because a name may look like a number.
	return fmt.Sprintf(starterNotes, `"`+name+`"`, `"`+least+`"`)
}

// WithLines returns a file with the missing ones of lines appended. It keeps CRLF line ends.
func WithLines(file []byte, lines []string) []byte {
	end := "\n"
	if bytes.Contains(file, []byte("\r\n")) {
		end = "\r\n"
	}
	present := strings.Split(strings.ReplaceAll(string(file), "\r\n", "\n"), "\n")
	for i := range present {
		present[i] = strings.Join(strings.Fields(present[i]), " ")
	}
	out := slices.Clone(file)
	for _, line := range lines {
		if slices.Contains(present, line) {
			continue
		}
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, end...)
		}
		out = append(out, line+end...)
	}
	return out
}

// lacking is the part of a user's identity that init creates: nothing if --trust or RYE_TRUST replaces the policy, and
// no key if RYE_KEY is set.
type lacking struct {
	root        workspace.Place
	keys        key.Dir
	key, policy bool
}

func findLacking(app *cli.App) (lacks lacking, err error) {
	lacks.root = paths.Paths(app).RootPolicyFile()
	if lacks.root.Err != nil || lacks.root.Origin != "user" {
		return lacks, lacks.root.Err
	}
	if lacks.keys, err = paths.KeysDir(app); err != nil {
		return lacks, err
	}
	stored, err := lacks.keys.List()
	if err != nil {
		return lacks, err
	}
	au, err := paths.Paths(app).RootPolicy()
	if err != nil {
		return lacks, err
	}
	lacks.key = len(stored) == 0 && app.Env(cli.EnvKey) == ""
	lacks.policy = au.File == nil && (lacks.key || len(stored) > 0)
	return lacks, nil
}

// checkHome fails if a key or a policy is missing and can't be written, before anything else is.
func (c *initRun) checkHome(app *cli.App) error {
	lacks, err := findLacking(app)
	if err == nil && !c.DryRun && (lacks.key || lacks.policy) {
		if err = os.MkdirAll(cli.UserSpace(app.UserBase()).Value, 0o700); err == nil {
			err = probe("user space", cli.UserSpace(app.UserBase()).Value)
		}
	}
	if err != nil {
		return noHome(app, err).Because("nothing was written")
	}
	return nil
}

// identity creates a key and a policy if the user has none.
func (c *initRun) identity(ctx context.Context, app *cli.App, ans *initAnswer) error {
	lacks, err := findLacking(app)
	if err != nil || !lacks.key && !lacks.policy {
		return err
	}
	if !c.DryRun && app.Env(cli.EnvKey) == "" {
		unlock, err := paths.AloneAtHome(ctx, app)
		if err != nil {
			return err
		}
		defer unlock()
		if lacks, err = findLacking(app); err != nil { // another process may have created them meanwhile
			return err
		}
	}
	space := cli.UserSpace(app.UserBase()).Value
	switch {
	case lacks.key:
		ans.Written = append(ans.Written, initLine{filepath.Join(space, "keys"), "your signing key"})
		if lacks.policy {
			ans.Written = append(ans.Written, initLine{lacks.root.Path, "your policy, which trusts that key"})
		}
		if c.DryRun {
			return nil
		}
		created, err := (&trusts.KeyNewRun{Name: key.DefaultName, Owner: c.Owner}).Make(ctx, app, "")
		if err != nil {
			ans.Written = slices.DeleteFunc(ans.Written, func(l initLine) bool { return filepath.IsAbs(l.Path) })
			return err
		}
		ans.Key = created.(trusts.KeyNewAnswer).Key.Fingerprint
	case lacks.policy:
		name, err := lacks.keys.Default()
		if err != nil {
			return err
		}
		p, err := lacks.keys.Public(name)
		if err != nil {
			return trusts.NoKey(app, name, err)
		}
		ans.Written = append(ans.Written, initLine{lacks.root.Path,
			fmt.Sprintf("your policy, which trusts the key %q", name)})
		if c.DryRun {
			return nil
		}
		if _, err := trusts.TrustFirst(ctx, app, policy.Key{Name: name, Public: p, Owner: c.Owner}); err != nil {
			ans.Written = ans.Written[:len(ans.Written)-1]
			return err
		}
	}
	return nil
}

// noHome says that the user space is unwritable, and adds the hint to use another one.
func noHome(app *cli.App, err error) *fault.Error {
	f := fault.Of(err)
	if f.Code != fault.Files {
		return f
	}
	if len(f.Why) == 0 {
		f.Because(f.Text)
	}
	f.Text = fmt.Sprintf("the user space %q can't be written to", cli.UserSpace(app.UserBase()).Value)
	return f.Try(`USER_SPACE="$(mktemp -d)" rye ` + cli.JoinArgs(app.Args))
}

// noPlace says that a directory of the project can't be created. Some file systems, such as /proc, answer that it
// isn't found.
func noPlace(dir string, err error) *fault.Error {
	f := fault.Of(err)
	f.Text, f.Exit = fmt.Sprintf("can't create the directory %q", dir), fault.ExitNo
	if len(f.Why) == 0 {
		f.Because("the file system lets no directory be created there")
	}
	return f.Try("mkdir PROJECT", "rye init PROJECT")
}
