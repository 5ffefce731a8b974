package locks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/catalogs"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/exchange"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/lock/adopt"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
)

// This file takes an unsigned plugin into the project: it shows the plugin, asks whether to admit it by its digest and
// to sign what rye makes of it, and only then writes the policy's line and the items. A process that dies in between
// leaves a project that the same command completes.

// An unsignedPlugin describes an unsigned plugin that was taken into the project, or would be.
type unsignedPlugin struct {
	Bundle    string             `json:"bundle"`
	Version   string             `json:"version"`
	Manifest  string             `json:"manifest"` // what the policy's digests: admits
	Tree      string             `json:"tree"`
	Files     int                `json:"files"`
	Bytes     int64              `json:"bytes"`
	Skills    []string           `json:"skills"`
	Servers   []string           `json:"servers"`
	Scripts   []string           `json:"scripts"`
	LeftOut   []string           `json:"left_out"`
	Links     []string           `json:"links"` // symbolic links, which became the files that they lead to
	Problems  []plugin.Problem   `json:"problems"`
	Requires  []manifest.Require `json:"requires"`
	Changes   []string           `json:"changes"` // of the files, compared with what is locked
	Items     []string           `json:"items"`   // refs of what was made of it
	Admitted  bool               `json:"admitted"`
	DryRun    bool               `json:"dry_run"`
	wasLocked string             // its manifest in the lock before
}

// adoption is the state of taking one plugin.
type adoption struct {
	app    *cli.App
	lock   *paths.Lock
	key    trusts.KeyFlag
	strict bool
	dry    bool
	pins   bool // the command pins the tools of servers: those that a publisher doesn't pin, once the plugin is locked

	found *sources.Unsigned
	ans   *unsignedPlugin
	made  *parts.Made
}

// adopt takes the plugin of a requirement, if its source has an unsigned one: nil for any other. undo takes the
// items back. The policy may have changed: open the lock again.
func (c *adoption) adopt(ctx context.Context, id string, src ryeyaml.Source) (undo func() error, err error) {
	c.found, err = c.lock.Sources.Unsigned(ctx, id, src)
	if c.found == nil || err != nil {
		return nil, err
	}
	defer c.found.Close()
	if err := c.describe(ctx); err != nil {
		return nil, err
	}
	if err := c.problems(c.found.Plugin.Problems, nil); err != nil {
		return nil, err
	}
	c.say()
	entry, err := c.admit(ctx)
	if err != nil {
		return nil, err
	}
	files := &chain.Plugin{ID: c.found.BundleID, Files: c.found.Files, Bytes: c.lock.DiskStore(),
		Space: ai.Project.String(), Agreed: true}
	stage, err := catalogs.StageWith(ctx, c.app, func(context.Context, string) (*chain.Plugin, error) {
		return files, nil
	})
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	key, err := trusts.SigningKey(ctx, c.app, c.key.Key)
	if err != nil {
		return nil, err
	}
	writer, err := exchange.OpenWriter(ctx, c.app, c.dry)
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	signer := catalog.Key{Private: key.Private, Now: c.app.Clock}
	options := parts.Options{Plugin: c.found.Plugin, ID: c.found.BundleID, From: c.found.BundleID, Stage: stage,
		Old: writer.Bytes, Key: signer}
	if old := c.locked(); old != nil && old.Manifest == c.found.ID {
		options.Same = os.DirFS(c.lock.DotAI)
	}
	switch { // rye lock and rye update start no server
	case c.dry:
	case c.pins:
		options.List, options.Ask = catalogs.Lister(c.app, signer), catalogs.Each(c.app, catalogs.Asker(c.app, stage))
	default:
		options.List, options.Pinned = catalogs.Lister(c.app, signer), os.DirFS(c.lock.DotAI)
	}
	if c.made, err = parts.Make(ctx, options); err != nil {
		return nil, err
	}
	for _, server := range c.made.Servers {
		if server.State == parts.Unpinned && !c.dry && !(c.pins && parts.Unasked(server.Spec) != "") {
			c.app.Term.Note("%s: its tools aren't pinned yet; next: %s", server.Item.Ref,
				fault.Command("rye mcp refresh", server.Name))
		}
	}
	c.ans.Items = append(c.ans.Items, c.made.Refs...)
	if err := c.problems(c.made.Skipped, c.made.Skipped); err != nil {
		return nil, err
	}
	if err := writer.Parts(c.found.BundleID, c.made.Files); err != nil || c.dry {
		return nil, err
	}
	grants, err := c.sign(ctx, writer.Plan)
	if err != nil {
		return nil, err
	}
	if !entry.Digest.IsZero() || len(grants) > 0 {
		if _, err := paths.EditPolicy(ctx, c.app, paths.Edit{Edit: trusts.Admits(entry, grants...)}); err != nil {
			return nil, err
		}
	}
	c.ans.Admitted = true
	return writer.Plan.Write(ctx)
}

