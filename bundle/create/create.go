package create

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/bundle/secret"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cas/worktree"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
)

// A Store stores the bytes of a bundle.
type Store interface {
	cas.Store
	cas.Batcher
}

// Options are the inputs of Create. Dir, Recipe, Trust, Store and Sign are required.
type Options struct {
	Dir    string // the directory that holds .ai
	Recipe *recipe.Recipe
	Trust  *admission.Trust // decides about items, and has the time
	// Below are the spaces that the bundle's items may use: the required bundles and the library, but not an
	// installed version of the bundle itself.
	Below []*ai.Space
	// Listed reports whether an admitted manifest lists a raw digest, which a v1 signature requires. Nil: none does.
	Listed func(raw cas.Digest) bool
	Store  Store
	// Sign adds signatures to the manifest.
	// Keys returns the public keys of signers, which a plugin carries. Optional.
	Keys func(manifest.Signatures) []manifest.SignerKey
	Sign func(*manifest.Document) error
	// Lock locks a manifest's path against other writers until unlock is called. Create calls unlock after it has
	// merged their signatures and written. A path without a manifest needs no lock. Nil: no other process writes it.
	Lock func(ctx context.Context, path string) (unlock func(), err error)

	Cache    *statcache.Cache  // caches digests of files; nil: read all files
	Memory   *Memory           // caches results of checks; nil: check everything
	Journal  *rollback.Journal // of released versions, which never change; nil: none is known
	Paranoid bool              // ignore both caches
	DryRun   bool              // stop before signing and writing; the caller discards the Store
	Progress func(files, bytes int64)

	// noModes is set if the file system has no executable bits.
	noModes bool
}

// A Result is the bundle that Create made.
type Result struct {
	bundle.Bundle
	Text       []byte                // of the manifest, without signature lines
	Tree       cas.Digest            // of the files, in the Store; zero if their modes differ there
	Path       string                // of the manifest, relative to Dir
	Written    bool                  // the manifest is new or changed
	Items      int                   // number of items among the files
	Read       int64                 // number of files read from the directory
	Remembered bool                  // the Memory made all checks unnecessary
	Warnings   []*ai.ItemError       // about ignored extractors in the bundle
	Unused     []*recipe.UnusedError // patterns of the recipe that match nothing
}

// Create makes a bundle of a directory's files: it stores them, checks all of them, and finally writes a signed
// manifest. A *RefusedError has all reasons why the files can't be bundled. After any error the old manifest remains,
// and gc removes the stored objects, which have no ref.
//
// Create checks the stored bytes. Files that change meanwhile therefore make another bundle, but never one with
// unchecked content.
func Create(ctx context.Context, options Options) (*Result, error) {
	if runtime.GOOS == "windows" {
		options.noModes = true
	}
	list := options.head()
	layout := bundle.LayoutOf(&list)
	if options.Memory != nil && options.Memory.Under.IsZero() {
		options.Memory = nil
	}
	c := &creation{Options: options, headed: list, layout: layout, result: &Result{Path: layout.Manifest},
		secrets: map[string][]secret.Finding{}}
	defer c.flushing.Wait()
	if err := c.create(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return c.result, nil
}

// A creation is the state of one Create.
type creation struct {
	Options
	headed manifest.FileList // the manifest without the files
	layout bundle.Layout
	result *Result
	old    *bundle.Bundle // the existing manifest, or nil
	oldRaw []byte         // its bytes
	fresh  bool           // the manifest's path is free
	files  []manifest.File
	read   []bool      // which of files were read and searched for secrets
	beside atomic.Bool // a file is admitted only because Listed reports it

	flushing sync.WaitGroup // of the cache, which is complete by then

	text     []byte // the manifest's body without evidence, once encoded
	textList *manifest.FileList

	scanners scanners
	mu       sync.Mutex
	secrets  map[string][]secret.Finding // found by look
	left     []string                    // files in .ai that don't belong to the bundle
	outside  []string                    // files elsewhere that don't, and directories, which end in a slash
	problems []Problem
}

func (c *creation) create(ctx context.Context) error {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.readOld(root)
	}()
	if c.noModes || c.Recipe.Plugin { // the last manifest knows which files are executable, and its evidence
		<-read
	}
	err = c.collect(ctx)
	<-read
	if err != nil {
		return err
	}
	if len(c.problems) == 0 {
		c.unused()
	}
	if len(c.files) == 0 && len(c.problems) == 0 {
		c.problem("", "", ErrEmpty)
	}
	if e := c.Recipe.Expires; !e.IsZero() && !c.Trust.Now.Before(e) {
		c.problem("", "", &admission.ExpiredError{Name: c.name(), Expires: e, Now: c.Trust.Now})
	}
	under := c.state()
	if len(c.problems) > 0 || !c.recall(ctx, under) {
		if err := c.check(ctx); err != nil {
			return err
		}
	}
	c.entrypoint()
	if err := c.refused(); err != nil {
		return err
	}
	return c.finish(ctx, root, under)
}

