package plugin

import (
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
)

// The names of the format.
const (
	ManifestFile = "plugin.json"
	ServersFile  = "mcp.json"
	SkillsDir    = "skills"
	Namespace    = "io.github.rye-build" // of rye, in extensions and as a directory
	ItemsDir     = Namespace + "/items"  // the items that rye made of the plugin's parts
	Version      = "1.0.0"               // of the specification

	ManifestSchema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
	ServersSchema  = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
)

var (
	//go:embed plugin.schema.json
	manifestSchema string
	//go:embed mcp.schema.json
	serversSchema string
)

// Schema returns the JSON Schema of ManifestFile or ServersFile, for editors. It accepts more than Read, because it
// can't know the plugin's other files.
func Schema(file string) string {
	if file == ServersFile {
		return serversSchema
	}
	return manifestSchema
}

// maxJSON bounds plugin.json and mcp.json.
const maxJSON = 1 << 20

// A Plugin is a directory of that format as read. Parts with a problem that skips them aren't in it.
type Plugin struct {
	*Listing
	Manifest Manifest
	Skills   []Skill  // sorted by name
	Servers  []Server // sorted by name
	Problems []Problem

	root  fs.FS
	above []File // directly in the plugin's directory and in skills/: among them are licences of skills
}

// A Manifest is plugin.json.
type Manifest struct {
	Name, Version, Description    string
	Author                        Author
	Homepage, Repository, License string
	Keywords                      []string
	Extension                     Extension
}

// An Author is the author of a plugin.
type Author struct{ Name, Email, URL string }

// An Extension is what a manifest says to rye.
type Extension struct {
	ID       string
	Requires []manifest.Require // in the order of the file
	Wishes   map[string]Wish    // by the names of servers
	// AllowSecret has the globs of files that may contain apparent secrets, and why, in the order of the file.
	AllowSecret []Reason
}

// A Reason says why files may contain what looks like a secret.
type Reason struct {
	Glob recipe.Glob
	Why  string
}

// A Wish is what a server asks for.
type Wish struct {
	Read, Write, Network, Secrets []string
	Risk                          string
	Timeout                       int // seconds for a call; 0 for none of its own
}

// A Skill is a skill of a plugin. Plugin.Load reads its files.
type Skill struct {
	Name, Path  string
	Description string
}

// Is reports whether a directory is a plugin: it has a plugin.json.
func Is(root fs.FS) bool {
	info, err := fs.Stat(root, ManifestFile)
	return err == nil && info.Mode().IsRegular()
}

// Read reads a plugin. The file system doesn't lead outside of its directory (os.Root). Errors are those of the file
// system; what is wrong with the plugin is in its Problems.
func Read(root fs.FS) (*Plugin, error) {
	listing, err := List(root)
	if err != nil {
		return nil, err
	}
	return listing.Read(root)
}

// Read reads the plugin of a listing, whose files root has: the directory itself, or the bytes that were stored of it.
func (l *Listing) Read(root fs.FS) (*Plugin, error) {
	p := &Plugin{Listing: l, root: root, Problems: slices.Clone(l.found)}
	for _, f := range l.Files {
		if dir := path.Dir(f.Path); dir == "." || dir == SkillsDir {
			p.above = append(p.above, f)
		}
	}
	if err := p.readManifest(); err != nil || p.Rejected() != nil {
		return p, err
	}
	if err := p.readSkills(); err != nil {
		return p, err
	}
	return p, p.readServers()
}