// describe reads what the plugin has, and compares it with what is locked.
func (c *adoption) describe(ctx context.Context) error {
	u := c.found
	c.ans = &unsignedPlugin{Bundle: u.BundleID, Version: u.Version, Manifest: u.ID.String(), Tree: u.Tree.String(),
		Files: u.FileList.Files, Bytes: u.Bytes, DryRun: c.dry,
		Requires: slices.Concat([]manifest.Require{}, u.Requires), Problems: []plugin.Problem{},
		Skills: []string{}, Servers: []string{}, Scripts: []string{}, Changes: []string{}, Items: []string{}}
	left, links := u.LeftOut()
	c.ans.LeftOut, c.ans.Links = append([]string{}, left...), append([]string{}, links...)
	for i := range u.Plugin.Skills {
		c.ans.Skills = append(c.ans.Skills, u.Plugin.Skills[i].Name)
	}
	scripts, err := scriptsOf(u.Plugin)
	if err != nil {
		return err
	}
	c.ans.Scripts = append(c.ans.Scripts, scripts...)
	for i := range u.Plugin.Servers {
		c.ans.Servers = append(c.ans.Servers, serverText(&u.Plugin.Servers[i]))
	}
	if old := c.locked(); old != nil && old.Manifest != u.ID {
		c.ans.wasLocked = old.Manifest.String()
		before, err := bundle.ReadStored(ctx, c.lock.DiskStore(), c.lock.DiskStore(), old.Manifest)
		if set := c.lock.Pinned(ctx); err != nil && set != nil {
			before, err = set.Bundle(old.ID), nil
		}
		if err != nil {
			c.app.Term.Detail("%s: %s", old.ID, fault.Of(err).Text)
			return nil // its files are gone, and so is the comparison
		}
		c.ans.Changes = changesOf(before, u.Bundle, c.ans.Scripts)
	}
	return nil
}

// locked returns the bundle as the lock has it; nil without one.
func (c *adoption) locked() *lockfile.Bundle {
	if c.lock.Old == nil {
		return nil
	}
	return c.lock.Old.Bundle(c.found.BundleID)
}

func serverText(s *plugin.Server) string {
	if s.Type == plugin.Stdio {
		return s.Name + ": " + fault.Clip(fault.Command(s.Command, s.Args...), 200)
	}
	return s.Name + ": " + fault.Clip(s.URL, 200)
}

// scriptsOf lists the files of a plugin's skills that are programs.
func scriptsOf(p *plugin.Plugin) (all []string, err error) {
	for i := range p.Skills {
		s := &p.Skills[i]
		read, err := p.Load(s)
		if err != nil {
			return nil, err
		}
		for _, script := range read.Touches().Scripts {
			all = append(all, path.Join(s.Path, script.Path))
		}
	}
	return all, nil
}

