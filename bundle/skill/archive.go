package skill

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/rye-build/rye/bundle/foreign"
	"github.com/rye-build/rye/cas/fault"
)

// ReadArchive reads the skills in a zip or a tar.gz.
func ReadArchive(b []byte) ([]*Skill, error) {
	archive, err := foreign.Open(b)
	if err != nil {
		return nil, ofSkill(err)
	}
	return find(archiveSource{archive}, true)
}

// ofSkill adds to the refusal of an archive where its rules are.
func ofSkill(err error) error {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		refusal.Try("rye docs skills")
	}
	return err
}

type archiveSource struct{ foreign.Archive }

func (s archiveSource) list() ([]entry, error) {
	listed, err := s.List(context.Background())
	if err != nil {
		return nil, ofSkill(err)
	}
	all := make([]entry, len(listed))
	for i, e := range listed {
		all[i] = entry{path: e.Path, size: e.Size}
		switch e.Kind {
		case foreign.Plain:
		case foreign.Executable:
			all[i].kind = executable
		case foreign.Link, foreign.HardLink:
			all[i].kind = link
		default:
			all[i].kind = special
		}
	}
	return all, nil
}

func (s archiveSource) read(all []entry) error {
	return ofSkill(s.Read(context.Background(), func(i int) bool { return all[i].wanted },
		func(i int, r io.Reader) error {
			var b bytes.Buffer // grows with the data, not with the claimed size
			_, err := b.ReadFrom(r)
			all[i].b = b.Bytes()
			return err
		}))
}