// text reads a file of JSON; problem is the one that has no valid JSON.
func (p *Plugin) text(problem Problem) (*value.Value, error) {
	if p.File(problem.Path).Size > maxJSON {
		problem.Section = ""
		p.problem(problem, "has more than %d bytes", maxJSON)
		return nil, nil
	}
	file, err := p.root.Open(problem.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxJSON+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxJSON {
		return nil, changed(problem.Path)
	}
	v, wrong, ours := parse.JSON(text)
	if wrong != nil {
		message := "invalid JSON: " + wrong.Message
		if problem.At = wrong.At; ours {
			message, problem.Section = wrong.Message, ""
		}
		p.problem(problem, "%s", message)
		return nil, nil
	}
	if v.Kind != value.Map {
		problem.At = v.At
		p.problem(problem, "expected an object, found %s", v.Kind)
		return nil, nil
	}
	return v, nil
}

func changed(file string) error {
	return fault.New(fault.Conflict, "%q changed while it was read", file).On("file", file)
}

// fields are those of a manifest.
var fields = []string{"$schema", "name", "version", "description", "author", "homepage", "repository", "license",
	"keywords", "extensions"}

func (p *Plugin) readManifest() error {
	wrong := Problem{Path: ManifestFile, Section: "5.1", Effect: Rejects}
	switch {
	case p.leadsOut(ManifestFile):
		wrong.Section = "4.1"
		p.problem(wrong, "leads outside of the plugin")
		return nil
	case p.File(ManifestFile) == nil:
		wrong.Section = "4.1"
		p.problem(wrong, "no %s in the plugin's directory", ManifestFile)
		return nil
	}
	wrong.Section = "5.2"
	v, err := p.text(wrong)
	if v == nil || err != nil {
		return err
	}
	m := &p.Manifest
	texts := map[string]*string{"$schema": nil, "name": &m.Name, "version": &m.Version, "description": &m.Description,
		"homepage": &m.Homepage, "repository": &m.Repository, "license": &m.License}
	for _, entry := range v.Map {
		at := wrong
		at.At = entry.At
		to, isText := texts[entry.Key]
		if at.Section = "5.4"; entry.Key == "$schema" || entry.Key == "name" {
			at.Section = "5.3"
		}
		switch {
		case !slices.Contains(fields, entry.Key):
			at.Section, at.Effect = "5.2", Ignored
			p.problem(at, "unknown field %q", fault.Clip(entry.Key, 100))
		case isText && entry.Value.Kind != value.Text:
			p.problem(at, "%s must be a string, not %s", entry.Key, entry.Value.Kind)
		case isText && to != nil:
			*to = entry.Value.Text
		case entry.Key == "author":
			p.readAuthor(entry.Value, at)
		case entry.Key == "keywords":
			m.Keywords = p.strings(entry.Value, at, "keywords")
		case entry.Key == "extensions":
			p.readExtensions(entry.Value, at)
		}
	}
	p.checkSchema(v, wrong, ManifestSchema)
	p.checkName(v, wrong)
	p.checkVersion(v)
	return nil
}

// checkSchema requires the $schema of version 1.0.0, and reports whether it is that.
func (p *Plugin) checkSchema(v *value.Value, wrong Problem, want string) bool {
	schema := v.Get("$schema")
	switch {
	case schema == nil:
		wrong.At, wrong.Section = v.At, "5.3"
		if want == ServersSchema {
			wrong.Section = "7.2.1"
		}
		p.problem(wrong, "$schema is missing: expected %q", want)
	case schema.Kind != value.Text:
		return false // reported with the other fields
	case schema.Text != want:
		wrong.At = schema.At
		p.problem(wrong, "unsupported version: $schema is %q, expected %q", fault.Clip(schema.Text, 200), want)
	default:
		return true
	}
	return false
}

// name matches the characters of a plugin's name.
var name = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?$`)
})

// CheckName reports what is wrong with a plugin's name, and the section of the specification. The section is empty for
// a rule of rye: a plugin is a bundle, whose id has the name in it.
func CheckName(text string) (section string, err error) {
	if !name().MatchString(text) || strings.Contains(text, "--") || strings.Contains(text, "..") {
		return "5.5", fmt.Errorf("the name %q must have 1 to 64 of a-z, 0-9, - and ., begin and end with a letter or "+
			"digit, and have no .. or --", fault.Clip(text, 100))
	}
	if err := portable.CheckID("plugins/" + text); err != nil {
		return "", fmt.Errorf("the name %q can't be part of an id: %v", text, err)
	}
	return "", nil
}

func (p *Plugin) checkName(v *value.Value, wrong Problem) {
	given := v.Get("name")
	if given == nil {
		wrong.At, wrong.Section = v.At, "5.3"
		p.problem(wrong, "name is missing")
		return
	}
	if wrong.At = given.At; given.Kind != value.Text {
		return // reported with the other fields
	}
	section, err := CheckName(p.Manifest.Name)
	if wrong.Section = section; err != nil {
		p.problem(wrong, "%v", err)
	}
}

func (p *Plugin) checkVersion(v *value.Value) {
	if version := v.Get("version"); version != nil && version.Kind == value.Text &&
		manifest.CheckVersion(version.Text) != nil {
		p.problem(Problem{Path: ManifestFile, At: version.At, Section: "10.2", Effect: Advice},
			"the version %q is not a semantic version, such as 1.2.0", fault.Clip(version.Text, 100))
	}
}

func (p *Plugin) readAuthor(v *value.Value, wrong Problem) {
	if v.Kind != value.Map {
		p.problem(wrong, "author must be an object, not %s", v.Kind)
		return
	}
	author := &p.Manifest.Author
	for _, entry := range v.Map {
		to := map[string]*string{"name": &author.Name, "email": &author.Email, "url": &author.URL}[entry.Key]
		wrong.At = entry.At
		switch {
		case to == nil:
			p.problem(wrong, "author has only name, email and url, not %q", fault.Clip(entry.Key, 100))
		case entry.Value.Kind != value.Text:
			p.problem(wrong, "author.%s must be a string, not %s", entry.Key, entry.Value.Kind)
		default:
			*to = entry.Value.Text
		}
	}
}

// strings reads a list of strings.
func (p *Plugin) strings(v *value.Value, wrong Problem, field string) (all []string) {
	if v.Kind != value.List {
		p.problem(wrong, "%s must be an array of strings, not %s", field, v.Kind)
		return nil
	}
	for i, item := range v.Items {
		if item.Kind != value.Text {
			wrong.At = item.At
			p.problem(wrong, "%s[%d] must be a string, not %s", field, i, item.Kind)
			return nil
		}
		all = append(all, item.Text)
	}
	return all
}

func (p *Plugin) readExtensions(v *value.Value, wrong Problem) {
	wrong.Section = "8.1"
	if v.Kind != value.Map {
		wrong.Effect = Ignored
		p.problem(wrong, "extensions must be an object, not %s", v.Kind)
		return
	}
	for _, entry := range v.Map {
		wrong.At = entry.At
		switch {
		case entry.Value.Kind != value.Map:
			p.problem(wrong, "extensions[%q] must be an object, not %s", fault.Clip(entry.Key, 100),
				entry.Value.Kind)
		case entry.Key == Namespace:
			p.readExtension(entry.Value)
		}
	}
}

// readExtension reads what is for rye. The format of the namespace is ours, so an error in it rejects the plugin.
func (p *Plugin) readExtension(v *value.Value) {
	for _, entry := range v.Map {
		at := Problem{Path: ManifestFile, At: entry.At, Effect: Rejects}
		switch entry.Key {
		case "id":
			p.Manifest.Extension.ID = entry.Value.String()
			if err := portable.CheckID(entry.Value.String()); err != nil {
				p.problem(at, "%s.id: %v", Namespace, err)
			} else if first, _, _ := strings.Cut(entry.Value.String(), "/"); first == "mcp" {
				p.problem(at, "%s.id: ids under mcp/ are those of the servers of rye mcp add", Namespace)
			} else if first == "rye" {
				p.problem(at, "%s.id: ids under rye/ are those of rye's own library", Namespace)
			}
		case "requires":
			p.readRequires(entry.Value, at)
		case "servers":
			p.readWishes(entry.Value, at)
		case "allow-secret":
			p.readReasons(entry.Value, at)
		default:
			p.problem(at, "%s has only id, requires, servers and allow-secret, not %q", Namespace,
				fault.Clip(entry.Key, 100))
		}
	}
}

func (p *Plugin) readRequires(v *value.Value, wrong Problem) {
	if v.Kind != value.Map {
		p.problem(wrong, "%s.requires must be an object of ids and ranges of versions", Namespace)
		return
	}
	for _, entry := range v.Map {
		wrong.At = entry.At
		err := portable.CheckID(entry.Key)
		if err == nil {
			_, err = semver.Parse(entry.Value.String())
		}
		if err != nil {
			p.problem(wrong, "%s.requires: %v", Namespace, err)
			continue
		}
		p.Manifest.Extension.Requires = append(p.Manifest.Extension.Requires,
			manifest.Require{BundleID: entry.Key, Version: entry.Value.Text})
	}
}

func (p *Plugin) readReasons(v *value.Value, wrong Problem) {
	for _, entry := range v.Map {
		wrong.At = entry.At
		glob, err := recipe.ParseGlob(entry.Key)
		switch {
		case err != nil:
			p.problem(wrong, "%s.allow-secret: %v", Namespace, err)
		case entry.Value.Kind != value.Text || strings.TrimSpace(entry.Value.Text) == "":
			p.problem(wrong, "%s.allow-secret must say why %q may have what looks like a secret", Namespace,
				fault.Clip(entry.Key, 100))
		default:
			p.Manifest.Extension.AllowSecret = append(p.Manifest.Extension.AllowSecret,
				Reason{glob, entry.Value.Text})
		}
	}
	if v.Kind != value.Map {
		p.problem(wrong, "%s.allow-secret must be an object of paths and reasons", Namespace)
	}
}

func (p *Plugin) readWishes(v *value.Value, wrong Problem) {
	if v.Kind != value.Map {
		p.problem(wrong, "%s.servers must be an object of the servers' names", Namespace)
		return
	}
	p.Manifest.Extension.Wishes = map[string]Wish{}
	for _, server := range v.Map {
		var wish Wish
		lists := map[string]*[]string{"read": &wish.Read, "write": &wish.Write, "network": &wish.Network,
			"secrets": &wish.Secrets}
		for _, entry := range server.Value.Map {
			wrong.At = entry.At
			field := Namespace + ".servers." + fault.Clip(server.Key, 100) + "." + fault.Clip(entry.Key, 100)
			to := lists[entry.Key]
			switch {
			case to != nil:
				*to = p.strings(entry.Value, wrong, field)
			case entry.Key == "risk" && slices.Contains(risks, entry.Value.String()):
				wish.Risk = entry.Value.Text
			case entry.Key == "timeout":
				n, ok := entry.Value.Int()
				if wish.Timeout = int(n); !ok || n < 1 || n > maxTimeout {
					p.problem(wrong, "%s must be a number of seconds, from 1 to %d", field, maxTimeout)
				}
			case entry.Key == "risk":
				p.problem(wrong, "%s must be one of %s", field, strings.Join(risks, ", "))
			default:
				p.problem(wrong, "%s: expected read, write, network, secrets, risk or timeout", field)
			}
		}
		if wrong.At = server.At; server.Value.Kind != value.Map {
			p.problem(wrong, "%s.servers.%s must be an object", Namespace, fault.Clip(server.Key, 100))
		}
		p.Manifest.Extension.Wishes[server.Key] = wish
	}
}

// maxTimeout is the longest timeout that a server can ask for: a day.
const maxTimeout = 86_400

var risks = []string{"read", "write", "infra", "money", "destructive"}

// readSkills finds the skills and checks each.
func (p *Plugin) readSkills() error {
	wrong := Problem{Path: SkillsDir, Section: "6.2", Effect: NoSkills}
	switch {
	case p.leadsOut(SkillsDir):
		wrong.Section = "4.1"
		p.problem(wrong, "leads outside of the plugin")
		return nil
	case p.File(SkillsDir) != nil:
		p.problem(wrong, "must be a directory")
		return nil
	}
	for dir := range p.skillDirs() {
		found := Skill{Name: path.Base(dir), Path: dir}
		wrong := Problem{Path: path.Join(dir, skill.Main), Part: "skills/" + found.Name, Section: "7.1",
			Effect: SkipsSkill}
		if p.denied[wrong.Path] {
			wrong.Section = "4.1"
			p.problem(wrong, "leads outside of the plugin")
			continue
		}
		read, err := p.Load(&found)
		if _, own := err.(*fault.Error); err != nil && !own {
			return err
		} else if err != nil {
			p.problem(wrong, "%s", explained(err))
			continue
		}
		found.Description = read.Description
		p.Skills = append(p.Skills, found)
	}
	return nil
}

// explained returns the text of an error and its reasons.
func explained(err error) string {
	f := fault.Of(err)
	why := slices.DeleteFunc(slices.Clone(f.Why), func(line string) bool { return line == "nothing was written" })
	return strings.Join(append([]string{f.Text}, why...), ": ")
}

// skillDirs are the directories directly in skills/ with a SKILL.md, sorted.
func (p *Plugin) skillDirs() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var all []string
		for _, f := range p.below(SkillsDir) {
			if dir := path.Dir(f.Path); path.Base(f.Path) == skill.Main && path.Dir(dir) == SkillsDir {
				all = append(all, dir)
			}
		}
		for name := range p.denied {
			if dir := path.Dir(name); path.Base(name) == skill.Main && path.Dir(dir) == SkillsDir {
				all = append(all, dir)
			}
		}
		slices.Sort(all)
		for _, dir := range all {
			if !yield(dir) {
				return
			}
		}
	}
}

// Load reads the files of a skill, and the licences of the plugin if it has none of its own.
func (p *Plugin) Load(s *Skill) (*skill.Skill, error) {
	files := slices.Concat(p.below(s.Path), p.above)
	listed := make([]skill.Listed, len(files))
	for i, f := range files {
		listed[i] = skill.Listed{Path: f.Path, Size: f.Size, Exec: f.Exec}
	}
	return skill.ReadFolder(p.root, s.Path, listed)
}

// Owned returns the beginning of an id that one author has: its first segment, or of a plugin the plugin's own id,
// since all plugins share the first.
func Owned(id string) string {
	first, rest, _ := strings.Cut(id, "/")
	if next, _, _ := strings.Cut(rest, "/"); first == "plugins" && next != "" {
		return first + "/" + next
	}
	return first
}

// BundleID is the id of the plugin's bundle, if the plugin isn't signed or has no id of its own.
func (p *Plugin) BundleID() string { return "plugins/" + p.Manifest.Name }

// treeDigits is how many digits of its tree end the version of an unsigned plugin.
const treeDigits = 12

// UnsignedVersion is the version of an unsigned plugin whose files have a tree.
func (p *Plugin) UnsignedVersion(tree cas.Digest) string {
	end := "+" + strings.TrimPrefix(tree.String(), "blake3:")[:treeDigits]
	version, _, _ := strings.Cut(p.Manifest.Version, "+")
	if manifest.CheckVersion(version+end) != nil {
		version = "0.0.0"
	}
	return version + end
}

// IsUnsigned reports whether a bundle can be an unsigned plugin, by its id and its version. Such versions have no
// order.
func IsUnsigned(id, version string) bool {
	_, tree, _ := strings.Cut(version, "+")
	return Owned(id) == id && strings.HasPrefix(id, "plugins/") && len(tree) == treeDigits &&
		portable.Spelled(tree, "0123456789abcdef", "", treeDigits)
}

// Derived reports whether an item of a project has the id of one that was made of an unsigned plugin: it is a
// stranger's, although the project's owner has signed it.
func Derived(ref model.Ref) bool { return strings.HasPrefix(ref.ID, "plugins/") }

// Visible returns a text as one line that a manifest can have.
func Visible(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	line = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, line)
	return fault.Clip(strings.TrimSpace(line), 200)
}