// noteChanged tells which files of signed plugins another version changes: scripts of skills are among them. Unsigned
// ones were shown before they were admitted.
func noteChanged(ctx context.Context, lock *paths.Lock, now *lockfile.Lock) {
	for i := range now.Bundles {
		line := &now.Bundles[i]
		old := lock.Old.Bundle(line.ID)
		if old == nil || old.Manifest == line.Manifest || plugin.IsUnsigned(line.ID, line.Version) {
			continue
		}
		store := lock.DiskStore()
		after, err := bundle.ReadStored(ctx, store, store, line.Manifest)
		if err != nil || after.Plugin == "" {
			continue // only pinned items of it are here, or it is no plugin
		}
		before, err := bundle.ReadStored(ctx, store, store, old.Manifest)
		if err != nil {
			continue // the lock's own changes are all that is known
		}
		var scripts []string
		read, err := plugin.Read(snapshot.FS(ctx, store, after.Files, "."))
		if err == nil {
			scripts, err = scriptsOf(read)
		}
		if err != nil {
			lock.App.Term.Detail("%s: %s", line.ID, fault.Of(err).Text)
		}
		noteList(lock.App, "changes", slices.DeleteFunc(changesOf(before, after, scripts), func(change string) bool {
			return strings.Contains(change, " "+plugin.Namespace+"/")
		}))
	}
}

// changesOf compares the files of two versions.
func changesOf(old, now *bundle.Bundle, scripts []string) (all []string) {
	note := func(what, file string) {
		if slices.Contains(scripts, file) {
			file += " (script)"
		}
		all = append(all, what+" "+file)
	}
	for i := range now.Files {
		f := &now.Files[i]
		switch before, ok := old.File(f.Path); {
		case !ok:
			note("added", f.Path)
		case before.Digest != f.Digest || before.Mode != f.Mode:
			note("changed", f.Path)
		}
	}
	for i := range old.Files {
		if _, ok := now.File(old.Files[i].Path); !ok {
			note("removed", old.Files[i].Path)
		}
	}
	return all
}

// problems reports parts that are skipped, by section and rule. --strict refuses the plugin then.
func (c *adoption) problems(all, skipped []plugin.Problem) error {
	for i := range all {
		c.app.Term.Warn("%s", all[i].String())
	}
	c.ans.Problems = slices.Concat([]plugin.Problem{}, c.ans.Problems, all)
	if !c.strict {
		return nil
	}
	return parts.Check(c.found.Plugin, skipped)
}

// say shows the plugin.
func (c *adoption) say() {
	term := c.app.Term
	if own := c.found.Plugin.Manifest.Extension.ID; own != "" && own != c.found.BundleID {
		term.Warn("the id %q in %s counts only for a signed plugin: this one is %q", own, plugin.ManifestFile,
			c.found.BundleID)
	}
	for _, row := range c.ans.rows() {
		term.Note("%-9s  %s", row[0], row[1])
	}
	c.list("changes", c.ans.Changes)
}

func (c *adoption) list(what string, lines []string) { noteList(c.app, what, lines) }

// noteList shows lines of one kind, as many as fit.
func noteList(app *cli.App, what string, lines []string) {
	for i, line := range lines {
		if i == fault.MaxLines && !app.Term.Verbose {
			app.Term.Note("%-9s  and %d more; -v shows all", what, len(lines)-i)
			return
		}
		app.Term.Note("%-9s  %s", what, line)
	}
}

// rows are the plugin as names and values.
func (p *unsignedPlugin) rows() [][2]string {
	rows := [][2]string{{"plugin", p.Bundle + " " + p.Version + ", not signed"},
		{"files", fault.Count(int64(p.Files), "file") + ", " + fault.Count(p.Bytes, "byte")}}
	list := func(what string, all []string) {
		if len(all) > mostChanges {
			all = append(slices.Clone(all[:mostChanges]), fmt.Sprintf("and %d more", len(all)-mostChanges))
		}
		if len(all) > 0 {
			rows = append(rows, [2]string{what, strings.Join(all, ", ")})
		}
	}
	list("skills", p.Skills)
	list("servers", p.Servers)
	list("scripts", p.Scripts)
	var needs []string
	for _, r := range p.Requires {
		needs = append(needs, r.BundleID+" "+r.Version)
	}
	list("requires", needs)
	list("links", p.Links)
	list("left out", p.LeftOut)
	return append(rows, [2]string{"tree", p.Tree}, [2]string{"manifest", p.Manifest})
}

