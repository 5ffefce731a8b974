package create

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/secret"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// dotAI is the directory of items.
const dotAI = ".ai"

// A check examines a bundle's files as its users will see them: as a space of the system above the spaces below it,
// without the rest of their project.
type check struct {
	*creation
	space    *ai.Space
	view     *ai.View
	asked    *bundle.Listing
	admitter *ai.Admitter
	items    map[string]ai.File // by path in the space
	kinds    map[string]bool    // the directories of kinds

	assets sync.Mutex
	rest   []int // the files whose bytes are still to be searched
}

// check finds all reasons to refuse the files, and the items among them.
func (c *creation) check(ctx context.Context) error {
	k := &check{creation: c, items: map[string]ai.File{}, kinds: map[string]bool{}}
	if err := k.look(ctx); err != nil {
		return err
	}
	if err := cas.Parallel(ctx, 0, len(c.files), func(_ context.Context, i int) error {
		return k.file(ctx, i)
	}); err != nil {
		return err
	}
	bundle.Revoked(k.Trust, k.name(), k.files, func(f *manifest.File, d policy.Decision) {
		if f.Ref == "" {
			k.problem(f.Path, "", &bundle.NotAdmittedError{Name: f.Path, Decision: d})
		}
	})
	scanned := make(chan error, 1)
	go func() { scanned <- k.scan(ctx) }()
	c.encode() // encode uses one processor meanwhile
	return <-scanned
}

// look finds the items, by the files below .ai.
func (k *check) look(ctx context.Context) error {
	// k.file writes into the list, so another list must be read meanwhile.
	k.asked = &bundle.Listing{Trust: k.Trust, Listed: k.lists}
	var err error
	if k.space, k.view, err = bundle.View(ctx, k.Store, &k.headed, slices.Clone(k.files), k.Below,
		k.asked); err != nil {
		return err
	}
	k.space.Dir = filepath.Join(k.Dir, filepath.FromSlash(k.layout.Items))
	k.admitter = ai.NewAdmitter(k.view, k.asked)
	for _, w := range k.view.Warnings() {
		if w.Space == k.space {
			k.result.Warnings = append(k.result.Warnings, w)
		}
	}
	for _, kind := range k.view.Kinds() {
		k.kinds[kind.Dir] = true
	}
	listing, err := k.view.Files(ctx)
	if err != nil {
		return err
	}
	for _, p := range listing.Problems {
		if p.Space == k.space {
			k.problem(k.layout.Items+"/"+p.Path, refOf(p), p.Err)
		}
	}
	for _, f := range listing.Files {
		if f.Space == k.space {
			k.items[f.Path] = f
		}
	}
	return nil
}

func refOf(p *ai.ItemError) string {
	if p.Ref.Kind == "" {
		return ""
	}
	return p.Ref.String()
}

// lists asks Listed, and records that the answer made a difference.
func (k *check) lists(raw cas.Digest) bool {
	if k.Listed == nil || !k.Listed(raw) {
		return false
	}
	k.beside.Store(true)
	return true
}

// file checks one file. An error is about the store or the context.
func (k *check) file(ctx context.Context, i int) error {
	file := &k.files[i]
	if found, ok := secret.Named(file.Path); ok && !k.allows(file.Path) {
		k.problem(file.Path, "", &SecretError{found})
	}
	if in, ok := k.layout.In(file.Path); ok {
		if !k.kinds[firstOf(in)] {
			k.problem(file.Path, "", errNoKind)
		}
		if at, ok := k.items[in]; ok {
			isItem, err := k.item(ctx, i, at)
			if isItem || err != nil {
				return err
			}
		}
	} else if k.Recipe.Plugin {
		// .ai is a directory like any other
	} else if file.Path == dotAI {
		k.problem(file.Path, "", errNoAI)
	} else if portable.Fold(firstOf(file.Path)) == dotAI {
		k.problem(file.Path, "", errOtherAI)
	}
	if k.read[i] {
		k.told(file, k.secrets[file.Path])
		return nil
	}
	k.assets.Lock()
	k.rest = append(k.rest, i)
	k.assets.Unlock()
	return nil
}

