package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/sign"
)

// A confined directory is written in and below, and nowhere else: no link in it is followed, whatever it leads to,
// nor is one put in the place of a directory meanwhile.
type confined struct {
	root *os.Root
	dir  string
	mode fs.FileMode // of directories that are made
}

// confine opens a directory to write in.
func confine(dir string, mode fs.FileMode) (*confined, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &confined{root, dir, mode}, nil
}

func (d *confined) close() { d.root.Close() }

// where is a name below the directory as people find it.
func (d *confined) where(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// folder opens a directory below, which the caller closes, and makes it where it isn't there, if it may.
func (d *confined) folder(name string, mayMake bool) (*os.Root, error) {
	r, err := d.root.OpenRoot(".")
	if err != nil || name == "." {
		return r, err
	}
	at := ""
	for segment := range strings.SplitSeq(name, "/") {
		at = path.Join(at, segment)
		next, err := d.enter(r, segment, at, mayMake)
		r.Close()
		if err != nil {
			return nil, err
		}
		r = next
	}
	return r, nil
}

// enter opens a directory. One that others take away and make again meanwhile is looked at anew.
func (d *confined) enter(r *os.Root, segment, at string, mayMake bool) (next *os.Root, err error) {
	for range 100 {
		if next, err = d.enterNow(r, segment, at, mayMake); err != errReplaced {
			return next, err
		}
	}
	return nil, &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%q was replaced meanwhile", d.where(at))}
}

var errReplaced = errors.New("it was replaced meanwhile")

func (d *confined) enterNow(r *os.Root, segment, at string, mayMake bool) (*os.Root, error) {
	if mayMake {
		if err := r.Mkdir(segment, d.mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, d.about(at, err)
		}
	}
	before, err := r.Lstat(segment)
	if err != nil {
		return nil, d.about(at, err)
	}
	if !before.IsDir() {
		return nil, d.notDir(at, before)
	}
	next, err := r.OpenRoot(segment)
	if err != nil {
		return nil, d.about(at, err)
	}
	if after, err := next.Stat("."); err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, errReplaced
	}
	return next, nil
}

// notDir says that something else stands where a directory is needed.
func (d *confined) notDir(at string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		return &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is a symbolic link, and nothing is written through one", d.where(at)),
			Details: map[string]any{"reason": "link", "path": d.where(at)}, Hint: []string{"ls -l " + fault.Quote(d.where(at))}}
	}
	return &fs.PathError{Op: "open", Path: d.where(at), Err: notDirectory}
}

// about makes an error one about a name as people find it.
func (d *confined) about(name string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: plainOp(pe.Op), Path: d.where(name), Err: pe.Err}
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: plainOp(le.Op), Path: d.where(name), Err: le.Err}
	}
	return err
}

// plainOp names what was done to a file by a word that people know: os.Root names the call of the system.
func plainOp(op string) string {
	switch op {
	case "openat", "mkdirat", "renameat", "linkat", "statat", "lstatat", "chmodat":
		return strings.TrimSuffix(op, "at")
	case "unlinkat", "removeat":
		return "remove"
	}
	return op
}

