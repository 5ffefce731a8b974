// Package parts makes items of the parts of a plugin: what rye runs of it, in the layout of .ai. Its publisher makes
// them in the plugin, where the signed manifest lists them; who adds an unsigned plugin makes the same ones in the
// project.
//
// With ID the id of the plugin's bundle
//
//	skill NAME           tool:ID/skills/NAME/skill, with the files of the skill, and directive:ID/NAME, as
//	                     rye import skill makes them
//	server NAME          tool:ID/servers/NAME, the pinned MCP server
//	its tool TOOL        tool:ID/servers/NAME/TOOL, with the definition that it was announced with
//
// In a NAME every character that an id doesn't have becomes "_". Two parts whose items would be one are both skipped.
//
// # Servers
//
// A server's item names the plugin, with whose files it runs, and starts in the plugin's directory. The placeholders
// ${PLUGIN_ROOT} and ${PLUGIN_DATA} are the template names {plugin_root} and {plugin_data} in arguments, variables and
// cwd, and nothing else in the plugin's texts is a template (SpecOf). What the manifest wishes for the server is what
// its item declares. A secret db-token is the variable DB_TOKEN of a program, and the bearer token of a server that is
// reached by HTTP. What npx, npm exec or uvx would download is pinned instead (catalog.FromLauncher).
//
// The publisher pins the tools of a program that needs no secret. Those of other servers can differ from user to user.
//
// # How a plugin goes through here
//
// Make makes the items of each skill (maker.skill) and server (maker.server) on a stage (package catalog), where they
// are checked and signed. Options.Ask asks the servers, and their tools become items (maker.tools). While nothing of
// the plugin has changed, the packages and tools that its items have are taken instead (Options.Same). Write writes
// the items into the plugin's directory. Verify lets the same maker make the items of a signed plugin again, and
// compares them with those that it has.
package parts

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/catalog"
)

// Options are what Make needs.
type Options struct {
	Plugin *plugin.Plugin
	ID     string // of the bundle
	From   string // the source, as the items of skills name it
	Stage  *catalog.Stage
	Key    catalog.Key
	// Old returns the bytes of an item as it was made before, nil for none. It stays if only its signatures would
	// differ.
	Old func(path string) []byte
	// Same has the items that were made before, by their paths in a space, if nothing of the plugin has changed since
	// then; else it is nil. Such a plugin's servers aren't listed and asked again.
	Same fs.FS
	// Pinned has the items that were made before, whatever has changed since then: while the item of a server is the
	// same, its tools stay as they are pinned. Set it where no server is asked.
	Pinned fs.FS
	// List lists the packages of a launcher, and Ask asks servers for their tools. Without List the servers that need
	// it are left out, and without Ask no server is asked.
	List catalog.Lister
	Ask  Asker
}

// Made are the items of a plugin and their files.
type Made struct {
	Refs    []string         // sorted
	Files   []skill.File     // by their paths in a space, sorted
	Servers []*Server        // sorted by name
	Skipped []plugin.Problem // parts that became no items
}

type maker struct {
	Options
	output
	made   Made
	claims map[string][]string // the parts that would be an item, by its folded ref
}

// An output takes what is made of the parts of a plugin.
type output interface {
	// draft returns the item that a file with these bytes would be; ext is its extension.
	draft(ref model.Ref, ext string, text []byte) (*ai.Item, error)
	// file takes a file that is no item itself.
	file(part string, f skill.File) error
	// item takes the item that draft would return, and returns it as it stays.
	item(ctx context.Context, part string, ref model.Ref, ext string, text []byte) (*ai.Item, error)
}

