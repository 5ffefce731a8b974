package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/exchange"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/discover"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/adopt"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/restore"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
)

// This file has the commands that edit rye.yaml or the versions in use: add, remove, update and outdated.

type addRun struct {
	Name     string   `arg:"" help:"Bundle's id, ID@RANGE, archive, directory or address, or an item's ref."`
	What     string   `arg:"" optional:"" help:"What a host or server offers; without it that is listed."`
	All      bool     `help:"Add all skills of an MCP server."`
	As       string   `default:"skills" placeholder:"CATEGORY" help:"Category of skills' items (default: skills)."`
	From     string   `placeholder:"PLACE" complete:"file" help:"Directory, archive, URL, git+https: or oci:// repository of this bundle."`
	Index    string   `placeholder:"PLACE" complete:"file" help:"Directory or URL of an index of versions."`
	Registry string   `placeholder:"URL" help:"Registry of the bundle; rye.yaml keeps its keys."`
	Sign     []string `placeholder:"REF" complete:"own" help:"Sign this item, which uses the bundle, first (repeatable)."`
	Strict   bool     `help:"Refuse an unsigned plugin with parts that break a rule."`
	allowFlags
	changeFlags
	trusts.KeyFlag

	host     string           // that the user has typed, if it has chosen the source's address
	archives sources.Archives // of all locks that the command opens
}

// changeFlags are the flags of every command that changes rye.yaml or the versions in use.
type changeFlags struct {
	Accept []string `placeholder:"NAME" complete:"locked" help:"Allow this item or bundle to weaken the lock (repeatable)."`
	DryRun bool     `name:"dry-run" help:"Show what would change; write nothing."`
}

// changeAnswer is the result of a command that changes rye.yaml and the lock.
type changeAnswer struct {
	Bundle string `json:"bundle"`
	Root   string `json:"root,omitempty"` // an item that became a root, or no longer is one
	Range  string `json:"range"`          // empty: removed
	Source string `json:"source"`
	Edited bool   `json:"edited"` // rye.yaml has changed
	// Of a server that only was asked.
	Offered []*discover.Found `json:"offered,omitempty"`
	// An MCP server that was added, or would be.
	Server *catalogs.Added `json:"server,omitempty"`
	// Of skills that were added, or would be.
	Skills []adopt.Skill `json:"skills,omitempty"`
	*LockAnswer

	plugins []*unsignedPlugin // for LockAnswer, which is made later
}

func (c *changeAnswer) Text(t *cli.Terminal) {
	printOffered(t, c.Offered)
	exchange.PrintSkills(t, c.Skills, c.DryRun)
	switch {
	case c.Server != nil:
		c.Server.Text(t)
	case len(c.Skills) > 0:
	case c.Edited && c.Root != "":
		t.Printf("%s  %s\n", cli.DryVerb(c.DryRun, "adds the root", "would add the root"), c.Root)
	case c.Edited && c.Range != "":
		t.Printf("%s  %s %s  from %s\n", cli.DryVerb(c.DryRun, "requires", "would require"), c.Bundle, c.Range,
			c.Source)
	case c.Edited:
		t.Printf("%s  %s\n", cli.DryVerb(c.DryRun, "no longer requires", "would no longer require"), c.Bundle)
	}
	c.LockAnswer.Text(t)
}

func (c *addRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	defer closeArchives(a, &c.archives)
	ans, err := signs.Meet(ctx, a, c.From+c.Index, nil, func() (cli.Answer, error) { return c.add(ctx, a) })
	if offline, ok := errors.AsType[*sources.OfflineError](err); ok {
		f := fault.Of(offline)
		f.Hint = []string{a.Online()} // rye fetch brings only what is locked
		return ans, f
	}
	return ans, err
}