func (c *creation) name() string { return "bundle:" + c.Recipe.ID + "@" + c.Recipe.Version }

// collect stores the files and lists them.
func (c *creation) collect(ctx context.Context) error {
	batch, err := c.Store.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	var mu sync.Mutex
	var dirs [][]listed
	options := worktree.Options{Skip: c.skip, Progress: c.Progress, Look: c.look, Files: func(of []worktree.File) {
		list := make([]listed, len(of))
		for i, f := range of {
			list[i] = listed{manifest.File{Path: f.Path, Digest: f.Digest, Size: f.Size,
				Mode: c.mode(f.Path, f.Entry.Mode)}, f.Read}
		}
		mu.Lock()
		defer mu.Unlock()
		dirs = append(dirs, list)
	}}
	if !c.Paranoid {
		options.Cache = c.Cache
	}
	made, err := worktree.Import(ctx, batch, c.Dir, options)
	if refused, ok := errors.AsType[*worktree.RefusedError](err); ok {
		for _, p := range refused.Problems {
			c.problem(p.Path, "", p.Err)
		}
		if refused.More {
			c.problem("", "", errMore)
		}
		return nil
	}
	if err != nil {
		return err
	}
	c.result.Read = made.Read
	if !c.noModes {
		c.result.Tree = made.ID.Digest
	}
	if options.Cache != nil {
		c.flushing.Go(func() { options.Cache.Flush(ctx) })
	}
	committed := make(chan error, 1)
	go func() { committed <- batch.Commit(ctx) }()
	c.list(dirs)
	slices.Sort(c.left)
	return <-committed
}

// A listed file is one of worktree.Files.
type listed struct {
	manifest.File
	read bool
}

// list merges the sorted files of all directories. The files below a directory come between two files of its parent.
func (c *creation) list(dirs [][]listed) {
	slices.SortFunc(dirs, func(a, b []listed) int { return strings.Compare(a[0].Path, b[0].Path) })
	n := 0
	for _, files := range dirs {
		n += len(files)
	}
	c.files, c.read = make([]manifest.File, 0, n), make([]bool, 0, n)
	var open [][]listed // the remaining files of a directory, and of those above it
	before := func(end string) {
		for len(open) > 0 {
			top := &open[len(open)-1]
			n := len(*top)
			if end != "" {
				n, _ = slices.BinarySearchFunc(*top, end, func(f listed, end string) int {
					return strings.Compare(f.Path, end)
				})
			}
			for i := range (*top)[:n] {
				c.files, c.read = append(c.files, (*top)[i].File), append(c.read, (*top)[i].read)
			}
			if *top = (*top)[n:]; len(*top) > 0 {
				return
			}
			open = open[:len(open)-1]
		}
	}
	for _, files := range dirs {
		before(files[0].Path)
		open = append(open, files)
	}
	before("")
}

// look searches a file for secrets while it is read. check reports the result once the items are known.
func (c *creation) look(path string, r io.Reader) error {
	found, err := c.scanners.scan(path, r)
	if err != nil || len(found) == 0 || c.allows(path) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets[path] = found
	return nil
}

// skip reports which paths the bundle leaves out. It enters every directory in .ai, because a tool's files outside
// the bundle must be found.
func (c *creation) skip(path string, dir bool) bool {
	if c.Recipe.Plugin {
		return path == ".git" || !dir && c.ofManifest(path)
	}
	if path == ".ai" {
		return false
	}
	in, ok := strings.CutPrefix(path, ".ai/")
	switch {
	case !ok && dir && c.Recipe.Below(path):
		return false
	case !ok && dir:
		path += "/" // for a directory that isn't entered
	case ok && recipe.Never(firstOf(in)):
		return true
	case dir:
		return false
	case c.Recipe.Includes(path):
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.left = append(c.left, path)
	} else {
		c.outside = append(c.outside, path)
	}
	return true
}

