// Package chain is the items that a call runs, from the tool to its primitive, each admitted by the policies, and the
// grants of the call.
//
// # How a chain goes through here
//
// Source.Find walks from the tool to the primitive (ai.Walk), lets the caller refuse the chain (fits), admits each
// link and lists its files (admit), adds those of a plugin that a link names (withPlugin), and prepares the schemas
// and the configuration, which are made when first used.
// Policies.Allowed narrows the grants that the tool declares (Declared) by both policies and by the caller
// (Grants.Within).
//
// A Chain is the common part of all calls of a tool: nothing in it depends on a call's parameters. A Memory keeps
// chains, so that a program with many calls of a tool reads, hashes and verifies its items once. Its owner must
// ensure that the items can't change, as with a lock's pins, and drop it when the policies change.
//
// Grants are the declarations of a tool, as far as policies and the caller allow them.
package chain

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
)

// A Source finds chains.
type Source struct {
	Resolver ai.Resolver
	Admit    *ai.Admitter
	// Unlisted returns the files of a tool that no signature covers, as bundle.Listing does. Optional.
	Unlisted func(*ai.Admission) []string
	Dev      model.Ref                  // a tool under development, which needs no signature
	Own      func(key.Fingerprint) bool // whether the user holds the private half of a key
	Memory   *Memory                    // nil: nothing is remembered
	Plugins  Plugins                    // nil: there are none
}

// A Chain is an admitted tool with the items that run it. It is immutable, and safe for concurrent use.
type Chain struct {
	*ai.Chain
	Links   []Link
	Own     bool // every item is the user's or the library's
	Foreign bool // an item other than the tool under development is another signer's
	Anchor  *ai.Anchor
	Parts   []materialise.Part     // the files of all links, each once, sorted by path
	Files   cas.Getter             // contains their bytes
	Key     func() (string, error) // returns the key of a copy of them
	Plugin  *Plugin                // that a link names, whose files are among the parts; nil for none
	Data    bool                   // a link names the directory that the plugin may write

	// The schemas of the tool's parameters and result and of the primitive's configuration, and the configuration
	// before it is filled in.
	Input, Output, Takes func() (*params.Schema, error)
	Config               func() (*template.Config, error)

	granted atomic.Pointer[granted]
	listed  bool // a link is admitted only by a bundle's manifest, which the working tree may contain
}

// Hash returns the grants hash of a call's grants.
func (c *Chain) Hash(g Grants) (cas.Digest, error) {
	if last := c.granted.Load(); last != nil && reflect.DeepEqual(last.grants, g) {
		return last.hash, nil
	}
	h, err := g.Hash(c.Tool().Model.Tool)
	if err == nil {
		c.granted.Store(&granted{g, h})
	}
	return h, err
}

// granted has the grants of the last call and their hash: those of the next call are mostly the same.
type granted struct {
	grants Grants
	hash   cas.Digest
}

// A Link is one admitted item of a chain.
type Link struct {
	Item    *ai.Item
	Tree    cas.Digest // of its other files; zero for none
	Signers []string   // fingerprints, "builtin" or "dev"; empty if the policy names the digest
	files   []materialise.Part
}

// Has reports whether a path is one of the link's files.
func (l *Link) Has(at string) bool {
	return slices.ContainsFunc(l.files, func(f materialise.Part) bool { return f.Path == at })
}