// read reads a regular file, nil if there is none. A link is refused: what would be written is the link.
func (d *confined) read(name string, most int64) ([]byte, error) {
	r, err := d.folder(path.Dir(name), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	fi, err := r.Lstat(path.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, d.about(name, err)
	case !fi.Mode().IsRegular():
		return nil, &fault.Error{Code: fault.Denied, Text: fmt.Sprintf("%q is no regular file", d.where(name)),
			Details: map[string]any{"reason": "special", "path": d.where(name)}}
	case fi.Size() > most:
		return nil, &fault.Error{Code: fault.Limit, Text: fmt.Sprintf("%q has more than %d bytes", d.where(name), most)}
	}
	b, err := r.ReadFile(path.Base(name))
	return b, d.about(name, err)
}

// write makes a file, or replaces it, whole and durable, as writeFile does. With exclusive a file that is there is
// fs.ErrExist.
func (d *confined) write(name string, mode fs.FileMode, exclusive bool, b []byte) error {
	dir, base, part := path.Dir(name), path.Base(name), unfinished+rand.Text()
	r, f, err := d.create(dir, part)
	// Whoever removes what else was in the directory removes that as well, as long as it is empty.
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 100; tries++ {
		r, f, err = d.create(dir, part)
	}
	if err != nil {
		return d.about(name, err)
	}
	defer r.Close()
	defer r.Remove(part)
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return d.about(name, err)
	}
	if exclusive {
		err = r.Link(part, base) // which never replaces
	} else {
		err = r.Rename(part, base)
	}
	if err != nil {
		return d.about(name, err)
	}
	if err := osfile.SyncDirectory(d.where(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // it was there, and somebody has removed it since
}

// create makes a file in a directory, which it makes and opens.
func (d *confined) create(dir, name string) (*os.Root, *os.File, error) {
	r, err := d.folder(dir, true)
	if err != nil {
		return nil, nil, err
	}
	f, err := r.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		r.Close()
	}
	return r, f, err
}

// remove removes a file, and the directories above it that are empty then, but for the first, which is a kind's. What
// somebody else has removed meanwhile is removed.
func (d *confined) remove(name string) error {
	dir := path.Dir(name)
	r, err := d.folder(dir, false)
	if err == nil {
		err = d.about(name, r.Remove(path.Base(name)))
		r.Close()
	}
	if err == nil {
		err = osfile.SyncDirectory(d.where(dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for ; strings.Contains(dir, "/"); dir = path.Dir(dir) {
		above, err := d.folder(path.Dir(dir), false)
		if err != nil {
			return nil
		}
		err = above.Remove(path.Base(dir))
		above.Close()
		if err != nil {
			return nil // there is something else in it
		}
	}
	return nil
}

// openAI opens the directory .ai of a space to write in, and makes it if it isn't there. That of a project must be in
// the project: what somebody else has put there as a link would decide where this user writes.
func openAI(dir string, level ai.Level) (*confined, error) {
	mode := fs.FileMode(0o777)
	if level == ai.User {
		mode = 0o700
	} else if err := ai.Inside(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return nil, err
	}
	return confine(dir, mode)
}

// leadsOut reports whether a file or directory is a link to somewhere that isn't below where it stands.
func leadsOut(name string) bool { return ai.Inside(name) != nil }

// fileMode is the mode that an item or a file of a tree is written with: of what a mode says, execution counts.
func fileMode(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

// draft is an item as it would be with these bytes.
func draft(k *model.Kind, ref model.Ref, s *ai.Space, p string, b []byte) *ai.Item {
	it := &ai.Item{File: ai.File{Ref: ref, Kind: k, Space: s, Path: p}, Bytes: b, Raw: cas.Sum(b), Model: k.Read(ref, p, b)}
	if it.Signed, it.Broken = sign.ReadBytes(b, k.Style(p)); it.Broken == nil {
		it.Stripped = it.Signed.Stripped
	}
	return it
}

// subject is what signatures of an item are about, also of one whose directory isn't there yet, which has no tree.
func (v *items) subject(ctx context.Context, it *ai.Item) (exam.Subject, error) {
	if _, err := fs.Stat(it.Space.FS, path.Dir(it.Path)); errors.Is(err, fs.ErrNotExist) {
		return exam.Subject{Name: it.Ref.String(), Style: it.Kind.Style(it.Path)}, nil
	}
	s, _, err := v.admit.Subject(ctx, it)
	return s, err
}

// checkSignable refuses a tool whose executors can't be found: they decide which other files a signature covers.
func (v *items) checkSignable(ctx context.Context, it *ai.Item) error {
	if it.Model.Tool == nil {
		return nil
	}
	_, err := ai.WalkFrom(ctx, v, it)
	if e, ok := errors.AsType[*ai.ChainError](err); ok && (e.Code == ai.Invalid || e.Code == ai.VersionMismatch) {
		return nil // there is a chain; what doesn't fit in it is for rye check to say
	}
	return err
}

// signed returns the bytes of an item with k's signature.
func (v *items) signed(ctx context.Context, it *ai.Item, k signer) ([]byte, error) {
	s, err := v.subject(ctx, it)
	if err != nil {
		return nil, err
	}
	var known sign.Keys
	if v.trust != nil {
		known = v.trust.exam().Find
	}
	return sign.Sign(it.Bytes, s.Signing(), s.Claim(), k.Private, v.app.clock().UTC().Truncate(time.Second), known)
}

// checkFree refuses an id that cannot be given to a new item of a space: one that is rye's own, or that some file of
// the space has, whatever its extension.
func (v *items) checkFree(ctx context.Context, ref model.Ref, s *ai.Space) error {
	if err := v.checkProtected(ref); err != nil {
		return err
	}
	if k, ok := v.Kind(ref.Kind); ok {
		if err := v.checkFolders(s, path.Dir(k.Dir+"/"+ref.ID)); err != nil {
			return err
		}
	}
	l, err := v.Files(ctx, ref.Kind)
	if err != nil {
		return err
	}
	taken := func(has model.Ref, p string) error {
		return &fault.Error{Code: fault.Validation, Err: fs.ErrExist, Text: fmt.Sprintf("there is a %q already", has),
			Why: []string{v.place(s, p)}, Hint: []string{"rye show " + fault.Quote(has.String())},
			Details: map[string]any{"reason": "exists", "ref": has.String(), "file": v.place(s, p)}}
	}
	same := func(o model.Ref) bool { return portable.Fold(o.ID) == portable.Fold(ref.ID) }
	for _, f := range l.Files {
		if f.Space != s || !same(f.Ref) {
			continue
		}
		if _, err := v.Load(ctx, f); !errors.Is(err, ai.ErrAsset) {
			return taken(f.Ref, f.Path)
		}
	}
	for _, p := range l.Problems {
		if f, err := v.At(p.Space, p.Path); err == nil && p.Space == s && same(f.Ref) {
			return taken(f.Ref, p.Path)
		}
	}
	return nil
}

// checkFolders refuses a directory if there is one in a space which differs from it in case alone: on some systems they
// are one, and what is in them has other ids there.
func (v *items) checkFolders(s *ai.Space, dir string) error {
	above := "."
	for segment := range strings.SplitSeq(dir, "/") {
		entries, err := fs.ReadDir(s.FS, above)
		if err != nil {
			return nil // what writes there says why, if it isn't made first
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != segment && portable.Fold(e.Name()) == portable.Fold(segment) {
				has, place := path.Join(above, e.Name()), v.place(s, path.Join(above, segment))
				return &fault.Error{Code: fault.Validation, Err: fs.ErrExist,
					Text:    fmt.Sprintf("%q differs from %q in upper and lower case alone, and is the same directory on some systems", place, v.place(s, has)),
					Hint:    []string{"rye ls " + fault.Quote(v.place(s, has))},
					Details: map[string]any{"reason": "case", "path": place, "there": v.place(s, has)}}
			}
		}
		above = path.Join(above, segment)
	}
	return nil
}

// checkProtected refuses an id of the library's own, unless the root policy lets another item have it.
func (v *items) checkProtected(ref model.Ref) error {
	if !protectedID(ref.ID) || v.trust != nil && v.trust.root.side.Policy.MayOverride(ref.String()) {
		return nil
	}
	return &fault.Error{Code: fault.Policy, Text: fmt.Sprintf("%q is protected: what is below rye/ is the library's", ref),
		Why:  []string{"an item with this id is refused, unless the root policy has a line that covers it:", "override: [" + ref.String() + "]"},
		Hint: []string{"rye help trust", "rye docs policy"}, Details: map[string]any{"reason": "protected", "ref": ref.String()}}
}

// warnTrees says which tools of a space have a file in their tree now, or no more: what they were signed with is
// another listing.
func (v *items) warnTrees(ctx context.Context, s *ai.Space, p string, but ...model.Ref) {
	l, err := v.Files(ctx, "tool")
	if err != nil {
		return
	}
	for _, f := range l.Files {
		// A tool in the same directory or one above it. That one below may work from its parent is for rye verify to
		// find: here every tool of the project would have to be read.
		if f.Space != s || slices.Contains(but, f.Ref) || !strings.HasPrefix(p, path.Dir(f.Path)+"/") {
			continue
		}
		it, err := v.Load(ctx, f)
		if err != nil {
			continue
		}
		if a, err := v.admit.Anchor(ctx, it); err == nil && a != nil && strings.HasPrefix(p, a.Dir+"/") && it.Signed.Format != sign.None {
			v.app.term.warn("%q belongs to the tree of %q, whose signature no longer holds: rye sign %s", v.place(s, p), it.Ref, fault.Quote(it.Ref.String()))
		}
	}
}

// treeFile reads a file of an item's tree, which must be what was hashed.
func treeFile(s *ai.Space, name string, want cas.Digest) ([]byte, error) {
	b, err := fs.ReadFile(s.FS, name)
	if err != nil {
		return nil, err
	}
	if cas.Sum(b) != want {
		return nil, &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%q was changed while it was read", name)}
	}
	return b, nil
}

// sameBytes reports whether a file is there with these bytes; another file there is an error.
func sameBytes(d *confined, name string, b []byte) (bool, error) {
	old, err := d.read(name, int64(len(b)))
	f, isFault := errors.AsType[*fault.Error](err)
	switch {
	case err != nil && (!isFault || f.Code != fault.Limit):
		return false, err
	case err == nil && old == nil:
		return false, nil
	case err == nil && bytes.Equal(old, b):
		return true, nil
	}
	return false, &fault.Error{Code: fault.Validation, Err: fs.ErrExist, Text: fmt.Sprintf("%q is there already, with other bytes", d.where(name)),
		Details: map[string]any{"reason": "exists", "file": d.where(name)}}
}