// unused finds patterns that match nothing. A pattern for a required file is a problem.
func (c *creation) unused() {
	bundled := make([]string, len(c.files))
	for i := range c.files {
		bundled[i] = c.files[i].Path
	}
	for _, e := range c.Recipe.Unused(bundled, slices.Concat(c.left, c.outside)) {
		if e.Missing {
			c.problem("", "", e)
		} else {
			c.result.Unused = append(c.result.Unused, e)
		}
	}
}

func firstOf(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}

// mode returns a file's mode where the file system has no executable bits: the recipe's, or the last manifest's.
func (c *creation) mode(path string, m cas.Mode) cas.Mode {
	if !c.noModes {
		return m
	}
	if c.Recipe.Executes(path) {
		return cas.Exec
	}
	if c.old != nil {
		if f, ok := c.old.File(path); ok {
			return f.Mode
		}
	}
	return cas.File
}

// entrypoint checks that the bundle contains its entrypoint.
func (c *creation) entrypoint() {
	ref := c.Recipe.Entrypoint
	if ref == "" || len(c.files) == 0 || slices.ContainsFunc(c.files, func(f manifest.File) bool {
		return f.Ref == ref
	}) {
		return
	}
	// Problems of that item are reported already.
	if !slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Ref == ref }) {
		c.problem("", ref, ErrEntrypoint)
	}
}

// head returns the manifest's fields other than the files.
func (o *Options) head() manifest.FileList {
	r := o.Recipe
	list := manifest.FileList{BundleID: r.ID, Version: r.Version, Description: r.Description, License: r.License,
		Entrypoint: r.Entrypoint, Expires: r.Expires, Requires: r.Requires}
	if r.Plugin {
		list.Plugin = manifest.PluginVersion
	}
	return list
}

// encode makes the manifest's body in advance. body reports its errors.
func (c *creation) encode() {
	head := c.head()
	if _, ok := c.same(&head); !ok {
		c.text, c.textList, _ = manifest.AppendFileList(nil, &head, c.files)
	}
}

// body makes the manifest's body. It keeps evidence of the last manifest only about the same subject.
func (c *creation) body() ([]byte, *manifest.FileList, error) {
	head := c.head()
	if body, ok := c.same(&head); ok {
		list := *c.old.FileList
		list.Signatures = nil
		return body, &list, nil
	}
	if c.text == nil {
		var err error
		if c.text, c.textList, err = manifest.AppendFileList(nil, &head, c.files); err != nil {
			return nil, nil, err
		}
	}
	if list := *c.textList; c.old == nil || len(c.old.Evidence) == 0 || c.old.Subject != list.ID {
		return c.text, &list, nil
	}
	// Keep evidence only of an admitted manifest: the directory may contain anything.
	e, err := c.Trust.ExamineDocument(&c.old.Document, c.old.Expires, policy.ToUse)
	if err != nil || !e.Decision.Allowed {
		list := *c.textList
		return c.text, &list, nil
	}
	head.Evidence = c.old.Evidence
	return manifest.AppendFileList(nil, &head, c.files)
}

// same returns the body of the last manifest if its content equals the new one's: a document has one canonical form.
func (c *creation) same(head *manifest.FileList) ([]byte, bool) {
	if c.old == nil || len(c.old.Evidence) > 0 {
		return nil, false
	}
	o := c.old.FileList
	if o.BundleID != head.BundleID || o.Version != head.Version || o.Description != head.Description ||
		o.License != head.License || o.Plugin != head.Plugin ||
		o.Entrypoint != head.Entrypoint || !o.Expires.Equal(head.Expires) ||
		!slices.Equal(o.Requires, sortedRequires(head.Requires)) ||
		!slices.Equal(c.old.Files, c.files) {
		return nil, false
	}
	// ID is the digest of the text after all comment lines.
	body, ok := bytes.CutPrefix(c.oldRaw, o.Signatures.Append(nil))
	return body, ok && !bytes.HasPrefix(body, []byte("#"))
}

func sortedRequires(all []manifest.Require) []manifest.Require {
	return slices.SortedFunc(slices.Values(all), func(a, b manifest.Require) int {
		return strings.Compare(a.BundleID, b.BundleID)
	})
}

// unreleased returns the new manifest. It refuses one that differs from a released one of the same version.
func (c *creation) unreleased() ([]byte, *manifest.FileList, error) {
	body, list, err := c.body()
	if err == nil {
		err = c.Journal.CheckNew(list)
	}
	return body, list, err
}

