package items

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
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
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func MvCommand() cli.Command {
	return cli.Command{
		Path: "mv", Quiet: true, Group: "items", Help: "Rename an item of the project.",
		More: "The name, the category and the id that the file itself says are changed with it. A signature is about the id, so it is made anew: " +
			"by itself if the present one is good and by the same key; with --sign otherwise. Signatures of others are lost and told. The other " +
			"files of a tool go with it if no other item is in its directory. Items that name it are told, and not changed.\n\n" +
			"Examples:\n\n    rye mv tool:acme/fetch acme/web/fetch\n    rye mv --dry-run directive:acme/old acme/new\n    rye mv --sign tool:theirs/x acme/x",
		Aka: []string{"rename", "move"},
		New: func() cli.Runner { return new(mvRun) }, Schema: "mv/1", Output: mvAnswer{},
	}
}

type mvRun struct {
	Ref    string `arg:"" complete:"own" help:"Ref, or file below .ai."`
	NewID  string `arg:"" name:"newid" help:"New id, such as acme/web/fetch."`
	Sign   bool   `help:"Sign it even if another key signed it before."`
	DryRun bool   `help:"Show what would be done; write nothing."`
	trusts.KeyFlag
}

func (c *mvRun) Complete(_ context.Context, a *cli.App, name, _ string) []cli.Candidate {
	if name == "key" {
		return trusts.CompleteKeys(a)
	}
	return nil
}

type mvAnswer struct {
	Ref      string     `json:"ref"` // the new one
	Old      string     `json:"old"`
	File     string     `json:"file"`
	OldFile  string     `json:"old_file"`
	Files    []string   `json:"files"`  // the rest of its tree, where it is now
	Edited   []editLine `json:"edited"` // in the file
	Signed   bool       `json:"signed"` // anew
	Key      string     `json:"key"`
	Lost     []string   `json:"lost"` // keys whose signatures are gone
	Mentions []mention  `json:"mentioned_by"`
	DryRun   bool       `json:"dry_run"`
}

// editLine is a field that has to say where the item is.
type editLine struct {
	Field string `json:"field"`
	Line  int    `json:"line"` // of the old file
	Old   string `json:"old"`
	New   string `json:"new"`
}

func (m mvAnswer) Text(t *cli.Terminal) {
	verb := "moved"
	if m.DryRun {
		verb = "would move"
	}
	t.Printf("%s %s to %s  %s", verb, m.Old, m.Ref, m.File)
	if n := len(m.Files); n > 0 {
		t.Printf(", and %s of its tree", fault.Count(int64(n), "file"))
	}
	if m.Signed {
		t.Printf(", signed with %s", places.Short(m.Key))
	}
	t.Printf("\n")
	for _, e := range m.Edited {
		t.Printf("  line %d  %s: %q is now %q\n", e.Line, e.Field, e.Old, e.New)
	}
}

// A move is an item, and what it becomes.
type move struct {
	old, new *ai.Item
	with     following
	dir      string // where what follows goes
}