// admit asks whether the policy may admit the plugin by its digest, and returns the line; none if it does already.
func (c *adoption) admit(ctx context.Context) (entry policy.DigestEntry, err error) {
	exam := c.lock.Exam()
	_, err = (&bundle.VerifyOptions{Trust: exam}).Admit(c.found.Bundle)
	no, refused := errors.AsType[*bundle.NotAdmittedError](err)
	switch {
	case err == nil:
		c.ans.Admitted = true
		return entry, nil
	case !refused || no.Decision.Code.Fault() != fault.Unsigned:
		return entry, err
	}
	entry = policy.DigestEntry{Digest: c.found.ID, As: c.found.Name}
	// The project's policy may refuse it all the same.
	with := *exam
	if with.Root.Policy, err = with.Root.Policy.AddDigest(entry); err != nil {
		return entry, err
	}
	if _, err := (&bundle.VerifyOptions{Trust: &with}).Admit(c.found.Bundle); err != nil {
		return entry, err
	}
	switch {
	case c.dry:
		return entry, nil
	case !c.app.CanAsk() || c.app.Globals.Yes: // --yes trusts nothing
		wrong := &sources.UnadmittedError{ID: c.found.BundleID, Version: c.found.Version, Manifest: c.found.ID,
			Err: no}
		f := wrong.Fault()
		f.Hint = []string{wrong.Admit()}
		return entry, f.Because("tree      " + c.ans.Tree)
	}
	return entry, c.app.Confirm(ctx, fmt.Sprintf("admit %s by this digest?", c.found.BundleID))
}

// sign asks whether to sign the items, and whether to grant the skills their own tool.
func (c *adoption) sign(ctx context.Context, plan *adopt.Plan) ([]policy.Grant, error) {
	for _, group := range plan.Groups {
		c.list("replaces", group.Differs)
	}
	if plan.Changes() > 0 {
		if err := c.app.Confirm(ctx, fmt.Sprintf("sign and lock %s of %s as items of this project?",
			fault.Count(int64(len(c.made.Refs)), "item"), c.found.BundleID)); err != nil {
			return nil, err
		}
	}
	grants := c.grants()
	if len(grants) == 0 {
		return nil, nil
	}
	line := catalogs.GrantsText(grants)
	if !c.app.CanAsk() || c.app.Globals.Yes { // --yes extends no grants
		c.app.Term.Note("its items may do this only if your policy grants it: %s", line)
		return nil, nil
	}
	c.app.Term.Note("they stay another signer's; your policy could let them do what they ask for: %s", line)
	err := c.app.Confirm(ctx, "write this line into your policy?")
	if fault.CodeOf(err) == fault.Approval {
		return nil, nil // they are added without it
	}
	return grants, err
}

// grants are what lets the directives of the skills use the tools with their files, and the servers what they declare
// or are given by flags; without those that the policy decides about already.
func (c *adoption) grants() (all []policy.Grant) {
	decided := func(ref string) bool {
		_, found := c.lock.Trust.Root.Side.Policy.Grants(ref)
		return found
	}
	i := slices.IndexFunc(c.made.Refs, func(ref string) bool { return strings.HasPrefix(ref, "directive:") })
	if i >= 0 && !decided(c.made.Refs[i]) {
		all = append(all, policy.Grant{Glob: "directive:" + c.found.BundleID + "/**",
			Allow: []string{"execute:tool:" + c.found.BundleID + "/*"}})
	}
	for _, server := range c.made.Servers {
		if ref := server.Item.Ref.String(); !decided(ref + "/x") {
			if allow := server.Spec.Grants.Patterns(); len(allow) > 0 {
				all = append(all, catalogs.ServerGrants(ref, allow)...)
			}
		}
	}
	return all
}

