package client

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
)

// ListFile is the path of the list of written files, below the root of a project.
const ListFile = ".ai/installed.yaml"

const maxList = 16 << 20

var spec = canon.Spec{
	Format: "installed/1",
	Sections: []canon.Section{{Name: "files", Fields: []canon.Field{
		{Name: "ref"}, {Name: "client", Max: 64}, {Name: "digest", Max: 71}, {Name: "mode", Max: 4},
	}}},
	MaxBytes:   maxList,
	MaxEntries: 100_000,
}

// A Line describes a written file.
type Line struct {
	Ref, Client string
	Digest      cas.Digest
	Mode        cas.Mode
}

// A List is the written files by path.
type List map[string]Line

// Parse reads a list.
func Parse(b []byte) (List, error) {
	all := List{}
	scanner := canon.NewScannerBytes(b, &spec)
	for scanner.Scan() {
		var line Line
		path := string(scanner.Key())
		if err := portable.Check(path); err != nil {
			return nil, scanner.Errorf("%v", err)
		}
		line.Ref, line.Client = string(scanner.Str(0)), string(scanner.Str(1))
		d, err := cas.ParseDigest(string(scanner.Str(2)))
		if err != nil {
			return nil, scanner.Errorf("%v", err)
		}
		switch line.Digest = d; string(scanner.Str(3)) {
		case cas.File.String():
			line.Mode = cas.File
		case cas.Exec.String():
			line.Mode = cas.Exec
		default:
			return nil, scanner.Errorf("the mode must be file or exec")
		}
		c, err := ByName(line.Client)
		if err != nil || !strings.HasPrefix(path, c.Skills+"/") &&
			(c.Commands == "" || !strings.HasPrefix(path, c.Commands+"/")) {
			return nil, scanner.Errorf("%q is in no folder of the client %q", path, line.Client)
		}
		all[path] = line
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(scanner.Comments()) > 0 {
		return nil, errors.New("the list is not signed: remove the lines above")
	}
	return all, portable.CheckSet(slices.Values(all.Paths()))
}

// Bytes writes a list.
func (in List) Bytes() ([]byte, error) {
	encoder := canon.NewEncoderBytes(nil, &spec)
	for _, p := range in.Paths() {
		l := in[p]
		encoder.Begin(0, p)
		encoder.Str(0, l.Ref)
		encoder.Str(1, l.Client)
		encoder.Str(2, l.Digest.String())
		encoder.Str(3, l.Mode.String())
		encoder.End()
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return encoder.Bytes(), nil
}

// Paths returns the sorted paths.
func (in List) Paths() []string { return slices.Sorted(maps.Keys(in)) }

// Pair is an item in a client.
type Pair struct{ Ref, Client string }

// Pairs returns all items with their clients, sorted.
func (in List) Pairs() []Pair {
	seen := map[Pair]bool{}
	for _, l := range in {
		seen[Pair{l.Ref, l.Client}] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Client, b.Client))
	})
}

// Read reads the list of a project; a missing list is empty.
func Read(root string) (List, error) {
	name := filepath.Join(root, filepath.FromSlash(ListFile))
	b, err := osfile.ReadSmall(name, maxList)
	if errors.Is(err, fs.ErrNotExist) {
		return List{}, nil
	}
	if err != nil {
		return nil, err
	}
	in, err := Parse(b)
	if err != nil {
		return nil, fault.New(fault.Parsing, "%q can't be read", ListFile).From(err).Because(err.Error()).On("file",
			ListFile).Try("rye docs skills")
	}
	return in, nil
}

// A Place is a project to write files for clients to.
type Place struct {
	dir  *osfile.Dir
	root string
	In   List
}

// Open opens a project. The caller prevents concurrent changes.
func Open(root string) (*Place, error) {
	in, err := Read(root)
	if err != nil {
		return nil, err
	}
	d, err := osfile.OpenDir(root, 0o777)
	if err != nil {
		return nil, err
	}
	return &Place{d, root, in}, nil
}

// Close closes the project.
func (p *Place) Close() { p.dir.Close() }

// Owner returns the client under which an item is listed for c: two clients may use the same folder.
func (p *Place) Owner(ref string, c Client) Client {
	for _, l := range p.In {
		if other, err := ByName(l.Client); l.Ref == ref && err == nil && other.Skills == c.Skills &&
			other.Commands == c.Commands {
			return other
		}
	}
	return c
}

// digest returns the digest of a file; false if it is missing.
func (p *Place) digest(name string) (cas.Digest, bool, error) {
	b, err := p.dir.Read(name, skill.MaxFile)
	return cas.Sum(b), b != nil, err
}

