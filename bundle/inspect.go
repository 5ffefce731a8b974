package bundle

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// An Inspection is the unverified content of a bundle.
type Inspection struct {
	Bundle *Bundle   `json:"-"`     // nil without a readable manifest
	Items  []Summary `json:"items"` // sorted by path

	// The facts to look at before trusting the bundle, sorted, each with the paths of its files. Executable has the
	// runnable files: "tool", "primitive", "mode" or the line that begins with "#!"
	Executable   []Mention `json:"executable"`
	Runs         []Mention `json:"runs"`    // fields that are executed or sent: "config.command: node"
	Hosts        []Mention `json:"hosts"`   // in the network of tools and in config; "*" is all
	Places       []Mention `json:"paths"`   // paths on the machine, in tools and config
	Secrets      []Mention `json:"secrets"` // by name
	Capabilities []Mention `json:"capabilities"`
	// Outside has the runners of items that aren't in the bundle: refs of tools, and interpreters after "#!"
	Outside []Mention `json:"outside"`

	Evidence []Attested `json:"evidence"` // named by the manifest, without signers
	Failures []*Failure `json:"-"`        // files that differ from the manifest or are unreadable; sorted by path
}

// A Summary is an item's own, unverified description.
type Summary struct {
	Ref          string   `json:"ref"`
	Path         string   `json:"path"`
	Version      string   `json:"version"`
	Title        string   `json:"title,omitempty"`
	Description  string   `json:"description,omitempty"`
	Type         string   `json:"type,omitempty"` // only for a tool, like the next three
	Executor     string   `json:"executor,omitempty"`
	Risk         string   `json:"risk,omitempty"`
	Network      string   `json:"network,omitempty"` // "none", "all" or hosts
	Secrets      []string `json:"secrets"`
	Capabilities []string `json:"capabilities"`
	Problems     []string `json:"problems"`
}

// A Mention is a host, path, secret or the like that files of a bundle mention.
type Mention struct {
	What  string   `json:"what"`
	Paths []string `json:"paths"`
}

