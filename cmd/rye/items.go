package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// stdLabel is the space of the library in the binary.
const stdLabel = "system:rye/std"

// items is what one command sees of items: the project's space over the user's over installed bundles over the library.
// In the grammar of a command refs carry the tag complete:"ref", those that must be of a space that can be changed
// "own", kinds "kind", spaces "space" and bundles "bundle".
type items struct {
	*ai.View
	app     *app
	trust   *trust          // nil: there is no policy, and nothing but the library is admitted
	admit   *ai.Admitter    // remembers for one command
	asked   *bundle.Listing // whom admit asks; nil without a policy
	project *ai.Space       // nil outside of projects, and where the project has no .ai
	user    *ai.Space       // nil where it doesn't count, or isn't there
	root    project         // zero outside of projects
	bundles *bundles        // whose files are read
	lock    *locking        // of the project; nil outside
	unread  []unreadBundle  // of the lock
}

// items opens what can be seen from the project, or from outside of any. Without a policy everything can be seen and
// nothing is trusted. In a project with rye.yaml the user space doesn't count: what runs there is in the project, or
// locked.
func (a *app) items(ctx context.Context) (_ *items, err error) {
	v := &items{app: a}
	if v.root, err = a.project(); err != nil && !errors.Is(err, errNoProject) {
		return nil, err
	}
	if v.trust, err = a.trust(); err != nil && !isNobody(err) {
		return nil, err
	}
	c := ai.Options{Spaces: []*ai.Space{librarySpace()}}
	if v.trust != nil {
		var dirs []string
		if v.root.root != "" {
			dirs = append(dirs, v.root.root)
		}
		if home := a.userBase(); home.err == nil && (v.root.marker != markerFile || a.allowUser) {
			dirs = append(dirs, home.value)
		}
		v.asked = v.trust.listing(ctx, dirs...)
		c.Trust, c.MayOverride = v.asked, v.trust.root.side.Policy.MayOverride
	}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	open := func(dir string, level ai.Level) (*ai.Space, error) {
		s, err := ai.OpenDir(dir, level.String(), level)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err == nil {
			c.Spaces = append(c.Spaces, s)
		}
		return s, err
	}
	if v.root.root != "" {
		if v.project, err = open(v.root.dotAI(), ai.Project); err != nil {
			return nil, err
		}
	}
	if s := userSpace(a.userBase()); s.err == nil && (v.root.marker != markerFile || a.allowUser) {
		if v.user, err = open(s.value, ai.User); err != nil {
			return nil, err
		}
	}
	if v.root.root != "" {
		c.Spaces = v.addLocked(ctx, c.Spaces)
	} else if c.Spaces, err = v.addInstalled(ctx, c.Spaces); err != nil {
		return nil, err
	}
	if v.View, err = ai.NewView(ctx, c); err != nil {
		return nil, err
	}
	v.admit = ai.NewAdmitter(v.View, c.Trust)
	a.warnExtractors(v.Warnings())
	return v, nil
}

// warnExtractors says which extractors don't count, and once what is the same of many.
func (a *app) warnExtractors(all []*ai.ItemError) {
	reasons := make([]string, len(all))
	more := map[string]int{}
	for i, w := range all {
		reasons[i] = strings.TrimPrefix(classify(w).Text, fmt.Sprintf("%q ", w.Ref))
		more[reasons[i]]++
	}
	for i, w := range all {
		n := more[reasons[i]] - 1
		switch {
		case n > 0:
			a.term.warn("extractors: %s; so it is with %d more", classify(w).Text, n)
		case n == 0:
			a.term.warn("extractors: %s", classify(w).Text)
		}
		more[reasons[i]] = 0
	}
}

// close closes the spaces.
func (v *items) close() {
	for _, s := range []*ai.Space{v.project, v.user} {
		if s != nil {
			s.Close()
		}
	}
	switch {
	case v.lock != nil:
		v.lock.close()
	case v.bundles != nil:
		v.bundles.close()
	}
}