func (c *mvRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	v, err := spaces.OpenItems(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	it, err := shown(ctx, v, c.Ref)
	if err != nil {
		return nil, err
	}
	ans := mvAnswer{Old: it.Ref.String(), OldFile: v.Place(it.Space, it.Path), Files: []string{}, Edited: []editLine{}, Lost: []string{},
		DryRun: c.DryRun}
	m, err := c.plan(ctx, v, it, &ans)
	if err != nil {
		return nil, err
	}
	k, err := c.signer(ctx, v, m, &ans)
	if err != nil {
		return nil, err
	}
	if ans.Mentions, err = mentions(ctx, v, []model.Ref{it.Ref}); err != nil {
		return nil, err
	}
	warnMentions(a, ans.Mentions)
	for _, id := range ans.Lost {
		a.Term.Warn("the signature of %s is lost: it is about %q", id, it.Ref)
	}
	if c.DryRun {
		return ans, nil
	}
	unlock, err := aloneWith(ctx, a, m.new)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := openMove(ctx, v, m, k); err != nil {
		return nil, err
	}
	afterwards(ctx, v, m.new)
	v.WarnTrees(ctx, it.Space, it.Path, it.Ref, m.new.Ref)
	return ans, nil
}

// plan finds what moves where, and refuses before anything does.
func (c *mvRun) plan(ctx context.Context, v *spaces.Items, it *ai.Item, ans *mvAnswer) (*move, error) {
	if err := checkWritable(v, it); err != nil {
		return nil, err
	}
	kind, _, colon := strings.Cut(c.NewID, ":")
	if _, known := v.Kind(kind); colon && known && kind != it.Ref.Kind {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a %s, and stays one: %q is of another kind", it.Ref, it.Ref.Kind, c.NewID),
			Why: []string{"what a file is depends on what it says; rye new makes a " + kind}, Details: map[string]any{"ref": it.Ref.String()}}
	}
	id := strings.TrimPrefix(c.NewID, it.Ref.Kind+":")
	ref, err := model.ParseRef(it.Ref.Kind + ":" + id)
	if err != nil {
		return nil, spaces.BadRef(c.NewID, err)
	}
	if ref == it.Ref {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is what it is called already", ref), Details: map[string]any{"ref": ref.String()}}
	}
	if portable.Fold(ref.ID) == portable.Fold(it.Ref.ID) {
		return nil, c.otherCase(it.Ref, ref)
	}
	if err := v.CheckFree(ctx, ref, it.Space); err != nil {
		return nil, err
	}
	to, err := v.PathFor(ref, path.Ext(it.Path))
	if err != nil {
		return nil, &fault.Error{Code: fault.Validation, Err: err, Text: err.Error(), Details: map[string]any{"ref": ref.String()}}
	}
	m := &move{old: it, dir: path.Dir(to)}
	if path.Dir(to) != path.Dir(it.Path) {
		if m.with, err = openFollowing(ctx, v, it); err != nil {
			return nil, err
		}
		if err := c.checkFollowing(v, m); err != nil {
			return nil, err
		}
		for _, f := range m.with.files {
			ans.Files = append(ans.Files, v.Place(it.Space, path.Join(m.dir, f.Path)))
		}
	}
	b, err := renamed(v, it, ref, to, ans)
	if err != nil {
		return nil, err
	}
	m.new = places.Draft(it.Kind, ref, it.Space, to, b)
	ans.Ref, ans.File = ref.String(), v.Place(it.Space, to)
	return m, nil
}

// otherCase says how to give an item the same id in other letters: on some systems both are one file, so that the old
// one has to be gone before there can be the new one.
func (c *mvRun) otherCase(old, ref model.Ref) *fault.Error {
	segments := strings.Split(old.ID, "/")
	for i, segment := range strings.Split(ref.ID, "/") {
		if segment != segments[i] {
			segments[i] += "-renamed"
			break
		}
	}
	between := strings.Join(segments, "/")
	if old.Kind == "directive" { // whose names are in snake case
		between = strings.ReplaceAll(between, "-renamed", "_renamed")
	}
	return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q and %q differ in upper and lower case alone, and are the same file on some systems", old, ref),
		Why:     []string{"it goes by way of a third id"},
		Hint:    []string{"rye mv " + fault.Quote(old.String()) + " " + fault.Quote(between), "rye mv " + fault.Quote(old.Kind+":"+between) + " " + fault.Quote(ref.ID)},
		Details: map[string]any{"reason": "case", "ref": old.String()}}
}