// scan searches files for secrets that are no items and weren't searched when they were read, in the order that is
// cheapest for the store.
func (k *check) scan(ctx context.Context) error {
	ids := make([]cas.ID, len(k.rest))
	for n, i := range k.rest {
		ids[n] = cas.ID{Kind: cas.Blob, Digest: k.files[i].Digest}
	}
	return cas.Fetch(ctx, k.Store, ids, func(n int, o cas.Object) error { return k.search(&k.files[k.rest[n]], o) })
}

// item checks a possible item, and reports whether it is one.
func (k *check) item(ctx context.Context, i int, at ai.File) (bool, error) {
	file := &k.files[i]
	it, err := k.view.Load(ctx, at)
	switch {
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case errors.Is(err, ai.ErrAsset) && !errors.Is(err, ai.ErrGone):
		return false, nil
	case err != nil:
		k.problem(file.Path, at.Ref.String(), reason(err))
		return false, nil
	}
	file.Ref, file.Version = it.Ref.String(), it.Model.Version
	bad := func(err error) { k.problem(file.Path, file.Ref, err) }
	if it.Model.Invalid() {
		bad(&InvalidError{it.Ref, it.Model.Problems})
	}
	if err := bundle.MayHave(&k.headed, it.Model); err != nil {
		bad(err)
	}
	admission, err := k.admitter.Admit(ctx, it, policy.ToUse)
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	if err == nil && admission.Decision.Allowed {
		if files := k.asked.Unlisted(admission); len(files) > 0 {
			bad(unlisted(it.Ref, files))
		}
		return true, k.searchItem(i, it)
	}
	helper := k.helpers(ctx, it, err)
	if helper != nil {
		bad(helper)
	}
	if err == nil {
		bad(ai.NotAdmitted(it.Ref, file.Path, admission.Decision))
	} else if helper == nil {
		bad(reason(err))
	}
	return true, k.searchItem(i, it)
}

// reason returns an error's cause without the file's path, which is reported separately.
func reason(err error) error {
	if ie, ok := errors.AsType[*ai.ItemError](err); ok {
		return ie.Err
	}
	if _, ok := errors.AsType[*ai.NotFoundError](err); ok {
		return fmt.Errorf("%w in the bundle, its requirements or the library", err)
	}
	return err
}

// helpers returns the files of a tool that isn't admitted which the bundle lacks. Without these files even the anchor
// may be inactive: then a signature that covers other files shows that they are missing. An admitted tool has all its
// signed files.
func (k *check) helpers(ctx context.Context, it *ai.Item, admitted error) error {
	if it.Model.Tool == nil || len(k.left) == 0 {
		return nil
	}
	dir, below := strings.TrimSuffix(it.Path, "/"+lastOf(it.Path)), ""
	anchor, err := k.admitter.Anchor(ctx, it)
	_, differs := errors.AsType[*sign.IntegrityError](admitted)
	switch {
	case err == nil && anchor != nil:
		dir, below = anchor.Dir, anchor.Below
	case !differs:
		return nil
	}
	prefix := k.layout.Items + "/" + dir + "/"
	if below != "" {
		prefix += below + "/"
	}
	i, _ := slices.BinarySearch(k.left, prefix)
	j, _ := slices.BinarySearch(k.left, prefix[:len(prefix)-1]+"0")
	if i == j {
		return nil
	}
	return missingFiles(it.Ref, strings.TrimSuffix(prefix, "/"), k.left[i:j])
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// searchItem searches the bytes of an item for secrets.
func (k *check) searchItem(i int, it *ai.Item) error {
	f := &k.files[i]
	if k.read[i] {
		k.told(f, k.secrets[f.Path])
		return nil
	}
	return k.search(f, bytes.NewReader(it.Bytes))
}

// search searches the bytes of a file for secrets.
func (k *check) search(f *manifest.File, r io.Reader) error {
	found, err := k.scanners.scan(f.Path, r)
	if err == nil && !k.allows(f.Path) {
		k.told(f, found)
	}
	return err
}

// told records secrets as problems.
func (k *check) told(f *manifest.File, found []secret.Finding) {
	for _, at := range found {
		k.problem(f.Path, f.Ref, &SecretError{at})
	}
}

// scanners are reused for the next file.
type scanners struct{ free sync.Pool }

func (all *scanners) scan(path string, r io.Reader) ([]secret.Finding, error) {
	s, _ := all.free.Get().(*secret.Scanner)
	if s == nil {
		s = secret.NewScanner()
	}
	defer all.free.Put(s)
	return s.Scan(path, r)
}