// addInstalled puts the installed bundles before the library, which count outside of projects. One that can't be read
// is a warning: it is in nobody's way.
func (v *items) addInstalled(ctx context.Context, spaces []*ai.Space) ([]*ai.Space, error) {
	v.bundles = &bundles{app: v.app}
	space, err := v.bundles.space()
	if err != nil {
		return spaces, nil // no home, nothing installed
	}
	all, err := v.bundles.installedAll(ctx, space)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		v.app.term.warn("installed bundles: %s", classify(err).Text)
	}
	if len(all) == 0 {
		return spaces, nil
	}
	if _, err := v.bundles.store(false); err != nil {
		v.app.term.warn("%s installed, and their files can't be read: %s", fault.Count(int64(len(all)), "bundle"), classify(err).Text)
		return spaces, nil
	}
	if space, err = v.bundles.space(); err != nil {
		return nil, err
	}
	for _, at := range all {
		s, err := space.Open(ctx, at.BundleID)
		if err != nil {
			v.app.term.warn("the bundle %q: %s", at.BundleID, classify(err).Text)
			continue
		}
		spaces = append(spaces, s)
	}
	return spaces, nil
}

// named returns the spaces of a label or of its first part, as system is the bundles and the library.
func (v *items) named(label string) (spaces []*ai.Space, err error) {
	var labels []string
	for _, s := range v.Spaces() {
		if s.Label == label || strings.HasPrefix(s.Label, label+":") {
			spaces = append(spaces, s)
		}
		labels = append(labels, s.Label)
	}
	if spaces == nil {
		return nil, unknownName("space", label, labels)
	}
	return spaces, nil
}

// isMerged reports whether an item and those of its name in lower spaces count together, as config does: of all others
// the highest one hides the rest.
func isMerged(ref string) bool { return strings.HasPrefix(ref, "config:") }

// kind returns the kind of a name.
func (v *items) kind(name string) (*model.Kind, error) {
	if k, ok := v.Kind(name); ok {
		return k, nil
	}
	var names []string
	for _, k := range v.Kinds() {
		names = append(names, k.Name)
	}
	return nil, unknownName("kind", name, names)
}

// unknownName is the refusal of a word that is none of a few.
func unknownName(what, word string, names []string) *fault.Error {
	f := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("there is no %s %q", what, word),
		Why: []string{"expected one of " + strings.Join(names, ", ")}, Details: map[string]any{what: word}}
	if meant := near.Names(word, names); len(meant) > 0 {
		f.Why = append(f.Why, "did you mean "+strings.Join(meant, ", ")+"?")
		f.Details["did_you_mean"] = meant
	}
	return f
}

// An itemArg is what an argument of a command stands for: the item of a ref, those that a glob covers, or what is at
// a path in a space.
type itemArg struct {
	text  string
	ref   model.Ref  // zero with glob and space
	glob  *glob.Glob // nil unless there are stars
	space *ai.Space  // of a path
	path  string     // in the space; of a file or directory
	dir   bool
}

// arg reads an argument. What has a star is a glob over refs, what has a known kind and a colon a ref, and all else a
// path.
func (v *items) arg(text string) (itemArg, error) {
	arg := itemArg{text: text}
	kind, id, colon := strings.Cut(text, ":")
	_, known := v.Kind(kind)
	switch {
	case strings.Contains(text, "*"):
		g, err := glob.Parse(text)
		if err != nil {
			return arg, &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is no glob over refs: %s", text, err),
				Hint: []string{"rye ls '**'", "rye ls 'tool:acme/**'"}, Details: map[string]any{"ref": text}}
		}
		arg.glob = &g
		if colon {
			_, err := v.kind(kind)
			return arg, err
		}
		return arg, nil
	case known:
		ref, err := model.ParseRef(text)
		if err != nil {
			return arg, badRef(text, err)
		}
		arg.ref = ref
		return arg, nil
	}
	if ok, err := v.pathArg(&arg); ok || err != nil {
		return arg, err
	}
	if colon && id != "" && model.CheckKind(kind) == nil {
		_, err := v.kind(kind)
		return arg, err
	}
	return arg, v.notAnItem(text)
}