// Install writes the files of an item for a client, and replaces its previous ones. It returns the written paths. It
// never replaces a file that is unlisted or was changed.
func (p *Place) Install(pair Pair, files []skill.File, dry bool) (written []string, err error) {
	next := maps.Clone(p.In)
	maps.DeleteFunc(next, func(_ string, l Line) bool { return Pair{l.Ref, l.Client} == pair })
	var write []*skill.File
	var gone, edited []string
	for i := range files {
		file := &files[i]
		if err := portable.Check(file.Path); err != nil {
			return nil, skill.BadPath(file.Path, err)
		}
		line := Line{pair.Ref, pair.Client, cas.Sum(file.Bytes), file.Mode()}
		was, listed := p.In[file.Path]
		if listed && (was.Ref != pair.Ref || was.Client != pair.Client) {
			return nil, fault.New(fault.Validation, "%q belongs to %s, for the client %q", file.Path, was.Ref,
				was.Client).On("file", file.Path).
				Because("nothing was written").
				Try("rye export " + exportVerb(was.Ref) + " " + fault.Quote(was.Ref) + " --to " + was.Client +
					" --remove")
		}
		if p.makesWay(file.Path, pair) { // a file replaces a directory, or the reverse
			if names, _ := p.unlisted(file.Path); len(names) > 0 {
				return nil, exists(names[0])
			}
			write, written, next[file.Path] = append(write, file), append(written, file.Path), line
			continue
		}
		have, there, err := p.digest(file.Path)
		switch {
		case err != nil:
			return nil, err
		case there && !listed:
			return nil, exists(file.Path)
		case there && have != was.Digest && have != line.Digest:
			edited = append(edited, file.Path)
		}
		if !there || have != line.Digest || !p.hasMode(file) {
			write, written = append(write, file), append(written, file.Path)
			if there {
				gone = append(gone, file.Path)
			}
		}
		next[file.Path] = line
	}
	for _, name := range p.In.Paths() {
		if _, stays := next[name]; !stays {
			have, there, err := p.digest(name)
			if err != nil {
				return nil, err
			}
			if there && have != p.In[name].Digest {
				edited = append(edited, name)
			}
			gone = append(gone, name)
		}
	}
	if len(edited) > 0 {
		return nil, changed(edited)
	}
	if err := portable.CheckSet(slices.Values(next.Paths())); err != nil {
		return nil, skill.BadPath(pair.Ref, err)
	}
	if dry {
		return written, nil
	}
	p.sweep(next)
	p.sweep(p.In)
	// Remove them first: a list that names a removed file can be repaired, one that lacks an existing file can't.
	for _, name := range gone {
		if err := p.dir.Remove(name); err != nil {
			return nil, err
		}
	}
	if err := p.save(next); err != nil {
		return nil, err
	}
	for _, f := range write {
		if err := p.dir.Write(f.Path, f.Perm(), true, f.Bytes); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// makesWay reports whether an old file of the item blocks a new one.
func (p *Place) makesWay(name string, pair Pair) bool {
	for other, l := range p.In {
		if (Pair{l.Ref, l.Client}) == pair && (strings.HasPrefix(other, name+"/") ||
			strings.HasPrefix(name, other+"/")) {
			return true
		}
	}
	return false
}

func exists(name string) error {
	return fault.New(fault.Validation, "%q exists already, and rye didn't write it", name).On("file",
		name).On("reason", "exists").Because("nothing was written")
}

// exportVerb returns the command that exports an item.
func exportVerb(ref string) string {
	if strings.HasPrefix(ref, "directive:") {
		return "directive"
	}
	return "skill"
}

// changed returns the error for files that were edited.
func changed(names []string) *fault.Error {
	f := fault.New(fault.Validation, "edited since rye wrote them: %s",
		fault.Count(int64(len(names)), "file")).List(names...).
		On("file", names[0]).On("files", names).On("reason",
		"changed").Because("nothing was written").Try("rye verify --installed")
	for _, name := range names[:min(len(names), 4)] {
		f.Try("rm " + fault.Quote(name))
	}
	return f
}

// sweep removes temporary files left by processes that crashed. It ignores their age: the lock that Open requires
// means that none of them still runs.
func (p *Place) sweep(all List) {
	done := map[string]bool{}
	for name := range all {
		if dir := path.Dir(name); !done[dir] {
			done[dir] = true
			if r, err := p.dir.Folder(dir, false); err == nil {
				osfile.In{Root: r}.Sweep(".", time.Now().Add(2*osfile.UnfinishedAge))
				r.Close()
			}
		}
	}
}

func (p *Place) save(next List) error {
	if maps.Equal(next, p.In) {
		return nil
	}
	p.In = next
	if len(next) == 0 {
		return p.dir.Remove(ListFile)
	}
	b, err := next.Bytes()
	if err != nil {
		return err
	}
	return p.dir.Write(ListFile, 0o644, false, b)
}

// Remove removes the files of an item from a client, and no others. It removes nothing if one of them was changed.
func (p *Place) Remove(pair Pair, dry bool) (removed []string, err error) {
	next := maps.Clone(p.In)
	var edited []string
	for _, name := range p.In.Paths() {
		l := p.In[name]
		if l.Ref != pair.Ref || l.Client != pair.Client {
			continue
		}
		have, there, err := p.digest(name)
		if err != nil {
			return nil, err
		}
		if there && have != l.Digest {
			edited = append(edited, name)
		}
		delete(next, name)
		removed = append(removed, name)
	}
	if len(edited) > 0 {
		return nil, changed(edited)
	}
	if len(removed) == 0 {
		return nil, fault.New(fault.NotFound, "%s is not in the client %q", pair.Ref, pair.Client).On("ref",
			pair.Ref).Try("rye verify --installed")
	}
	if dry {
		return removed, nil
	}
	p.sweep(p.In)
	for _, name := range removed {
		if err := p.dir.Remove(name); err != nil {
			return nil, err
		}
	}
	return removed, p.save(next)
}

// A Difference is a file in a client that differs from the lock.
type Difference struct {
	File   string `json:"file"`
	Ref    string `json:"ref"`
	Client string `json:"client"`
	Reason string `json:"reason"` // missing, changed, mode, stale, unlisted, unlocked, unreadable
	Why    string `json:"why"`
}

// Compare returns how an item's files in a client differ from those that the lock produces. want is nil if the lock
// lacks the item.
func (p *Place) Compare(pair Pair, want []skill.File) (all []Difference, err error) {
	add := func(file, reason, why string) {
		all = append(all, Difference{file, pair.Ref, pair.Client, reason, why})
	}
	pinned := map[string]*skill.File{}
	for i := range want {
		pinned[want[i].Path] = &want[i]
	}
	folders := map[string]bool{}
	for _, name := range p.In.Paths() {
		line := p.In[name]
		if line.Ref != pair.Ref || line.Client != pair.Client {
			continue
		}
		file := pinned[name]
		have, there, err := p.digest(name)
		switch {
		case err != nil:
			add(name, "unreadable", fault.Of(err).Text)
		case want == nil:
			add(name, "unlocked", "the lock has no "+pair.Ref)
		case file == nil:
			add(name, "stale", "the locked item has no such file")
		case !there:
			add(name, "missing", "it is missing")
		case have != cas.Sum(file.Bytes) && have == line.Digest:
			add(name, "stale", "it is of another version than the locked one")
		case have != cas.Sum(file.Bytes):
			add(name, "changed", "it differs from what is locked")
		case !p.hasMode(file):
			add(name, "mode", "it is executable on one side only")
		}
		delete(pinned, name)
		if c, err := ByName(pair.Client); err == nil {
			if rest, ok := strings.CutPrefix(name, c.Skills+"/"); ok {
				first, _, _ := strings.Cut(rest, "/")
				folders[path.Join(c.Skills, first)] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		add(name, "missing", "the locked item has it, and it was not written")
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		names, err := p.unlisted(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if pinned[name] == nil {
				add(name, "unlisted", "rye didn't write it, and it is in the skill's folder")
			}
		}
	}
	return all, nil
}

// unlisted returns the unlisted files below a directory, without the leftovers of crashed processes.
func (p *Place) unlisted(dir string) (names []string, err error) {
	r, err := p.dir.Folder(dir, false)
	if err != nil {
		return nil, nil // reported as missing or unreadable files
	}
	defer r.Close()
	return names, fs.WalkDir(r.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name = path.Join(dir, name)
		if _, listed := p.In[name]; !listed &&
			!(d.Type().IsRegular() && strings.HasPrefix(d.Name(), osfile.Unfinished)) {
			names = append(names, name)
		}
		return nil
	})
}

// hasMode reports whether a file has the right executable bit, where files have one.
func (p *Place) hasMode(f *skill.File) bool {
	fi, err := p.dir.Root.Lstat(f.Path)
	return runtime.GOOS == "windows" || err == nil && fi.Mode().Perm()&0o100 != 0 == f.Exec
}

// Hint returns commands that resolve a difference.
func (d *Difference) Hint() []string {
	again := "rye export " + exportVerb(d.Ref) + " " + fault.Quote(d.Ref) + " --to " + d.Client
	switch d.Reason {
	case "unlocked":
		return []string{again + " --remove"}
	case "unlisted":
		return []string{"rm " + fault.Quote(d.File)}
	case "changed":
		return []string{"rm " + fault.Quote(d.File), again}
	case "unreadable":
		return []string{"ls -ld " + fault.Quote(d.File)}
	}
	return []string{again}
}
