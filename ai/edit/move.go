package edit

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/sign"
)

// A Move is a planned rename of an item.
type Move struct {
	Old, New *ai.Item // New has no signature
	Edited   []Field  // in the file

	with Following
	dir  string // the new directory of the tree
}

// A Field is a field that repeats the item's id and changes with it.
type Field struct {
	Field string `json:"field"`
	Line  int    `json:"line"` // of the old file
	Old   string `json:"old"`
	New   string `json:"new"`
}

// Files returns the new paths of the tool's other files.
func (m *Move) Files() []string { return m.with.under(m.dir) }

// PlanMove returns a plan to rename an item, or the reason why it can't be renamed. It writes nothing.
func (e *Editor) PlanMove(ctx context.Context, it *ai.Item, ref model.Ref) (*Move, error) {
	switch {
	case ref == it.Ref:
		return nil, fault.New(fault.Validation, "%s already has this id", ref).On("ref", ref.String())
	case portable.Fold(ref.ID) == portable.Fold(it.Ref.ID):
		return nil, otherCase(it.Ref, ref)
	}
	if err := e.CheckFree(ctx, ref, it.Space); err != nil {
		return nil, err
	}
	to, err := e.PathFor(ref, path.Ext(it.Path))
	if err != nil {
		return nil, fault.New(fault.Validation, "%v", err).From(err).On("ref", ref.String())
	}
	move := &Move{Old: it, dir: path.Dir(to)}
	if path.Dir(to) != path.Dir(it.Path) {
		if move.with, err = e.Following(ctx, it); err != nil {
			return nil, err
		}
		if err := e.checkFollowing(move); err != nil {
			return nil, err
		}
	}
	b, err := e.renamed(move, ref, to)
	if err != nil {
		return nil, err
	}
	move.New = Draft(fileOf(it.Kind, ref, it.Space, to), b)
	return move, nil
}

// otherCase refuses an id that differs only in case, because on some systems both are one file. It suggests two
// steps.
func otherCase(old, ref model.Ref) *fault.Error {
	segments := strings.Split(old.ID, "/")
	for i, segment := range strings.Split(ref.ID, "/") {
		if segment != segments[i] {
			segments[i] += "-renamed"
			break
		}
	}
	between := strings.Join(segments, "/")
	if old.Kind == "directive" { // directives have snake case names
		between = strings.ReplaceAll(between, "-renamed", "_renamed")
	}
	return fault.New(fault.Validation, "%s and %s differ in case alone, and are the same file on some systems", old,
		ref).
		Because("rename it in two steps, through a third id").
		Try("rye mv "+fault.Quote(old.String())+" "+fault.Quote(between),
			"rye mv "+fault.Quote(old.Kind+":"+between)+" "+fault.Quote(ref.ID)).
		On("reason", "case").On("ref", old.String())
}

// checkFollowing refuses to move a tool without its tree, and to mix two trees.
func (e *Editor) checkFollowing(move *Move) error {
	if move.with.Stays != "" {
		return fault.New(fault.Validation, "the other files of %s can't move with it: %s", move.Old.Ref,
			move.with.Stays).
			On("reason", "tree").On("ref", move.Old.Ref.String())
	}
	if len(move.with.files) == 0 {
		return nil
	}
	empty, err := isEmpty(move.Old.Space, move.dir)
	if err == nil && !empty || strings.HasPrefix(move.dir+"/", move.with.dir+"/") {
		place := e.Name(move.Old.Space, move.dir)
		return fault.New(fault.Validation, "the files of %s need a directory of their own: %q is not empty",
			move.Old.Ref,
			place).
			On("reason", "tree").On("ref", move.Old.Ref.String()).On("path", place)
	}
	return err
}

// renamed returns the item's bytes without signatures, and with the new id in the fields that repeat it.
func (e *Editor) renamed(move *Move, ref model.Ref, to string) ([]byte, error) {
	it := move.Old
	fields := []struct{ name, old, new string }{{"name", it.Ref.Name(), ref.Name()},
		{"category", it.Ref.Category(), ref.Category()}}
	if it.Ref.Kind == "knowledge" {
		fields[0].name = "id"
	}
	type change struct {
		at value.Pos
		Field
	}
	var changes []change
	for _, s := range fields {
		f := it.Model.Fields.Get(s.name)
		if f == nil || f.Kind != value.Text || f.Text != s.old || s.old == s.new || f.At == it.Model.Fields.At {
			continue // the field has another value, or the reader took the name from the path
		}
		changes = append(changes, change{f.At, Field{s.name, f.At.Line, s.old, s.new}})
		move.Edited = append(move.Edited, changes[len(changes)-1].Field)
	}
	// Last first, so that places stay valid.
	slices.SortFunc(changes, func(a, b change) int { return b.at.Compare(a.at) })
	data := it.Bytes
	place := e.Name(it.Space, it.Path)
	for _, c := range changes {
		out, ok := replaceField(it, ref, to, data, c.at, c.Field)
		if !ok {
			return nil, fault.New(fault.Validation, "%s:%d:%d: can't change %q to %q safely", place, c.at.Line,
				c.at.Column, c.Old, c.New).
				Because("change it by hand, and rename the file").
				On("file", place).On("line", c.at.Line).On("column", c.at.Column)
		}
		data = out
	}
	data, err := unsigned(it.Kind, to, data)
	if err != nil || it.Model.Invalid() {
		return data, err
	}
	for _, p := range it.Kind.Read(ref, to, data).Problems {
		if !p.Warning {
			return nil, fault.New(fault.Validation, "as %s it would be invalid: %s:%d:%d: %s", ref, place, p.At.Line,
				p.At.Column, p.Message).
				On("file", place).On("line", p.At.Line).On("column", p.At.Column)
		}
	}
	return data, nil
}