func badRef(text string, err error) *fault.Error {
	return &fault.Error{Code: fault.Validation, Err: err, Text: fmt.Sprintf("%q is no ref: %s", text, cmp.Or(errors.Unwrap(err), err)),
		Why:     []string{"a ref is kind:id, as in tool:acme/fetch"},
		Details: map[string]any{"ref": text}}
}

// notAnItem says that a text is neither a ref nor the path of a file, and which refs end like it.
func (v *items) notAnItem(text string) error {
	f := &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("%q is neither a ref nor a file", text),
		Why: []string{"a ref is kind:id, as in tool:acme/fetch"}, Hint: []string{"rye ls"}, Details: map[string]any{"ref": text}}
	var meant []string
	for _, k := range v.Kinds() {
		ref := model.Ref{Kind: k.Name, ID: text}
		if all, err := v.All(context.Background(), ref); err == nil && len(all) > 0 {
			meant = append(meant, ref.String())
		}
	}
	if len(meant) > 0 {
		f.Why = append(f.Why, "did you mean "+strings.Join(meant, ", ")+"?")
		f.Details["did_you_mean"] = meant
	}
	return f
}

// pathArg reads an argument as a path in a space. It is false where there is nothing at the path.
func (v *items) pathArg(arg *itemArg) (bool, error) {
	s := v.app.absolute(setting{value: arg.text})
	if s.err != nil {
		return false, s.err
	}
	fi, err := os.Lstat(s.value)
	if err != nil {
		return false, nil // whatever it is, it is no item
	}
	paths := []string{s.value}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(s.value)); err == nil {
		paths = append(paths, filepath.Join(dir, filepath.Base(s.value)))
	}
	for _, space := range v.Spaces() {
		if space.Dir == "" {
			continue
		}
		dirs := []string{space.Dir}
		if dir, err := filepath.EvalSymlinks(space.Dir); err == nil {
			dirs = append(dirs, dir)
		}
		for _, p := range paths {
			for _, dir := range dirs {
				rel, err := filepath.Rel(dir, p)
				if err != nil || !filepath.IsLocal(rel) {
					continue
				}
				arg.space, arg.path, arg.dir = space, filepath.ToSlash(rel), fi.IsDir()
				return true, nil
			}
		}
	}
	f := &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is in no space", arg.text),
		Why: []string{"items are below .ai of the project, or of the user outside of projects"}, Details: map[string]any{"path": arg.text}}
	for _, space := range v.Spaces() {
		if space.Dir != "" {
			f.Why = append(f.Why, fmt.Sprintf("%-9s %s", space.Label, space.Dir))
		}
	}
	return true, f
}

// find returns the one item that an argument stands for: that of the highest space, or that at a path.
func (v *items) find(ctx context.Context, text string) (*ai.Item, error) {
	arg, err := v.arg(text)
	switch {
	case err != nil:
		return nil, err
	case arg.glob != nil || arg.dir:
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q may be many items, and one is needed", text),
			Hint: []string{"rye ls " + fault.Quote(text)}, Details: map[string]any{"ref": text}}
	case arg.space != nil:
		f, err := v.At(arg.space, arg.path)
		if err != nil {
			return nil, err
		}
		return v.Load(ctx, f)
	}
	return v.Find(ctx, arg.ref)
}

// covers reports whether an argument stands for a file; a ref and a glob for those of all spaces.
func (arg *itemArg) covers(ref model.Ref, s *ai.Space, path string) bool {
	switch {
	case arg.glob != nil:
		return ref.Kind != "" && arg.glob.Match(glob.Name{Kind: ref.Kind, ID: ref.ID})
	case arg.space != nil:
		return arg.space == s && (arg.path == path || arg.dir && (arg.path == "." || strings.HasPrefix(path, arg.path+"/")))
	}
	return arg.ref == ref
}