func (c *addRun) add(ctx context.Context, a *cli.App) (cli.Answer, error) {
	switch {
	case discover.IsServer(c.Name), discover.IsHost(c.Name):
		if err := c.refuse(c.Name + " is a server or a host"); err != nil {
			return nil, err
		}
		if discover.IsServer(c.Name) {
			return c.fromServer(ctx, a)
		}
		return c.fromHost(ctx, a)
	}
	if c.What != "" || c.All {
		return nil, fault.New(fault.Validation, "%q is not a server whose offers have names", c.Name).
			Try("rye help add")
	}
	lock, unlock, err := openForEdit(ctx, a)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() { lock.Close() }()
	lock.Archives = &c.archives
	placed := false
	switch {
	case oci.IsReference(c.Name), find.IsPath(c.Name), strings.Contains(c.Name, "://"):
		if err := c.place(ctx, lock); err != nil {
			return nil, err
		}
		placed = true
	case strings.Contains(c.Name, ":"):
		return c.item(ctx, lock)
	}
	id, versions, hasRange := strings.Cut(c.Name, "@")
	if c.Registry != "" {
		if err := c.meetRegistry(ctx, lock, id); err != nil {
			return nil, err
		}
	}
	src, err := c.source(lock, id)
	if err != nil {
		return nil, err
	}
	ans, undo := &changeAnswer{Bundle: id, Source: src.Where}, func() error { return nil }
	if strings.HasPrefix(id, pluginIDs) && !src.Index {
		if old, known := lock.Yaml.Requirement(id); placed && known && old.Source != src {
			return nil, otherPlugin(id, old.Source, src)
		}
		typed := lock.Typed
		if err := lock.Open(); err != nil {
			return nil, err
		}
		var taken *adoption
		run := &lockRun{DryRun: c.DryRun, KeyFlag: c.KeyFlag, pins: true}
		if taken, undo, err = run.takePlugin(ctx, lock, id, src, c.Strict); err != nil {
			return nil, err
		}
		if taken != nil {
			if ans.plugins = []*unsignedPlugin{taken.ans}; !hasRange {
				versions, hasRange = rangeOf(taken.found), true
			}
			if ans.Range = versions; c.DryRun {
				ans.LockAnswer = newLockAnswer(run)
				ans.Plugins = ans.plugins
				return ans, nil
			}
			again, err := openEdited(a) // the policy may have changed
			if err != nil {
				return nil, errors.Join(err, undo())
			}
			lock.Close()
			lock = again
			lock.Typed, lock.Archives = typed, &c.archives
			for _, root := range pluginRoots(id) {
				if err := addGlob(lock, root); err != nil {
					return nil, errors.Join(err, undo())
				}
			}
		}
	}
	if err := c.require(ctx, lock, ans, id, versions, hasRange, src); err != nil {
		if undo != nil {
			err = errors.Join(err, undo())
		}
		if ans.LockAnswer == nil { // there is no lock yet
			return nil, err
		}
		return ans, err
	}
	return ans, c.pinTools(ctx, lock.App, ans)
}

// require adds a requirement and locks it.
func (c *addRun) require(ctx context.Context, lock *paths.Lock, ans *changeAnswer, id, versions string, hasRange bool,
	src ryeyaml.Source) error {
	if !hasRange { // any version will do until the newest is known
		versions = "*"
	}
	need, err := ryeyaml.NewRequirement(id, versions, src)
	if err != nil {
		return badRequirement(c.Name, err)
	}
	if lock.Yaml, err = lock.Yaml.Add(need); err != nil {
		return badRequirement(c.Name, err)
	}
	if err := lock.Open(); err != nil {
		return err
	}
	if !hasRange {
		if versions, err = compatible(ctx, lock, id, src); err != nil {
			return err
		}
		if lock.Yaml, err = lock.Yaml.SetVersion(id, versions); err != nil {
			return err
		}
	}
	ans.Range = versions
	err = c.change(ctx, lock, ans, &lockRun{Sign: len(c.Sign) > 0, Names: c.Sign, KeyFlag: c.KeyFlag,
		allow: c.allow(id)})
	if err == nil {
		noteFixed(lock, id, src)
		noteRights(lock, ans.Rights)
	}
	return err
}