// replaceField changes the text of a field, and reports whether the file then has the new value. Some values need
// quotes: YAML reads null and 2024 as other types.
func replaceField(it *ai.Item, ref model.Ref, to string, b []byte, at value.Pos, f Field) ([]byte, bool) {
	for _, bare := range []string{"", `"`} {
		out, ok := replaceAt(b, at, f.Old, f.New, bare)
		if !ok {
			continue
		}
		if v := it.Kind.Read(ref, to, out).Fields.Get(f.Field); v != nil && v.Kind == value.Text && v.Text == f.New {
			return out, true
		}
	}
	return nil, false
}

// replaceAt replaces old by new at the beginning of a field's value, with or without quotes, or after the field's
// name as in XML. An unquoted value gets bare around the new one. It returns false if it finds another text.
func replaceAt(file []byte, at value.Pos, old, new, bare string) ([]byte, bool) {
	i := 0
	for line := 1; line < at.Line; line++ {
		end := bytes.IndexByte(file[i:], '\n')
		if end < 0 {
			return nil, false
		}
		i += end + 1
	}
	for column := 1; column < at.Column; column++ {
		if i >= len(file) {
			return nil, false
		}
		_, n := utf8.DecodeRune(file[i:])
		i += n
	}
	for _, quote := range []string{`"`, `'`, ""} {
		if rest, ok := bytes.CutPrefix(file[i:], []byte(quote+old+quote)); ok &&
			(quote != "" || old != "" && endsWord(rest)) {
			around := cmp.Or(quote, bare)
			return slices.Concat(file[:i], []byte(around+new+around), rest), true
		}
	}
	return nil, false
}

// endsWord reports whether an unquoted word ends before rest.
func endsWord(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	c := rest[0]
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("._-/", c) >= 0 || c >= utf8.RuneSelf)
}

// unsigned removes the signature lines of a file, which are about another name.
func unsigned(k *model.Kind, p string, b []byte) ([]byte, error) {
	style := k.Style(p)
	if style == sign.NoStyle {
		return b, nil
	}
	b, err := sign.Strip(b, style)
	if err != nil {
		return nil, err
	}
	return sign.StripV1(b, style), nil
}

// Move carries out a plan: it writes the new files, the item last, and then removes the old ones, the item first.
func (e *Editor) Move(ctx context.Context, move *Move, by Signer) error {
	space := move.Old.Space
	folder, err := OpenDir(space.Dir, space.Level)
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, f := range move.with.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := treeFile(space, path.Join(move.with.dir, f.Path), f.Raw)
		if err == nil {
			err = folder.Write(path.Join(move.dir, f.Path), Mode(f.Mode.String() == "exec"), true, b)
		}
		if err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o644)
	if fi, err := fs.Lstat(space.FS, move.Old.Path); err == nil {
		mode = fi.Mode().Perm()
	}
	anchor, _ := e.Admit.Anchor(ctx, move.Old)
	if anchor != nil && path.Dir(move.Old.Path) == path.Dir(move.New.Path) {
		return e.renameInPlace(ctx, folder, move, by, mode)
	}
	if err := e.Write(ctx, move.New, by, mode); err != nil {
		return err
	}
	return e.Remove(ctx, move.Old, move.with)
}

// renameInPlace renames a tool within the directory of its tree. The tree is everything there but the tool, so the old
// file must be gone when the new one is signed.
func (e *Editor) renameInPlace(ctx context.Context, folder *osfile.Dir, move *Move, by Signer,
	mode fs.FileMode) error {
	if err := e.Write(ctx, move.New, nil, mode); err != nil {
		return err
	}
	if err := folder.Remove(move.Old.Path); err != nil {
		return err
	}
	if by == nil {
		return nil
	}
	b, err := by(ctx, move.New)
	if err != nil {
		return err
	}
	move.New = Draft(move.New.File, b)
	return folder.Write(move.New.Path, mode, false, b)
}
