package places

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/sign"
)

// OpenAI opens the directory .ai of a space to write in, and makes it if it isn't there. That of a project must be in
// the project: what somebody else has put there as a link would decide where this user writes.
func OpenAI(dir string, level ai.Level) (*osfile.Dir, error) {
	mode := fs.FileMode(0o777)
	if level == ai.User {
		mode = 0o700
	} else if err := ai.Inside(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return nil, err
	}
	return osfile.OpenDir(dir, mode)
}

// FileMode is the mode that an item or a file of a tree is written with: of what a mode says, execution counts.
func FileMode(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

// Draft is an item as it would be with these bytes.
func Draft(k *model.Kind, ref model.Ref, s *ai.Space, p string, b []byte) *ai.Item {
	it := &ai.Item{File: ai.File{Ref: ref, Kind: k, Space: s, Path: p}, Bytes: b, Raw: cas.Sum(b), Model: k.Read(ref, p, b)}
	if it.Signed, it.Broken = sign.ReadBytes(b, k.Style(p)); it.Broken == nil {
		it.Stripped = it.Signed.Stripped
	}
	return it
}

// TreeFile reads a file of an item's tree, which must be what was hashed.
func TreeFile(s *ai.Space, name string, want cas.Digest) ([]byte, error) {
	b, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return nil, err
	}
	if cas.Sum(b) != want {
		return nil, &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%q was changed while it was read", name)}
	}
	return b, nil
}

// SameBytes reports whether a file is there with these bytes; another file there is an error.
func SameBytes(d *osfile.Dir, name string, b []byte) (bool, error) {
	old, err := d.Read(name, int64(len(b)))
	f, isFault := errors.AsType[*fault.Error](err)
	switch {
	case err != nil && (!isFault || f.Code != fault.Limit):
		return false, err
	case err == nil && old == nil:
		return false, nil
	case err == nil && bytes.Equal(old, b):
		return true, nil
	}
	return false, &fault.Error{Code: fault.Validation, Err: fs.ErrExist, Text: fmt.Sprintf("%q is there already, with other bytes", d.Where(name)),
		Details: map[string]any{"reason": "exists", "file": d.Where(name)}}
}