// noteFixed tells that no update of a bundle can come from its source, and what would follow new versions.
func noteFixed(l *paths.Lock, id string, src ryeyaml.Source) {
	fixed, follow := sources.Fixed(src)
	switch {
	case fixed && follow != "":
		l.App.Term.Note("%s stays as it is: %q names one version; to follow new ones, run %s", id, src.Where,
			fault.Command("rye add", follow))
	case fixed:
		l.App.Term.Note("%s stays as it is: %q names one version; rye docs sources lists those that follow new ones",
			id, src.Where)
	}
}

// item adds an item to the roots.
func (c *addRun) item(ctx context.Context, lock *paths.Lock) (cli.Answer, error) {
	ref, err := model.ParseRef(c.Name)
	if err == nil {
		err = c.refuse(ref.String() + " is an item")
	}
	if err == nil && c.From+c.Index != "" {
		err = fault.New(fault.Validation, "--from and --index are for bundles, and %s is an item", ref)
	}
	if err == nil {
		lock.Yaml, err = lock.Yaml.AddRoot(ref.String())
	}
	if err == nil {
		err = lock.Open()
	}
	if err != nil {
		return nil, err
	}
	ans := &changeAnswer{Root: ref.String()}
	return ans, c.change(ctx, lock, ans, &lockRun{Sign: len(c.Sign) > 0, Names: c.Sign, KeyFlag: c.KeyFlag})
}

// source returns the bundle's source: from the flags, else from rye.yaml.
func (c *addRun) source(lock *paths.Lock, id string) (ryeyaml.Source, error) {
	old, known := lock.Yaml.Requirement(id)
	switch {
	case c.From != "" && c.Index != "":
		return old.Source, fault.New(fault.Validation, "--from and --index can't be combined: a bundle has one source")
	case c.From == "" && c.Index == "" && c.Registry == "" && known:
		return old.Source, nil
	case c.From == "" && c.Index == "":
		return inRegistry(lock, id)
	}
	src, err := parseSource(lock, c.From+c.Index, c.Index != "")
	if host := cmp.Or(c.host, src.Host()); host != "" {
		lock.Typed = append(lock.Typed, host)
	}
	return src, err
}

// parseSource returns a source as rye.yaml has it, with local paths relative to the project.
func parseSource(lock *paths.Lock, where string, index bool) (ryeyaml.Source, error) {
	ref, err := oci.ParseReference(where)
	switch layout := strings.HasPrefix(where, oci.LayoutScheme); {
	case layout && err != nil:
		return ryeyaml.Source{}, err
	case layout:
		if ref.Dir, err = relative(lock, ref.Dir); err != nil {
			return ryeyaml.Source{}, err
		}
		where = ref.String()
	case !strings.Contains(where, "://"):
		if where, err = relative(lock, where); err != nil {
			return ryeyaml.Source{}, err
		}
	}
	return ryeyaml.ParseSource(where, index)
}

// place sets the bundle's id and source from a place given instead of the id.
func (c *addRun) place(ctx context.Context, lock *paths.Lock) error {
	if c.From+c.Index != "" {
		return fault.New(fault.Validation, "%q is a source: it can't be combined with --from or --index", c.Name)
	}
	c.From = c.Name
	src, err := c.source(lock, "")
	if err != nil {
		return err
	}
	if err := lock.Open(); err != nil {
		return err
	}
	c.Name, err = lock.Sources.Named(ctx, src)
	return errors.Join(err, lock.Sources.Close())
}

// relative returns a path as rye.yaml has it: relative to the project.
func relative(l *paths.Lock, where string) (string, error) {
	setting := l.App.Absolute(cli.Setting{Value: where})
	if setting.Err != nil {
		return "", setting.Err
	}
	dir, err := filepath.EvalSymlinks(l.Dir)
	if err != nil {
		return "", err
	}
	if to, err := filepath.EvalSymlinks(setting.Value); err == nil {
		setting.Value = to
	} else if errors.Is(err, fs.ErrNotExist) {
		return "", errNotFound(where, setting.Value)
	}
	rel, err := filepath.Rel(dir, setting.Value)
	if err != nil {
		return "", fault.New(fault.Validation, "%q has no path relative to the project", where).From(err)
	}
	return filepath.ToSlash(rel), nil
}