// rangeOf is the range that rye.yaml gets for an unsigned plugin: its versions have no order.
func rangeOf(u *sources.Unsigned) string {
	if manifest.IsPrerelease(u.Version) {
		version, _, _ := strings.Cut(u.Version, "+")
		return "* || >=" + version
	}
	return "*"
}

// pluginRoots are the roots that a project with roots needs for the items of a plugin.
func pluginRoots(id string) []string {
	return []string{"directive:" + id + "/**", "tool:" + id + "/**"}
}

// takePlugin takes the unsigned plugin of a source into the project, once its user agrees; without one the answer is
// nil. undo takes it back.
func (c *lockRun) takePlugin(ctx context.Context, lock *paths.Lock, id string, src ryeyaml.Source, strict bool) (
	taken *adoption, undo func() error, err error) {
	taken = &adoption{app: lock.App, lock: lock, key: c.KeyFlag, strict: strict, dry: c.DryRun, pins: c.pins}
	undo, err = taken.adopt(ctx, id, src)
	if taken.ans == nil {
		taken = nil
	}
	return taken, undo, err
}

// takePlugins takes the unsigned plugins that rye.yaml requires and the lock lacks, or that are to be updated.
func (c *lockRun) takePlugins(ctx context.Context, lock *paths.Lock, ans *LockAnswer) (undo func() error, err error) {
	var undone []func() error
	undo = func() (err error) {
		for _, one := range slices.Backward(undone) {
			err = errors.Join(err, one())
		}
		return err
	}
	for _, r := range lock.Yaml.Requires {
		if !strings.HasPrefix(r.ID, pluginIDs) || r.Source.Index {
			continue
		}
		var old *lockfile.Bundle
		if lock.Old != nil {
			old = lock.Old.Bundle(r.ID)
		}
		if old != nil && !(c.Update && (len(c.Names) == 0 || slices.Contains(c.Names, r.ID))) {
			continue
		}
		if old != nil {
			now, err := lock.Sources.Now(ctx, r.ID, r.Source)
			if err != nil {
				return undo, errors.Join(err, undo())
			}
			if now == nil || now.ID == old.Manifest {
				continue
			}
		}
		taken, back, err := c.takePlugin(ctx, lock, r.ID, r.Source, false)
		if err != nil {
			return undo, errors.Join(err, undo())
		}
		if back != nil {
			undone = append(undone, back)
		}
		if taken != nil {
			ans.Plugins = append(ans.Plugins, taken.ans)
		}
	}
	return undo, nil
}

// pluginIDs begin the ids of plugins that aren't signed or have no id of their own.
const pluginIDs = "plugins/"

// changedPlugins are the locked unsigned plugins that differ from what their sources have now.
func changedPlugins(ctx context.Context, lock *paths.Lock) (lines []outdatedLine, err error) {
	for _, r := range lock.Yaml.Requires {
		old := lock.Old.Bundle(r.ID)
		if old == nil || !plugin.IsUnsigned(old.ID, old.Version) {
			continue
		}
		now, err := lock.Sources.Now(ctx, r.ID, r.Source)
		if err != nil {
			return nil, err
		}
		if now != nil && now.ID != old.Manifest {
			lines = append(lines, outdatedLine{Bundle: old.ID, Version: old.Version, Allowed: now.Version,
				Latest: "changed"})
		}
	}
	return lines, nil
}

// noteDigest tells that the policy still admits a manifest that isn't used any more.
func noteDigest(lock *paths.Lock, digest string) {
	for _, d := range lock.Trust.Root.Side.Policy.Sections().Digests {
		if d.Digest.String() == digest {
			lock.App.Term.Note("your policy still admits %s; to change that, run rye trust remove --from digests %s",
				strings.TrimPrefix(d.As, "bundle:"), digest)
		}
	}
}
