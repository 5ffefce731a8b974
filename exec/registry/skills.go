package registry

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
)

// A Skill is an Agent Skill in a bundle: a folder with SKILL.md. Clients that read no bundles get it by itself.
type Skill struct {
	Name   string `json:"name"`
	About  string `json:"about"`
	Dir    string `json:"dir"`    // the folder in the bundle
	Digest string `json:"digest"` // "sha256:…" of what Registry.Skill returns
	Files  int    `json:"files"`
}

// File returns the name of what Registry.Skill returns: SKILL.md, or a zip if the skill has more files.
func (s *Skill) File() string {
	if s.Files == 1 {
		return s.Name + "/" + skill.Main
	}
	return s.Name + ".zip"
}

// The limits of what is offered by itself: each skill is taken from its archive again when it is asked for, and its
// row must stay small.
const (
	maxSkills      = 32
	maxSkillBundle = 64 << 20 // bytes of the bundle's files
)

// skillDirs returns the folders of a bundle that may be skills, with their names: the outermost ones with SKILL.md. In
// items that rye has made of a skill, its files are in a folder _files below its name; those that a plugin carries for
// rye are left out, because the plugin has the skill itself.
func skillDirs(files []manifest.File) map[string]string {
	dirs, total := map[string]string{}, int64(0)
	for i := range files {
		total += files[i].Size
		dir, main := path.Split(files[i].Path)
		dir = strings.TrimSuffix(dir, "/")
		if main != skill.Main || strings.HasPrefix(dir, "io.github.rye-build/") || below(dirs, dir) != "" ||
			len(dirs) == maxSkills {
			continue
		}
		name := path.Base(dir)
		if name == "_files" {
			name = path.Base(path.Dir(dir))
		}
		if !skill.IsName(name) || !small(files, dir) {
			continue
		}
		maps.DeleteFunc(dirs, func(inner, _ string) bool { return strings.HasPrefix(inner, dir+"/") })
		dirs[dir] = name
	}
	if total > maxSkillBundle {
		return nil
	}
	return dirs
}

// below returns which of some folders a path is in, or is; "" for none.
func below(dirs map[string]string, name string) string {
	for ; name != "." && name != ""; name = path.Dir(name) {
		if _, ok := dirs[name]; ok {
			return name
		}
	}
	return ""
}

// small reports whether a folder keeps to the limits of a skill that every client accepts.
func small(files []manifest.File, dir string) bool {
	count, size := 0, int64(0)
	for i := range files {
		if strings.HasPrefix(files[i].Path, dir+"/") {
			count++
			size += files[i].Size
		}
	}
	return count <= offer.MaxFiles && size <= offer.MaxBytes
}

// skillsIn returns the skills of an archive, sorted by their folders. A folder whose SKILL.md isn't one is none.
func skillsIn(ctx context.Context, file io.ReadSeeker, head *archive.Head) (all []Skill, err error) {
	dirs := skillDirs(head.Files)
	if len(dirs) == 0 {
		return nil, nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	err = readSkills(ctx, file, dirs, func(dir string, files []skill.File) error {
		i := slices.IndexFunc(files, func(f skill.File) bool { return f.Path == skill.Main })
		if i < 0 {
			return nil
		}
		text, err := skill.ParseText(skill.Main, files[i].Bytes)
		if err != nil || text.Name != dirs[dir] {
			return nil
		}
		packed, err := packSkill(text.Name, files)
		all = append(all, Skill{Name: text.Name, About: text.Description, Dir: dir, Digest: offer.Digest(packed),
			Files: len(files)})
		return err
	})
	return all, err
}

// readSkills calls visit with the files of each folder of an archive. One folder's files stand together, since the
// archive is sorted, so that no more than one skill is in memory.
func readSkills(ctx context.Context, r io.Reader, dirs map[string]string, visit func(dir string,
	files []skill.File) error) error {
	sink := &skillSink{dirs: dirs, visit: visit}
	_, err := archive.Read(ctx, r, sink)
	if err == nil {
		err = sink.end("")
	}
	return err
}

// A skillSink keeps the files of the folder that is being read.
type skillSink struct {
	dirs  map[string]string
	visit func(dir string, files []skill.File) error
	dir   string
	files []skill.File
}

// Begin implements archive.Sink.
func (*skillSink) Begin(*archive.Head) error { return nil }

// File implements archive.Sink.
func (s *skillSink) File(e archive.Entry, r io.Reader) error {
	dir := ""
	if !e.Evidence {
		dir = below(s.dirs, e.Path)
	}
	if dir != s.dir {
		if err := s.end(dir); err != nil {
			return err
		}
	}
	if dir == "" {
		return nil
	}
	b, err := io.ReadAll(r)
	s.files = append(s.files, skill.File{Path: e.Path[len(dir)+1:], Bytes: b, Exec: e.Mode == cas.Exec})
	return err
}

// end ends a folder, and begins another.
func (s *skillSink) end(next string) error {
	dir, files := s.dir, s.files
	s.dir, s.files = next, nil
	if dir == "" {
		return nil
	}
	return s.visit(dir, files)
}

// packSkill returns SKILL.md, or a zip of several files below the skill's name. The files aren't compressed, so that
// the bytes are the same whatever program makes them.
func packSkill(name string, files []skill.File) ([]byte, error) {
	if len(files) == 1 {
		return files[0].Bytes, nil
	}
	var packed bytes.Buffer
	to := zip.NewWriter(&packed)
	for _, file := range files {
		header := &zip.FileHeader{Name: name + "/" + file.Path, Method: zip.Store}
		header.SetMode(0o644)
		if file.Exec {
			header.SetMode(0o755)
		}
		w, err := to.CreateHeader(header)
		if err == nil {
			_, err = w.Write(file.Bytes)
		}
		if err != nil {
			return nil, err
		}
	}
	err := to.Close()
	return packed.Bytes(), err
}

// Skill returns a skill of a version by itself.
func (r *Registry) Skill(ctx context.Context, v *Version, s *Skill) ([]byte, error) {
	file, err := r.o.Blobs.Open(ctx, client.ArchiveFile(v.Archive))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var packed []byte
	err = readSkills(ctx, file, map[string]string{s.Dir: s.Name}, func(_ string, files []skill.File) (err error) {
		packed, err = packSkill(s.Name, files)
		return err
	})
	if err == nil && offer.Digest(packed) != s.Digest {
		err = fault.New(fault.Registry, "the skill %q of %s differs from what was published", s.Name, v.Key()).
			Try("ryed registry verify")
	}
	return packed, err
}