// errNotFound returns the error for a missing path, and suggests similar names in its directory.
func errNotFound(where, path string) *fault.Error {
	failure := fault.New(fault.NotFound, "%q does not exist", where).From(fs.ErrNotExist).Try("rye docs sources").
		On("path", path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if similar := suggest.Names(filepath.Base(path), names); len(similar) > 0 {
		for i, name := range similar {
			similar[i] = filepath.Join(filepath.Dir(where), name)
		}
		failure.Why = []string{"did you mean " + strings.Join(similar, ", ") + "?"}
		failure.Details["did_you_mean"] = similar
	}
	return failure
}

// badRequirement adds the argument to err, and a hint with a range if the id is valid.
func badRequirement(text string, err error) error {
	id, _, _ := strings.Cut(text, "@")
	f := fault.New(fault.Validation, "%q: %s", text, err).From(err).On("bundle", text)
	if portable.CheckID(id) == nil && id != lock.Library { // no range helps against an invalid id
		f.Hint = []string{"rye add " + fault.Quote(id+"@^1.2")}
	}
	return f
}

// compatible returns the range of the newest version and of the versions compatible with it. A source that names one
// version gives the range of that one: no other can come from it.
func compatible(ctx context.Context, l *paths.Lock, id string, src ryeyaml.Source) (string, error) {
	all, err := l.Sources.Versions(ctx, id)
	if err != nil {
		return "", err
	}
	versions := make([]string, len(all))
	for i, v := range all {
		versions[i] = v.Version
	}
	newest := manifest.NewestVersion(versions)
	if newest == "" {
		return "", fault.New(fault.NotFound, "%q has no version of %q", src.Where, id).From(fs.ErrNotExist)
	}
	version, _, _ := strings.Cut(newest, "+")
	if fixed, _ := sources.Fixed(src); fixed {
		return "=" + version, nil
	}
	return "^" + version, nil
}

// openForEdit opens the project to change its rye.yaml. Other processes wait until unlock is called.
func openForEdit(ctx context.Context, a *cli.App) (*paths.Lock, func(), error) {
	unlock, err := paths.Alone(ctx, a, false)
	if err != nil {
		return nil, nil, err
	}
	l, err := openEdited(a)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return l, unlock, nil
}

// openEdited is openForEdit for a caller that has the project alone.
func openEdited(a *cli.App) (*paths.Lock, error) {
	l, err := paths.OpenLock(a, false)
	if err == nil && l.Root.Marker != workspace.MarkerFile {
		l.Yaml, err = ryeyaml.Parse(nil, paths.Running()) // start an empty rye.yaml
	}
	return l, err
}

// change makes the lock for the changed rye.yaml and writes both. rye.yaml is written first, so that rye lock
// --check finds the lock outdated after a crash.
func (c *changeFlags) change(ctx context.Context, lock *paths.Lock, ans *changeAnswer, run *lockRun) error {
	before, err := osfile.ReadSmall(filepath.Join(lock.Dir, workspace.MarkerFile), workspace.MaxProject)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	after := lock.Yaml.Format()
	edited := string(before) != string(after)
	run.Accept, run.DryRun = c.Accept, c.DryRun
	if edited {
		run.yaml = after
	}
	ans.LockAnswer = newLockAnswer(run)
	ans.Plugins = ans.plugins
	_, err = run.make(ctx, lock, ans.LockAnswer)
	edited = edited || ans.Yaml != nil
	ans.Edited = ans.LockAnswer.Edited || err == nil && edited // a dry run reports the edit too
	return err
}

type removeRun struct {
	Names []string `arg:"" name:"name" complete:"required" help:"Bundles' ids in rye.yaml, or roots."`
	changeFlags
}

func (c *removeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	lock, unlock, err := openForEdit(ctx, a)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer lock.Close()
	var plugins []string
	for _, name := range c.Names {
		remove := lock.Yaml.Remove
		if strings.ContainsAny(name, ":*") || name == ryeyaml.Own {
			remove = lock.Yaml.RemoveRoot
		}
		if lock.Yaml, err = remove(name); err != nil {
			return nil, err
		}
		if strings.HasPrefix(name, pluginIDs) || lock.Old != nil && lock.Old.Bundle(name) != nil {
			plugins = append(plugins, name)
		}
	}
	undo, err := c.removePlugins(ctx, lock, plugins)
	if err != nil {
		return nil, err
	}
	if err := lock.Open(); err != nil {
		return nil, errors.Join(err, undo())
	}
	ans := &changeAnswer{Bundle: strings.Join(c.Names, " ")}
	if err = c.change(ctx, lock, ans, &lockRun{}); err != nil {
		err = errors.Join(err, undo())
	} else if lock.Old != nil {
		for _, id := range plugins {
			if old := lock.Old.Bundle(id); old != nil {
				noteDigest(lock, old.Manifest.String())
			}
		}
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && len(ans.Problems) > 0 {
		c.explain(lock, ans, f)
	}
	return ans, err
}

// explain names what still needs a removed bundle. Roots can be removed by the same command.
func (c *removeRun) explain(l *paths.Lock, ans *changeAnswer, failure *fault.Error) {
	var roots []string
	for _, p := range ans.Problems {
		if slices.ContainsFunc(l.Yaml.Roots, func(r ryeyaml.Root) bool {
			return p.File == workspace.MarkerFile && r.Text == p.Ref
		}) {
			roots = append(roots, p.Ref)
		}
	}
	if len(roots) < len(ans.Problems) {
		failure.Hint = []string{fault.Command("rye why", c.Names[0])}
		return
	}
	failure.Text = fmt.Sprintf("%s still names %s among its roots", workspace.MarkerFile, strings.Join(roots, " and "))
	failure.Hint = []string{fault.Command("rye remove", slices.Concat(c.Names, roots)...)}
}

type updateRun struct {
	Bundles  []string `arg:"" optional:"" name:"bundle" complete:"required" help:"Bundles' ids."`
	Cooldown string   `placeholder:"TIME" help:"Leave out what registries published since then: 7d, 12h, or a date."`
	changeFlags
}

func (c *updateRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	run := &lockRun{Names: c.Bundles, Update: true, Accept: c.Accept, DryRun: c.DryRun}
	if c.Cooldown != "" {
		var err error
		if run.before, err = audits.ParseMoment("--cooldown", c.Cooldown, a.Now()); err != nil {
			return nil, err
		}
	}
	return run.Run(ctx, a)
}

type outdatedRun struct{}

type outdatedAnswer struct {
	Bundles []outdatedLine `json:"bundles"`
}

type outdatedLine struct {
	Bundle  string `json:"bundle"`
	Version string `json:"version"`
	Allowed string `json:"allowed"`
	Latest  string `json:"latest"`
}

func (o outdatedAnswer) Text(t *cli.Terminal) {
	if len(o.Bundles) == 0 {
		t.Note("all bundles are up to date with their sources")
		return
	}
	rows := [][]string{{"BUNDLE", "LOCKED", "ALLOWED", "LATEST"}}
	for _, b := range o.Bundles {
		rows = append(rows, []string{b.Bundle, b.Version, b.Allowed, b.Latest})
	}
	t.Rows(rows)
}

func (*outdatedRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	l, err := openLocked(a, true)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	choice, err := relock.Choose(ctx, restore.Request(ctx, l.Lock))
	if err != nil {
		return nil, err
	}
	for _, r := range l.Yaml.Requires {
		noteFixed(l, r.ID, r.Source)
	}
	ans, behind := outdatedAnswer{Bundles: []outdatedLine{}}, 0
	for _, n := range choice.Outdated() {
		ans.Bundles = append(ans.Bundles, outdatedLine{n.ID, n.Version, n.Allowed, n.Latest})
		if n.Allowed != n.Version {
			behind++
		}
	}
	changed, err := changedPlugins(ctx, l)
	if err != nil {
		return nil, err
	}
	ans.Bundles, behind = append(ans.Bundles, changed...), behind+len(changed)
	if behind == 0 {
		return ans, nil
	}
	f := fault.New(fault.VersionMismatch, "%s can be updated", fault.Count(int64(behind), "bundle")).Try("rye update")
	return ans, f.Answer()
}