// Make makes and signs the items of a plugin.
func Make(ctx context.Context, options Options) (*Made, error) {
	maker := &maker{Options: options}
	maker.output = staged{maker}
	if err := maker.run(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(maker.made.Files, func(a, b skill.File) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(maker.made.Refs)
	return &maker.made, nil
}

// run makes the items of all parts.
func (m *maker) run(ctx context.Context) error {
	m.claims = map[string][]string{}
	place := skill.Place{Tools: m.ID + "/skills", Directives: m.ID}
	for i := range m.Plugin.Skills {
		s := &m.Plugin.Skills[i]
		tool, directive := place.Refs(s.Name)
		m.claim(skillPart(s), tool, directive)
	}
	for i := range m.Plugin.Servers {
		s := &m.Plugin.Servers[i]
		m.claim(serverPart(s), m.place(s).Ref())
	}
	for i := range m.Plugin.Skills {
		s := &m.Plugin.Skills[i]
		tool, directive := place.Refs(s.Name)
		if why := cmp.Or(m.twins(directive), m.twins(tool)); why != "" {
			m.skip(skillPart(s), path.Join(s.Path, skill.Main), why, plugin.SkipsSkill)
			continue
		}
		if err := m.skill(ctx, s, place); err != nil {
			return err
		}
	}
	return m.servers(ctx)
}

// skillPart is a skill as a part of the plugin.
func skillPart(s *plugin.Skill) string { return "skills/" + s.Name }

func (m *maker) skip(part, file, why string, effect plugin.Effect) {
	m.made.Skipped = append(m.made.Skipped, plugin.Problem{Path: file, Part: part, Message: part + ": " + why,
		Effect: effect})
}

// claim records the items that a part would be.
func (m *maker) claim(part string, refs ...model.Ref) {
	for _, ref := range refs {
		name := portable.Fold(ref.String())
		m.claims[name] = append(m.claims[name], part)
	}
}

// twins returns why a part can't be an item that another part would be too; "" if it can.
func (m *maker) twins(ref model.Ref) string {
	if parts := m.claims[portable.Fold(ref.String())]; len(parts) > 1 {
		return strings.Join(parts, " and ") + " would both be " + ref.String()
	}
	return ""
}

// unfit returns why there can't be an item with this ref; "" if there can.
func (m *maker) unfit(ref model.Ref) string {
	if err := portable.CheckID(ref.ID); err != nil {
		return err.Error()
	}
	return m.twins(ref)
}

// skill makes the items of a skill.
func (m *maker) skill(ctx context.Context, found *plugin.Skill, place skill.Place) error {
	read, err := m.Plugin.Load(found)
	if err != nil {
		return err
	}
	items, err := read.Items(place, skill.Origin{From: m.From, Path: found.Path})
	if err != nil {
		return err
	}
	for _, f := range items.Files {
		if err := m.file(skillPart(found), f); err != nil {
			return err
		}
	}
	if _, err := m.add(ctx, skillPart(found), items.Tool, ".yaml", items.ToolText); err != nil {
		return err
	}
	_, err = m.add(ctx, skillPart(found), items.Directive, ".md", items.DirectiveText)
	return err
}

// add adds an item of a part.
func (m *maker) add(ctx context.Context, part string, ref model.Ref, ext string, text []byte) (*ai.Item, error) {
	it, err := m.item(ctx, part, ref, ext, text)
	if err != nil {
		return nil, err
	}
	m.made.Refs = append(m.made.Refs, ref.String())
	return it, nil
}

// staged is the output that checks and signs items on a stage.
type staged struct{ *maker }

func (s staged) draft(ref model.Ref, ext string, text []byte) (*ai.Item, error) {
	return s.Stage.Draft(ref, ext, text)
}

func (s staged) file(_ string, f skill.File) error {
	s.made.Files = append(s.made.Files, f)
	return s.Stage.Put(f.Path, f.Bytes, f.Perm())
}

func (s staged) item(ctx context.Context, _ string, ref model.Ref, ext string, text []byte) (*ai.Item, error) {
	it, err := s.draft(ref, ext, text)
	if err != nil {
		return nil, err
	}
	if it.Broken != nil || it.Model.Invalid() {
		return nil, s.Stage.Items.Invalid(it, "the item of the plugin")
	}
	if old := s.Old(it.Path); old != nil {
		if before := edit.Draft(it.File, old); before.Broken == nil && before.Stripped == it.Stripped {
			it = before // its signature stays, if it still holds
		}
	}
	if err := s.Stage.Write(ctx, it, s.Key); err != nil {
		return nil, err
	}
	s.made.Files = append(s.made.Files, skill.File{Path: it.Path, Bytes: it.Bytes})
	return it, nil
}

// Write writes the items into the directory of a plugin, and removes others that were made there before.
func (m *Made) Write(dir string) error {
	d, err := osfile.OpenDir(dir, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	want := map[string]bool{}
	for i := range m.Files {
		f := &m.Files[i]
		name := path.Join(plugin.ItemsDir, f.Path)
		want[name] = true
		info, err := d.Root.Lstat(name)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o100 == f.Perm()&0o100 {
			if old, err := d.Read(name, info.Size()+1); err == nil && string(old) == string(f.Bytes) {
				continue
			}
		}
		if err := d.Write(name, f.Perm(), false, f.Bytes); err != nil {
			return err
		}
	}
	return removeOthers(d, want)
}

// removeOthers removes every file in the directory of items that isn't wanted, and then empty directories.
func removeOthers(d *osfile.Dir, want map[string]bool) error {
	var dirs []string
	err := fs.WalkDir(d.Root.FS(), plugin.ItemsDir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			dirs = append(dirs, name)
		case !want[name]:
			return d.Remove(name)
		}
		return nil
	})
	if os.IsNotExist(err) {
		return nil
	}
	for _, dir := range slices.Backward(dirs) {
		_ = d.Root.Remove(dir) // fails unless it is empty
	}
	return err
}

// Items are the items that Write wrote into a directory, by their paths in a space.
func Items(dir string) fs.FS {
	return os.DirFS(filepath.Join(dir, filepath.FromSlash(plugin.ItemsDir)))
}

// Old returns Options.Old for items that Write wrote into a directory.
func Old(dir string) func(string) []byte {
	return func(name string) []byte {
		b, err := osfile.ReadSmall(filepath.Join(dir, filepath.FromSlash(path.Join(plugin.ItemsDir, name))), 1<<20)
		if err != nil {
			return nil
		}
		return b
	}
}

// Check refuses a plugin that breaks a rule, for its publisher: others would skip the part, or reject the plugin.
func Check(p *plugin.Plugin, skipped []plugin.Problem) error {
	if err := p.Rejected(); err != nil {
		return err
	}
	var bad []string
	for _, found := range slices.Concat(p.Invalid(), skipped) {
		bad = append(bad, found.String())
	}
	if len(bad) == 0 {
		return nil
	}
	return fault.New(fault.Validation, "the plugin %q breaks %s", p.Manifest.Name,
		fault.Count(int64(len(bad)), "rule")).List(bad...).On("reason", "plugin").Try("rye docs plugins")
}
