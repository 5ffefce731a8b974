package ai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// An Admitter decides whether items are admitted. It caches the anchor rules of executors as long as it lives, so use
// one for a single operation, such as verifying a project. It never caches bytes. It is safe for concurrent use.
type Admitter struct {
	resolver Resolver
	trust    Examiner

	mu     sync.Mutex
	rules  map[executor]*value.Value
	hits   int64
	misses int64
	keep   bool
	trees  map[root]listed
	kept   int // files in cached trees
}

// A listed directory is the cached result of looking into it: its files, or the error.
type listed struct {
	files *tree.Listing
	has   bool // one of the names
	err   error
}

// A root is the key of a cached directory: one that tools work from, or one searched for some names.
type root struct {
	space      *Space
	dir, below string
	names      *value.Value
}

// maxKept bounds how many files KeepTrees caches. A single directory may exceed it.
const maxKept = 1 << 16

// KeepTrees makes the Admitter read a directory once for all tools that work from it, instead of once for each tool.
// Call it before the first item, for an operation that looks at many tools and changes no file.
func (a *Admitter) KeepTrees() { a.keep = true }

// An executor is the key of a cached rule: a space and the executor_id that a tool in it names.
type executor struct {
	id   string
	from *Space
}

// maxRules bounds the cached rules.
const maxRules = 1000

// NewAdmitter returns an Admitter that finds executors with r and asks t. A nil t admits only the items that the
// binary contains.
func NewAdmitter(r Resolver, t Examiner) *Admitter {
	return &Admitter{resolver: r, trust: t, rules: map[executor]*value.Value{}}
}

// An Anchor is the directory that a tool of several files works from.
type Anchor struct {
	Dir   string // in the tool's space
	Below string // "" or, for a runtime that is a single file, its lib: the part of Dir that belongs to it
}

// Anchor returns the anchor of an item; nil if the item is a single file.
func (a *Admitter) Anchor(ctx context.Context, it *Item) (*Anchor, error) {
	tool := it.Model.Tool
	if tool == nil {
		return nil, nil
	}
	rule := tool.Anchor
	if rule.IsNull() && !tool.Primitive && tool.Executor != "" {
		var err error
		if rule, err = a.inherited(ctx, it); err != nil {
			return nil, err
		}
	}
	if rule.IsNull() {
		return nil, nil
	}
	found, err := a.anchored(ctx, it, rule)
	if lib := tool.Anchor.Get("lib").String(); lib != "" && found == nil && err == nil {
		return libOf(it, lib)
	}
	return found, err
}

// libOf returns the anchor of a runtime for the lib that its interpreter loads. It doesn't depend on the tools that
// it runs.
func libOf(it *Item, lib string) (*Anchor, error) {
	if err := portable.Check(lib); err != nil {
		return nil, &ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path,
			Err: fmt.Errorf("the anchor's lib: %w", err)}
	}
	return &Anchor{Dir: path.Dir(it.Path), Below: lib}, nil
}

// inherited returns the anchor of the first link below a tool that has one.
func (a *Admitter) inherited(ctx context.Context, it *Item) (*value.Value, error) {
	key := executor{it.Model.Tool.Executor, it.Space}
	a.mu.Lock()
	val, ok := a.rules[key]
	if ok {
		a.hits++
	} else {
		a.misses++
	}
	a.mu.Unlock()
	if ok {
		return val, nil
	}
	links, err := follow(ctx, a.resolver, it)
	if err != nil {
		return val, err
	}
	for _, link := range links[1:] {
		if t := link.Model.Tool; t != nil && val.IsNull() {
			val = t.Anchor
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.rules) >= maxRules {
		clear(a.rules)
	}
	a.rules[key] = val
	return val, nil
}

// Rate returns the hits and misses of the rule cache.
func (a *Admitter) Rate() (hits, misses int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits, a.misses
}

// anchored applies a rule {enabled, mode, markers_any, root} to a tool. It refuses a rule that it doesn't understand:
// otherwise the tool would run with files that no signature covers.
func (a *Admitter) anchored(ctx context.Context, it *Item, rule *value.Value) (*Anchor, error) {
	bad := func(field, found string) (*Anchor, error) {
		return nil, &ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path,
			Err: fmt.Errorf("the anchor's %s is %q, which means nothing", field, found)}
	}
	dir := path.Dir(it.Path)
	active := false
	switch mode := word(rule, "mode", "auto"); mode {
	case "never":
	case "always":
		active = true
	case "auto":
		found := a.look(ctx, root{space: it.Space, dir: dir, names: rule.Get("markers_any")}, func() (l listed) {
			l.has, l.err = it.Space.hasAny(dir, rule.Get("markers_any"))
			return l
		})
		// A list of packages beside the tool is one of its files, so the directory is the tool's.
		if active = found.has || it.Model.Tool.Packages != ""; found.err != nil {
			return nil, it.about(dir, found.err)
		}
	default:
		return bad("mode", mode)
	}
	if on := rule.Get("enabled"); !active || on == nil || on.Kind != value.Bool || on.Text != "true" {
		return nil, nil
	}
	switch root := word(rule, "root", "tool_dir"); root {
	case "tool_dir", "project_path":
		// A project is not part of a tool: the tool works from its own directory.
	case "tool_parent":
		if dir != it.Kind.Dir {
			dir = path.Dir(dir)
		}
	default:
		return bad("root", root)
	}
	return &Anchor{Dir: dir}, nil
}