// Inspect reads a whole bundle without verifying it. below are spaces that add kinds to those of the kernel, as in
// VerifyOptions.
func Inspect(ctx context.Context, src Source, below []*ai.Space, tempDir string) (*Inspection, error) {
	n := &inspection{result: new(Inspection), mentions: map[*[]Mention]map[string][]string{}}
	err := src.look(ctx, &VerifyOptions{TempDir: tempDir}, func(l *look) error { return n.run(ctx, l, below) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return n.finish(), nil
}

type inspection struct {
	result *Inspection
	look   *look
	refs   map[string]struct{} // in the manifest

	mu       sync.Mutex
	mentions map[*[]Mention]map[string][]string
}

func (n *inspection) run(ctx context.Context, l *look, below []*ai.Space) error {
	n.look, n.result.Bundle, n.result.Failures = l, l.bundle, l.failures
	if l.bundle == nil {
		return nil
	}
	for _, e := range l.bundle.Evidence {
		n.result.Evidence = append(n.result.Evidence, Attested{Evidence: e})
	}
	n.refs = make(map[string]struct{}, len(l.bundle.Files))
	for i := range l.bundle.Files {
		n.refs[l.bundle.Files[i].Ref] = struct{}{}
	}
	// The bundle's own extractors aren't verified, so they are ignored.
	space, view, err := View(ctx, l.getter, l.bundle.BundleID, l.bundle.Files, below, nil)
	if err != nil {
		return err
	}
	s := &items{space: space, view: view}
	err = cas.Parallel(ctx, 0, len(l.bundle.Files), func(_ context.Context, i int) error {
		return n.file(ctx, s, &l.bundle.Files[i])
	})
	if err != nil || l.extra == nil {
		return err
	}
	_, err = l.extra(ctx, view.Kinds(), n.fail)
	return err
}

func (n *inspection) fail(f *Failure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.result.Failures = append(n.result.Failures, f)
}

func (n *inspection) mention(where *[]Mention, path string, what ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.mentions[where]
	if all == nil {
		all = map[string][]string{}
		n.mentions[where] = all
	}
	for _, w := range what {
		all[w] = append(all[w], path)
	}
}

func (n *inspection) file(ctx context.Context, s *items, f *manifest.File) error {
	at, isItem := s.at(f)
	var it *ai.Item
	if isItem {
		var err error
		if it, err = s.view.Load(ctx, at); err != nil {
			it = nil
			if f.Ref != "" && !errors.Is(err, ai.ErrAsset) {
				n.fail(&Failure{Check: CheckItem, Path: f.Path, Ref: f.Ref, Err: err})
			}
		}
	}
	if failure := n.look.check(ctx, f, it != nil); failure != nil {
		failure.Path, failure.Ref = f.Path, f.Ref
		n.fail(failure)
	}
	r := n.result
	if f.Mode == cas.Exec {
		n.mention(&r.Executable, f.Path, "mode")
	}
	if line := n.script(ctx, f); line != "" {
		n.mention(&r.Executable, f.Path, line)
		n.mention(&r.Outside, f.Path, strings.TrimSpace(strings.TrimPrefix(line, "#!")))
	}
	if it != nil {
		n.item(f, it)
	}
	return ctx.Err()
}

// longestLine is the length up to which systems read a line that begins with "#!".
const longestLine = 256

// script returns the first line of a file if it begins with "#!".
func (n *inspection) script(ctx context.Context, f *manifest.File) string {
	if n.look.scripts != nil {
		return n.look.scripts[f.Path]
	}
	o, err := n.look.getter.Get(ctx, cas.ID{Kind: cas.Blob, Digest: f.Digest})
	if err != nil {
		return "" // check has reported the error
	}
	defer o.Close()
	b, _ := io.ReadAll(io.LimitReader(o, longestLine))
	return scriptLine(b)
}

func scriptLine(b []byte) string {
	line, _, _ := strings.Cut(string(b[:min(len(b), longestLine)]), "\n")
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	return strings.TrimSpace(line)
}

func (n *inspection) item(f *manifest.File, it *ai.Item) {
	m, r := it.Model, n.result
	s := Summary{Path: f.Path, Ref: it.Ref.String(), Version: m.Version, Title: m.Title, Description: m.Description}
	for _, p := range m.Problems {
		s.Problems = append(s.Problems, p.Error())
	}
	if t := m.Tool; t != nil {
		s.Type, s.Executor, s.Risk, s.Network = t.Type, t.Executor, t.Risk.String(), t.Network.String()
		s.Secrets, s.Capabilities = t.Secrets, words(t.Permissions)
		n.tool(f, t)
	}
	if d := m.Directive; d != nil {
		s.Capabilities = words(d.Permissions)
	}
	n.mention(&r.Secrets, f.Path, s.Secrets...)
	n.mention(&r.Capabilities, f.Path, s.Capabilities...)
	if m.Knowledge == nil {
		n.mention(&r.Runs, f.Path, mentionedFields(m.Fields)...)
		n.speaks(f.Path, "", m.Fields)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r.Items = append(r.Items, s)
}

func (n *inspection) tool(f *manifest.File, t *model.Tool) {
	r, kind := n.result, "tool"
	if t.Primitive {
		kind = "primitive"
	}
	n.mention(&r.Executable, f.Path, kind)
	n.mention(&r.Hosts, f.Path, t.Network.Hosts...)
	if t.Network.All {
		n.mention(&r.Hosts, f.Path, "*")
	}
	runs := model.Ref{Kind: "tool", ID: t.Executor}.String()
	if _, inside := n.refs[runs]; t.Executor != "" && !inside {
		n.mention(&r.Outside, f.Path, runs)
	}
}

func words(all []capability.Capability) []string {
	var list []string
	for _, c := range all {
		list = append(list, c.String())
	}
	return list
}

// speaks searches the fields of an item for hosts and paths. The parser bounds the depth of values.
func (n *inspection) speaks(path, field string, v *value.Value) {
	if v == nil || field == "description" || field == "tool_description" {
		return
	}
	for i := range v.Items {
		n.speaks(path, "", v.Items[i])
	}
	for i := range v.Map {
		n.speaks(path, v.Map[i].Key, v.Map[i].Value)
	}
	if v.Kind != value.Text {
		return
	}
	hosts, places := mentioned(v.Text)
	n.mention(&n.result.Hosts, path, hosts...)
	n.mention(&n.result.Places, path, places...)
}

func (n *inspection) finish() *Inspection {
	r := n.result
	for where, all := range n.mentions {
		for what, paths := range all {
			slices.Sort(paths)
			*where = append(*where, Mention{what, slices.Compact(paths)})
		}
		slices.SortFunc(*where, func(a, b Mention) int { return strings.Compare(a.What, b.What) })
	}
	slices.SortFunc(r.Items, func(a, b Summary) int { return strings.Compare(a.Path, b.Path) })
	sortFailures(r.Failures)
	return r
}