// checkFollowing refuses to tear a tool from its tree, and to put one tree upon another.
func (c *mvRun) checkFollowing(v *spaces.Items, m *move) error {
	if m.with.stays != "" {
		return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q has a tree that can't go with it: %s", m.old.Ref, m.with.stays),
			Details: map[string]any{"reason": "tree", "ref": m.old.Ref.String()}}
	}
	if len(m.with.files) == 0 {
		return nil
	}
	full, err := holdsAnything(m.old.Space, m.dir)
	if err == nil && full || strings.HasPrefix(m.dir+"/", m.with.dir+"/") {
		place := v.Place(m.old.Space, m.dir)
		return &fault.Error{Code: fault.Validation,
			Text:    fmt.Sprintf("%q has a tree, which needs a directory of its own: there is something in %q", m.old.Ref, place),
			Details: map[string]any{"reason": "tree", "ref": m.old.Ref.String(), "path": place}}
	}
	return err
}

// renamed returns the bytes of an item, without signatures, with what it says of its own place changed.
func renamed(v *spaces.Items, it *ai.Item, ref model.Ref, to string, ans *mvAnswer) ([]byte, error) {
	says := []struct{ field, old, new string }{{"name", it.Ref.Name(), ref.Name()}, {"category", it.Ref.Category(), ref.Category()}}
	if it.Ref.Kind == "knowledge" {
		says[0].field = "id"
	}
	type change struct {
		at              value.Pos
		field, old, new string
	}
	var changes []change
	for _, s := range says {
		f := it.Model.Fields.Get(s.field)
		if f == nil || f.Kind != value.Text || f.Text != s.old || s.old == s.new || f.At == it.Model.Fields.At {
			continue // it says something else, or nothing and is called by its file
		}
		ans.Edited = append(ans.Edited, editLine{s.field, f.At.Line, s.old, s.new})
		changes = append(changes, change{f.At, s.field, s.old, s.new})
	}
	slices.SortFunc(changes, func(a, b change) int { return b.at.Compare(a.at) }) // the last one first, for places to stay
	b := it.Bytes
	place := v.Place(it.Space, it.Path)
	for _, c := range changes {
		var out []byte
		ok := false
		for _, bare := range []string{"", `"`} { // YAML takes null for nothing, and 2024 for a number, where no quotes are around them
			if out, ok = ReplaceAt(b, c.at, c.old, c.new, bare); ok {
				f := it.Kind.Read(ref, to, out).Fields.Get(c.field)
				ok = f != nil && f.Kind == value.Text && f.Text == c.new
			}
			if ok {
				break
			}
		}
		if !ok {
			return nil, &fault.Error{Code: fault.Validation,
				Text:    fmt.Sprintf("%s:%d:%d: %q has to become %q, in a place that can't be changed safely", place, c.at.Line, c.at.Column, c.old, c.new),
				Why:     []string{"change it by hand, together with the name of the file"},
				Details: map[string]any{"file": place, "line": c.at.Line, "column": c.at.Column}}
		}
		b = out
	}
	style := it.Kind.Style(to)
	if style != sign.NoStyle {
		var err error
		if b, err = sign.Strip(b, style); err != nil {
			return nil, err
		}
		b = sign.StripV1(b, style)
	}
	// What was right must be right afterwards, and say what it should.
	after := it.Kind.Read(ref, to, b)
	for _, p := range after.Problems {
		if !p.Warning && !it.Model.Invalid() {
			return nil, &fault.Error{Code: fault.Validation,
				Text:    fmt.Sprintf("%q would be invalid: %s:%d:%d: %s", ref, place, p.At.Line, p.At.Column, p.Message),
				Details: map[string]any{"file": place, "line": p.At.Line, "column": p.At.Column}}
		}
	}
	return b, nil
}

// ReplaceAt puts new in the place of old where a field's value begins: with or without quotes around it, or behind the
// field's name as in XML. Where there are none, bare comes around the new one. It is false where something else stands
// there.
func ReplaceAt(file []byte, at value.Pos, old, new, bare string) ([]byte, bool) {
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
		if rest, ok := bytes.CutPrefix(file[i:], []byte(quote+old+quote)); ok && (quote != "" || old != "" && ends(rest)) {
			around := cmp.Or(quote, bare)
			return slices.Concat(file[:i], []byte(around+new+around), rest), true
		}
	}
	return nil, false
}

