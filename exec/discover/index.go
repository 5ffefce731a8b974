package discover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// archiveType is for an archive of an index, which may be a zip or a tar.gz.
const archiveType = "application/agent-skills"

// An indexFile is a file of a skill in an index that lists each.
type indexFile struct{ path, address, digest string }

// parseIndex reads an index of Agent Skills Discovery 0.2.0. An entry has the address and digest of SKILL.md or of an
// archive; in the draft of that version it lists files with their digests.
func parseIndex(v any, base *url.URL) ([]*Found, error) {
	m, ok := v.(map[string]any)
	skills, list := m["skills"].([]any)
	version := cmp.Or(member(m, "version"), "0")
	switch major, _, _ := strings.Cut(version, "."); {
	case !ok || !list:
		return nil, fault.New(fault.Validation, "it has no skills")
	case major != "0":
		return nil, fault.New(fault.Validation, "it has the version %q, and rye reads 0.2", fault.Clip(version, 20))
	case len(skills) > maxEntries:
		return nil, fault.New(fault.Limit, "it has more than %d skills", maxEntries)
	}
	all := make([]*Found, len(skills))
	for i, one := range skills {
		e, _ := one.(map[string]any)
		f := &Found{Kind: Skill, Name: member(e, "name"), Digest: member(e, "digest"),
			Description: member(e, "description")}
		if !skill.IsName(f.Name) {
			return nil, fault.New(fault.Validation, "skill %d has no valid name", i+1)
		}
		if err := f.readIndex(e, base); err != nil {
			f.Refused = err.Error()
		}
		all[i] = f
	}
	return all, nil
}

func (f *Found) readIndex(e map[string]any, base *url.URL) (err error) {
	files, listed := e["files"].([]any)
	if !listed {
		switch member(e, "type") {
		case "skill-md":
			f.Media = markdownType
		case "archive":
			f.Media = archiveType
		default:
			return fault.New(fault.Validation, "it has neither files nor a type that rye knows")
		}
		if !isDigest(f.Digest) {
			return fault.New(fault.Validation, "it has no digest")
		}
		f.Address, err = resolve(base, member(e, "url"))
		return err
	}
	dir := base.ResolveReference(&url.URL{Path: f.Name + "/"})
	f.Media, f.Address = archiveType, dir.String()
	if len(files) > offer.MaxFiles {
		return fault.New(fault.Limit, "it has more than %d files", offer.MaxFiles)
	}
	for _, one := range files {
		m, ok := one.(map[string]any)
		file := indexFile{path: member(m, "path"), digest: member(m, "digest")}
		if !ok || !isDigest(file.digest) {
			return fault.New(fault.Validation, "its files have no digests")
		}
		if err := portable.Check(file.path); err != nil {
			return fault.New(fault.Validation, "%q can't be a path of a skill", fault.Clip(file.path, 200)).From(err)
		}
		if slices.ContainsFunc(f.files, func(other indexFile) bool { return other.path == file.path }) {
			return fault.New(fault.Validation, "it lists %q twice", file.path)
		}
		file.address = dir.JoinPath(file.path).String()
		f.files = append(f.files, file)
	}
	if len(f.files) == 0 {
		return fault.New(fault.Validation, "it has no files")
	}
	return nil
}

func isDigest(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// check compares bytes with the digest of an index. One in a trust manifest isn't used.
func (f *Found) check(b []byte) error {
	if f.Trust == "" && f.Digest != "" && offer.Digest(b) != f.Digest {
		return different(f.Name, f.Digest, offer.Digest(b))
	}
	return nil
}

func different(name, listed, received string) error {
	return fault.New(fault.Integrity, "%q is not the file that the host listed", name).
		Because("listed: "+listed, "received: "+received)
}

// listed reads the files of a skill that an index lists, and compares the digest of all.
func (f *Found) listed(ctx context.Context, fetch Fetch) (*skill.Skill, error) {
	var files []skill.File
	room := int64(offer.MaxBytes)
	lines := []string{}
	for _, file := range f.files {
		b, err := fetch(ctx, file.address, room)
		if err != nil {
			return nil, err
		}
		if room -= int64(len(b)); offer.Digest(b) != file.digest {
			return nil, different(file.path, file.digest, offer.Digest(b))
		}
		files = append(files, skill.File{Path: file.path, Bytes: b})
		lines = append(lines, file.path+"\x00"+strings.TrimPrefix(file.digest, "sha256:")+"\n")
	}
	slices.Sort(lines)
	if all := offer.Digest([]byte(strings.Join(lines, ""))); f.Digest != "" && all != f.Digest {
		return nil, different(f.Name, f.Digest, all)
	}
	return skill.FromFiles(f.Name, files)
}