// finish signs the manifest and writes it, as the last step.
func (c *creation) finish(ctx context.Context, root *os.Root, under cas.Digest) error {
	for i := range c.files {
		if c.files[i].Ref != "" {
			c.result.Items++
		}
	}
	if c.DryRun {
		_, list, err := c.unreleased()
		c.result.Bundle = bundle.Bundle{FileList: list, Files: c.files}
		return err
	}
	err := errMadeMeanwhile
	for tries := 0; err == errMadeMeanwhile && tries < mostTries; tries++ {
		err = c.write(ctx, root)
	}
	if err != nil {
		return err
	}
	// A state doesn't cover the answers of Listed and the bundle's extractors.
	if c.Memory != nil && !c.result.Remembered && !c.beside.Load() && len(c.result.Warnings) == 0 {
		c.Memory.Keep(c.Trust, under, []byte(c.result.ID.String()))
	}
	return nil
}

// mostTries bounds how often other processes may create and remove the manifest first.
const mostTries = 100

var errMadeMeanwhile = errors.New("another process created the manifest meanwhile")

// write adds this signature to those of others on the same list, and writes the manifest.
func (c *creation) write(ctx context.Context, root *os.Root) error {
	if c.Lock != nil {
		// On some systems the lock is a file next to the manifest.
		if err := root.MkdirAll(filepath.Dir(c.result.Path), 0o777); err != nil {
			return err
		}
		unlock, err := c.Lock(ctx, filepath.Join(c.Dir, filepath.FromSlash(c.result.Path)))
		if err != nil {
			return err
		}
		defer unlock()
	}
	c.readOld(root)
	body, list, err := c.unreleased()
	if err != nil {
		return err
	}
	c.result.Bundle, c.result.Text = bundle.Bundle{FileList: list, Files: c.files}, body
	if c.old != nil && c.old.ID == list.ID {
		if err := list.Merge(c.Trust.Find, c.old.Signatures); err != nil {
			return err
		}
	}
	if err := c.Sign(&list.Document); err != nil {
		return err
	}
	if len(list.Signatures) == 0 {
		return sign.ErrUnsigned
	}
	id := cas.ID{Kind: cas.Document, Digest: list.ID}
	if missing, err := c.Store.Missing(ctx, []cas.ID{id}); err != nil {
		return err
	} else if len(missing) > 0 {
		if _, err := c.Store.Put(ctx, cas.Document, bytes.NewReader(body)); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.writeKeys(root, list); err != nil {
		return err
	}
	lines := list.Signatures.Append(nil)
	if rest, ok := bytes.CutPrefix(c.oldRaw, lines); ok && bytes.Equal(rest, body) {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(c.result.Path), 0o777); err != nil {
		return err
	}
	in, fresh := osfile.In{Root: root}, c.fresh && c.Lock != nil
	in.Sweep(filepath.Dir(c.result.Path), time.Now())
	err = in.Write(c.result.Path, 0o666, fresh, func(f *os.File) error {
		_, err := io.Copy(f, io.MultiReader(bytes.NewReader(lines), bytes.NewReader(body)))
		return err
	})
	if fresh && errors.Is(err, fs.ErrExist) {
		return errMadeMeanwhile
	} else if err != nil {
		return err
	}
	c.result.Written = true
	return nil
}

// readOld reads the existing manifest. An invalid one is replaced like any other.
func (c *creation) readOld(root *os.Root) {
	if c.old != nil && c.stillThere(root) {
		return
	}
	c.old, c.oldRaw, c.fresh = nil, nil, false
	fi, err := root.Lstat(c.result.Path)
	c.fresh = errors.Is(err, fs.ErrNotExist)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > bundle.MaxManifest {
		return
	}
	b, err := root.ReadFile(c.result.Path)
	if err != nil {
		return
	}
	if old, err := bundle.Parse(b); err == nil && old.BundleID == c.Recipe.ID {
		c.old, c.oldRaw = old, b
	}
}

// stillThere reports whether the manifest is unchanged since readOld.
func (c *creation) stillThere(root *os.Root) bool {
	if fi, err := root.Lstat(c.result.Path); err != nil || !fi.Mode().IsRegular() {
		return false
	}
	f, err := root.Open(c.result.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	rest, part := c.oldRaw, make([]byte, 64<<10)
	for {
		n, err := f.Read(part)
		if !bytes.HasPrefix(rest, part[:n]) {
			return false
		}
		if rest = rest[n:]; err != nil {
			return err == io.EOF && len(rest) == 0
		}
	}
}