// ends reports whether a word without quotes ends where the rest begins.
func ends(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	c := rest[0]
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-/", c) >= 0 || c >= utf8.RuneSelf)
}

// signer is the key that signs the item under its new name; none where it wasn't signed.
func (c *mvRun) signer(ctx context.Context, v *spaces.Items, m *move, ans *mvAnswer) (trusts.Signer, error) {
	it := m.old
	if it.Signed.Format == sign.None && it.Broken == nil && !c.Sign {
		return trusts.Signer{}, nil
	}
	k, err := trusts.SigningKey(ctx, v.App, c.Key)
	if err != nil {
		return trusts.Signer{}, err
	}
	if err := v.CheckSignable(ctx, it); err != nil {
		return trusts.Signer{}, err
	}
	own := k.Public().Fingerprint()
	found, err := v.Admit.Admit(ctx, it, policy.ToUse)
	good := err == nil && found.Decision.Allowed
	if good {
		good = slices.ContainsFunc(found.Signers, func(s sign.Signer) bool { return s.Key.Fingerprint() == own && s.Format == sign.V2 })
	}
	if !good && !c.Sign {
		f := &fault.Error{Code: fault.Policy, Err: err, Text: fmt.Sprintf("%q is not signed by %q, or no longer as it was signed", it.Ref, k.Name),
			Why:     []string{"moving it means to sign it anew, as what it is now"},
			Hint:    []string{"rye show " + fault.Quote(it.Ref.String()), "rye mv --sign " + fault.Quote(c.Ref) + " " + fault.Quote(c.NewID)},
			Details: map[string]any{"reason": "not-own", "ref": it.Ref.String()}}
		return trusts.Signer{}, f
	}
	for _, l := range it.Signed.Lines {
		if l.Key != own {
			ans.Lost = append(ans.Lost, l.Key.String())
		}
	}
	ans.Signed, ans.Key = true, own.String()
	return k, nil
}

// openMove writes what is new, the item last, and then removes what is old, the item first: whenever it is interrupted,
// an item that is there is there with all its parts.
func openMove(ctx context.Context, v *spaces.Items, m *move, k trusts.Signer) error {
	s := m.old.Space
	d, err := places.OpenAI(s.Dir, s.Level)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, f := range m.with.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := places.TreeFile(s, path.Join(m.with.dir, f.Path), f.Raw)
		if err == nil {
			err = d.Write(path.Join(m.dir, f.Path), places.FileMode(f.Mode.String() == "exec"), true, b)
		}
		if err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o644)
	if fi, err := fs.Lstat(s.FS, m.old.Path); err == nil {
		mode = fi.Mode().Perm()
	}
	anchor, _ := v.Admit.Anchor(ctx, m.old)
	if anchor != nil && path.Dir(m.old.Path) == path.Dir(m.new.Path) {
		return renameInPlace(ctx, v, d, m, k, mode)
	}
	if err := write(ctx, v, m.new, k, mode); err != nil {
		return err
	}
	return remove(ctx, v, removal{m.old, m.with})
}

// renameInPlace is for a tool that stays in the directory of its tree: that is all of it but the tool, so the old file
// must be gone when the new one is signed.
func renameInPlace(ctx context.Context, v *spaces.Items, d *osfile.Dir, m *move, k trusts.Signer, mode fs.FileMode) error {
	if err := write(ctx, v, m.new, trusts.Signer{}, mode); err != nil {
		return err
	}
	if err := d.Remove(m.old.Path); err != nil {
		return err
	}
	if k.Name == "" {
		return nil
	}
	b, err := signs.Signed(ctx, v, m.new, k)
	if err != nil {
		return err
	}
	m.new = places.Draft(m.new.Kind, m.new.Ref, m.new.Space, m.new.Path, b)
	return d.Write(m.new.Path, mode, false, b)
}
