package session

import (
	"context"
	"path"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/clients"
	"github.com/rye-build/rye/manifest/policy"
)

// Skills are the imported skills that a lock pins and the policies admit.
type Skills struct {
	All     []Skill // sorted by the ids of their tools
	LeftOut []error // about skills that clients need not accept, or whose files can't be read
	files   map[string]*clients.File
}

// A Skill is one of them.
type Skill struct {
	*offer.Entry
	Name, Description string
}

// Read returns a file of a skill by its address, from the pinned bytes; false if no skill has it.
func (s *Skills) Read(uri string) ([]byte, bool, error) {
	f, ok := s.files[uri]
	if !ok {
		return nil, false, nil
	}
	b, err := f.Read()
	return b, true, err
}

// Skills returns the imported skills of the lock. Without a lock there are none: the working tree is never read.
func (s *Session) Skills(ctx context.Context) (*Skills, error) {
	if s.set == nil || s.o.Dev {
		return &Skills{}, nil
	}
	from, err := s.pinned(ctx)
	if err != nil {
		return nil, err
	}
	defer from.close()
	from.known.mu.Lock()
	defer from.known.mu.Unlock()
	if from.known.skills == nil {
		if from.known.skills, err = from.readSkills(ctx); err != nil {
			return nil, err
		}
	}
	return from.known.skills, nil
}

func (f source) readSkills(ctx context.Context) (*Skills, error) {
	all := &Skills{files: map[string]*clients.File{}}
	l, err := f.view.Files(ctx, "tool")
	if err != nil {
		return nil, err
	}
	for i := range l.Files {
		ref := l.Files[i].Ref
		if _, named := skill.NameOf(ref); !named || i > 0 && ref == l.Files[i-1].Ref {
			continue
		}
		it, err := f.item(ctx, ref)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil { // not admitted
			continue
		}
		if _, imported := skill.ReadOrigin(it.Bytes); !imported {
			continue
		}
		if err := all.add(ctx, f.base.Admit, it); err != nil {
			all.LeftOut = append(all.LeftOut, fault.Wrap(err, "%s is not served as a skill: %v", ref, err))
		}
	}
	return all, ctx.Err()
}

// add reads a skill and adds it.
func (s *Skills) add(ctx context.Context, admit *ai.Admitter, it *ai.Item) error {
	name, found, err := clients.Imported(ctx, admit, it, policy.ToUse)
	if err != nil {
		return err
	}
	files := make([]skill.File, len(found))
	var text *skill.Text
	for i := range found {
		files[i].Path = found[i].Path
		if files[i].Bytes, err = found[i].Read(); err != nil {
			return err
		}
		if files[i].Path == skill.Main {
			if text, err = skill.ParseText(skill.Main, files[i].Bytes); err != nil {
				return err
			}
		}
	}
	if text == nil || text.Name != name {
		return fault.New(fault.Validation, "%s of %q has another name, or is missing", skill.Main, it.Ref)
	}
	made, err := offer.New(path.Dir(it.Ref.ID), text, files)
	if err != nil {
		return err
	}
	for i := range found {
		s.files[made.Resources[i].URI] = &found[i]
	}
	s.All = append(s.All, Skill{made, text.Name, text.Description})
	return nil
}