// Find finds the chain of a tool and admits its links. fits may refuse a chain before the policies decide.
func (s *Source) Find(ctx context.Context, ref model.Ref, fits func(*ai.Chain) error) (*Chain, error) {
	if c := s.Memory.get(ref); c != nil {
		return c, fits(c.Chain)
	}
	found, err := ai.Walk(ctx, s.Resolver, ref)
	if err != nil {
		return nil, err
	}
	if err := fits(found); err != nil {
		return nil, err
	}
	chain := &Chain{Chain: found, Own: true}
	from := &files{at: map[cas.Digest]source{}}
	derived := false
	for _, it := range found.Links {
		l, own, err := s.admit(ctx, it, from, chain)
		if err != nil {
			return nil, err
		}
		chain.Parts = append(chain.Parts, l.files...)
		agreed, err := s.withPlugin(ctx, it, chain, from)
		if err != nil {
			return nil, err
		}
		chain.Links, chain.Own, chain.Foreign = append(chain.Links, l), chain.Own && own,
			chain.Foreign || !own && !agreed && it.Ref != s.Dev
		derived = derived || isDerived(it) && !agreed
	}
	// What was made of another's plugin is another's, although the user has signed it.
	if derived && (chain.Plugin == nil || !chain.Plugin.Own) {
		chain.Own, chain.Foreign = false, true
	}
	slices.SortFunc(chain.Parts, func(a, b materialise.Part) int { return cmp.Compare(a.Path, b.Path) })
	chain.Parts = slices.CompactFunc(chain.Parts, func(a, b materialise.Part) bool { return a == b })
	chain.Files = from
	if chain.Anchor, err = s.Admit.Anchor(ctx, found.Tool()); err != nil {
		return nil, err
	}
	chain.Key = sync.OnceValues(func() (string, error) { // reads nothing: each part is a file
		return materialise.Key(context.Background(), chain.Files, chain.Parts)
	})
	tool := sync.OnceValue(found.Tool().Model.Tool.Interface)
	chain.Input = sync.OnceValues(func() (*params.Schema, error) { return params.Compile(tool().Input) })
	chain.Output = sync.OnceValues(func() (*params.Schema, error) { return params.Compile(tool().Output) })
	chain.Takes = sync.OnceValues(func() (*params.Schema, error) {
		return params.Compile(found.Primitive().Model.Tool.Interface().Input)
	})
	chain.Config = sync.OnceValues(func() (*template.Config, error) {
		var links []template.Link
		for _, it := range found.Links {
			links = append(links, template.Link{Name: it.Ref.String(), Config: it.Model.Tool.Config})
		}
		return template.Merge(links...)
	})
	s.Memory.put(ref, chain)
	return chain, nil
}

// A Memory keeps admitted chains, and single items. It is safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	known map[model.Ref]*Chain
	items map[model.Ref]*ai.Item
	bytes int64
}

// The limits of a Memory.
const (
	maxKept  = 1 << 10
	maxBytes = 8 << 20
)

func (m *Memory) get(ref model.Ref) *Chain {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[ref]
}

func (m *Memory) put(ref model.Ref, c *Chain) {
	if m == nil || c.listed {
		return
	}
	if m.mu.Lock(); m.fits(c.Chain.Links...) {
		m.known[ref] = c
	}
	m.mu.Unlock()
}

// Item returns a remembered item, or nil.
func (m *Memory) Item(ref model.Ref) *ai.Item {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.items[ref]
}

// Keep remembers an item that a signature or its bundle admits. It doesn't remember an item that is admitted by a
// manifest in the working tree.
func (m *Memory) Keep(it *ai.Item, a *ai.Admission) {
	if m == nil || a.Listed {
		return
	}
	if m.mu.Lock(); m.fits(it) {
		m.items[it.Ref] = it
	}
	m.mu.Unlock()
}

// fits makes room for items, and reports whether they fit at all.
func (m *Memory) fits(items ...*ai.Item) bool {
	size := int64(0)
	for _, it := range items {
		size += int64(len(it.Bytes))
	}
	if m.known == nil || len(m.known)+len(m.items) >= maxKept || m.bytes+size > maxBytes {
		m.known, m.items, m.bytes = map[model.Ref]*Chain{}, map[model.Ref]*ai.Item{}, 0
	}
	if size > maxBytes {
		return false
	}
	m.bytes += size
	return true
}