// word returns a text of a rule, or otherwise if the rule lacks it.
func word(rule *value.Value, name, otherwise string) string {
	return cmp.Or(rule.Get(name).String(), otherwise)
}

// hasAny reports whether a directory has one of the names.
func (s *Space) hasAny(dir string, names *value.Value) (bool, error) {
	if names == nil {
		return false, nil
	}
	lstat, done, err := s.folder(dir)
	if err != nil {
		return false, err
	}
	defer done()
	for _, name := range names.Items {
		if name.String() == "" || strings.ContainsAny(name.Text, `/\`) || name.Text == "." || name.Text == ".." {
			continue
		}
		if _, err := lstat(name.Text); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// about adds a directory of the item to an error. It returns ErrGone if the item was removed meanwhile.
func (it *Item) about(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := it.Space.Read(it.Path); errors.Is(gone, ErrGone) {
			dir, err = it.Path, gone
		}
	}
	return &ItemError{Ref: it.Ref, Space: it.Space, Path: dir, Err: err}
}

// Tree reads the other files of an item; nil if the item is a single file.
func (a *Admitter) Tree(ctx context.Context, it *Item) (*tree.Tree, error) {
	anchor, err := a.Anchor(ctx, it)
	if err != nil || anchor == nil {
		return nil, err
	}
	tree, err := a.read(ctx, it.Space, tree.Root{
		FS: it.Space.FS, Dir: anchor.Dir, Below: anchor.Below, Except: strings.TrimPrefix(it.Path, anchor.Dir+"/"),
		Exec:  it.Space.Exec,
		Style: func(name string) sign.Style { return it.Kind.Style(name) &^ sign.V1Knowledge }, // all of the V1 bits
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, it.about(anchor.Dir, err)
	case len(tree.Files) == 0:
		return nil, nil
	}
	return tree, nil
}

// read reads a tree, or returns the cached one. All trees belong to tools, so their files have one style.
func (a *Admitter) read(ctx context.Context, s *Space, of tree.Root) (*tree.Tree, error) {
	if !a.keep {
		return of.Read(ctx)
	}
	l := a.look(ctx, root{space: s, dir: of.Dir, below: of.Below}, func() (l listed) {
		l.files, l.err = of.List(ctx)
		return l
	})
	if l.err != nil {
		return nil, l.err
	}
	return l.files.Tree(of.Except)
}

// look looks into a directory, or returns the cached result.
func (a *Admitter) look(ctx context.Context, key root, find func() listed) listed {
	a.mu.Lock()
	l, ok := a.trees[key]
	a.mu.Unlock()
	if !ok {
		if l = find(); a.keep && ctx.Err() == nil {
			a.remember(key, l)
		}
	}
	return l
}

func (a *Admitter) remember(key root, value listed) {
	files := 1
	if value.files != nil {
		files += value.files.Len()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trees == nil || a.kept+files > maxKept {
		a.trees, a.kept = map[root]listed{}, 0
	}
	if _, ok := a.trees[key]; !ok {
		a.trees[key] = value
		a.kept += files
	}
}

// Subject returns what an item's signatures cover: its name, its tree and its style.
func (a *Admitter) Subject(ctx context.Context, it *Item) (admission.Subject, *tree.Tree, error) {
	s := admission.Subject{Name: it.Ref.String(), From: it.Space.Label, Style: it.Kind.Style(it.Path)}
	if it.Space.Builtin {
		s.Voucher = policy.Builtin
	}
	t, err := a.Tree(ctx, it)
	if t != nil {
		s.Tree, s.Files = t.Digest, t.Digests()
	}
	return s, t, err
}

// An Admission is an item with its tree and the decision of the policy.
type Admission struct {
	*admission.Exam
	Tree *tree.Tree // nil if the item is a single file
}

// Admit decides whether an item is admitted for a purpose. An error is about the item itself: a broken chain on which
// its tree depends, an invalid tree, or an error of Examine about its bytes. Otherwise Decision holds the answer.
func (a *Admitter) Admit(ctx context.Context, it *Item, purpose policy.Purpose) (*Admission, error) {
	subject, tree, err := a.Subject(ctx, it)
	if err != nil {
		return nil, err
	}
	if a.trust == nil {
		d := policy.Decision{Answer: policy.Answer{Code: policy.UntrustedKey}}
		if subject.Voucher == policy.Builtin {
			d.Answer = policy.Answer{Allowed: true, Code: policy.Admitted, Voucher: policy.Builtin}
		}
		return &Admission{&admission.Exam{Subject: subject, Signed: it.Signed, Decision: d}, tree}, nil
	}
	subject.Known = admission.KnownOf(it.Bytes, it.Signed, it.Broken)
	e, err := a.trust.Examine(subject, bytes.NewReader(it.Bytes), purpose)
	return &Admission{e, tree}, err
}

// Require is Admit for callers that need a yes: a no is the error NotAdmitted.
func (a *Admitter) Require(ctx context.Context, it *Item, purpose policy.Purpose) error {
	found, err := a.Admit(ctx, it, purpose)
	if err != nil {
		return err
	}
	if !found.Decision.Allowed {
		return NotAdmitted(it.Ref, it.Space.where(it.Path), found.Decision)
	}
	return nil
}