// list returns the files that arguments stand for, each once and in the order of a listing, and what is wrong there;
// without arguments those of all items. An argument that stands for nothing is an error. Among the files are such
// that carry no mark, which only loading them tells (ai.ErrAsset).
func (v *items) list(ctx context.Context, texts ...string) (*ai.Listing, error) {
	args := make([]itemArg, len(texts))
	var kinds []string // to look at; none for all
	for i, text := range texts {
		var err error
		if args[i], err = v.arg(text); err != nil {
			return nil, err
		}
		if args[i].ref.Kind != "" {
			kinds = append(kinds, args[i].ref.Kind)
		}
	}
	if len(kinds) < len(args) {
		kinds = nil
	}
	l, err := v.Files(ctx, kinds...)
	if err != nil || len(args) == 0 {
		return l, err
	}
	found := make([]bool, len(args))
	covered := func(ref model.Ref, s *ai.Space, path string) (any bool) {
		for i := range args {
			if args[i].covers(ref, s, path) {
				found[i], any = true, true
			}
		}
		return any
	}
	out := &ai.Listing{}
	for _, f := range l.Files {
		if covered(f.Ref, f.Space, f.Path) {
			out.Files = append(out.Files, f)
		}
	}
	for _, p := range l.Problems {
		ref := p.Ref
		if ref == (model.Ref{}) {
			if f, err := v.At(p.Space, p.Path); err == nil {
				ref = f.Ref
			}
		}
		if covered(ref, p.Space, p.Path) {
			out.Problems = append(out.Problems, p)
		}
	}
	for i := range args {
		if !found[i] {
			return nil, v.nothingAt(ctx, &args[i])
		}
	}
	return out, nil
}

// nothingAt says why an argument stands for nothing.
func (v *items) nothingAt(ctx context.Context, arg *itemArg) error {
	switch {
	case arg.glob != nil || arg.dir:
		f := &fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("%q covers no item", arg.text), Hint: []string{"rye ls"},
			Details: map[string]any{"ref": arg.text}}
		if arg.dir {
			strays, err := v.straysBelow(ctx, arg.space, arg.path, newKnownFiles())
			if err != nil {
				return err
			}
			for _, g := range strayGroups(strays) {
				f.Why = append(f.Why, v.place(arg.space, g.Path)+" "+g.words())
			}
		}
		return f
	case arg.space != nil:
		f, err := v.At(arg.space, arg.path)
		if err == nil {
			err = &ai.ItemError{Ref: f.Ref, Space: f.Space, Path: f.Path, Err: ai.ErrAsset}
		}
		return err
	}
	_, err := v.Find(ctx, arg.ref)
	return cmp.Or(err, fmt.Errorf("%q: %w", arg.ref, fs.ErrNotExist))
}

// each loads files, several at once, and hands each to f with its place in the list, from many goroutines. It stops
// for its context alone.
func (v *items) each(ctx context.Context, files []ai.File, f func(i int, it *ai.Item, err error)) error {
	return inParallel(ctx, len(files), func(i int) {
		it, err := v.Load(ctx, files[i])
		f(i, it, err)
	})
}

// place names a file of a space as people find it: by its path from the working directory, if it is below that, else
// from the root; by its space where it is on no disk.
func (v *items) place(s *ai.Space, path string) string {
	if s.Dir == "" {
		return s.Label + "/" + path
	}
	return v.app.fromHere(filepath.Join(s.Dir, filepath.FromSlash(path)))
}

// fromHere is the path of a file as it is typed: from the working directory, if it is below that, else from the root.
func (a *app) fromHere(full string) string {
	wd, err := a.getwd()
	if err != nil {
		return full
	}
	dirs := []string{wd}
	if real, err := filepath.EvalSymlinks(wd); err == nil {
		dirs = append(dirs, real)
	}
	for _, dir := range slices.Compact(dirs) {
		if rel, err := filepath.Rel(dir, full); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return full
}