// admit has the policy decide about a link, and lists its files. own reports whether the link is the user's or the
// library's.
func (s *Source) admit(ctx context.Context, it *ai.Item, from *files, chain *Chain) (link Link, own bool, err error) {
	link.Item = it
	admission, err := s.Admit.Admit(ctx, it, policy.ToCall)
	if it.Ref == s.Dev {
		// It needs neither a signature nor a lock, but must not be revoked.
		if admission == nil || admission.Exam == nil {
			return link, false, about(ctx, it, err)
		}
		if admission.Decision.Code == policy.DigestRevoked {
			return link, false, ai.NotAdmitted(it.Ref, it.Path, admission.Decision)
		}
		link.Signers = []string{"dev"}
	} else {
		if err != nil {
			return link, false, about(ctx, it, err)
		}
		if !admission.Decision.Allowed {
			return link, false, ai.NotAdmitted(it.Ref, it.Path, admission.Decision)
		}
		if s.Unlisted != nil {
			if left := s.Unlisted(admission); len(left) > 0 {
				return link, false,
					fault.New(fault.Policy,
						"%q has a v1 signature, which doesn't cover %q beside it, and no admitted manifest lists that file",
						it.Ref, left[0]).
						On("ref", it.Ref.String()).On("reason",
						"evidence-only").Try(fault.Command("rye sign --upgrade", it.Ref.String()))
			}
		}
		own, chain.listed = admission.Decision.OwnedBy(s.Own), chain.listed || admission.Listed
		if admission.Decision.Voucher == policy.Builtin {
			link.Signers = []string{"builtin"}
		}
		for _, v := range admission.Decision.Signers {
			if v.Code == policy.Admitted {
				link.Signers = append(link.Signers, v.Key.String())
			}
		}
	}
	if it.Model.Tool != nil && it.Model.Tool.Primitive {
		return link, own, nil // the binary itself runs it, without its files
	}
	m, err := mode(it)
	if err != nil {
		return link, false, err
	}
	from.at[it.Raw] = source{bytes: it.Bytes, size: int64(len(it.Bytes))}
	link.files = append(link.files, part(it.Space, it.Path, it.Raw, m, int64(len(it.Bytes))))
	if admission.Tree == nil {
		return link, own, nil
	}
	link.Tree = admission.Tree.Digest
	anchor, err := s.Admit.Anchor(ctx, it)
	if err != nil || anchor == nil {
		return link, own, cmp.Or(err, errMoved)
	}
	for i := range admission.Tree.Files {
		f := &admission.Tree.Files[i]
		at := path.Join(anchor.Dir, f.Path)
		from.at[f.Raw] = source{space: it.Space, path: at, size: f.Size}
		link.files = append(link.files, part(it.Space, at, f.Raw, f.Mode, f.Size))
	}
	return link, own, nil
}

// Owned reports whether an item counts as the user's own: one of the library, or admitted by a key of theirs. What was
// made of an unsigned plugin is a stranger's, although the user has signed it.
func Owned(it *ai.Item, a *ai.Admission, own func(key.Fingerprint) bool) bool {
	return a.Decision.OwnedBy(own) && !isDerived(it)
}

// isDerived reports whether an item was made of a plugin for a project or a user.
func isDerived(it *ai.Item) bool { return it.Space.Level != ai.System && plugin.Derived(it.Ref) }

// about adds the link of the chain to an error.
func about(ctx context.Context, it *ai.Item, err error) error {
	if _, ok := errors.AsType[*ai.ItemError](err); ok || err == nil || ctx.Err() != nil {
		return err
	}
	return &ai.ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path, Err: err}
}

var errMoved = errors.New("the files of the tool changed while they were read")

// mode returns the mode of an item's own file.
func mode(it *ai.Item) (cas.Mode, error) {
	info, err := fs.Stat(it.Space.FS, it.Path)
	if err != nil {
		return cas.File, &ai.ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path, Err: err}
	}
	executable := info.Mode()&0o111 != 0
	if it.Space.Exec != nil {
		executable = it.Space.Exec(it.Path, info)
	}
	if executable {
		return cas.Exec, nil
	}
	return cas.File, nil
}

// part returns the entry of a space's file in the copy.
func part(s *ai.Space, at string, d cas.Digest, m cas.Mode, size int64) materialise.Part {
	return materialise.Part{Path: path.Join(Directory(s), at), ID: cas.ID{Kind: cas.Blob, Digest: d}, Mode: m,
		Size: size}
}

// Directory returns the directory of a space in the copy.
func Directory(s *ai.Space) string { return strings.ReplaceAll(s.Label, ":", "/") }
