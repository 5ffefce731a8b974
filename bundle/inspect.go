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
	Type         string   `json:"type,omitempty"` // only for a tool, like the next four
	Executor     string   `json:"executor,omitempty"`
	Risk         string   `json:"risk,omitempty"`
	Derived      string   `json:"risk_derived,omitempty"` // why a tool that declares no risk has this one
	Network      string   `json:"network,omitempty"`      // "none", "all" or hosts
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

func (n *inspection) run(ctx context.Context, look *look, below []*ai.Space) error {
	n.look, n.result.Bundle, n.result.Failures = look, look.bundle, look.failures
	if look.bundle == nil {
		return nil
	}
	for _, e := range look.bundle.Evidence {
		n.result.Evidence = append(n.result.Evidence, Attested{Evidence: e})
	}
	n.refs = make(map[string]struct{}, len(look.bundle.Files))
	for i := range look.bundle.Files {
		n.refs[look.bundle.Files[i].Ref] = struct{}{}
	}
	// The bundle's own extractors aren't verified, so they are ignored.
	space, view, err := View(ctx, look.getter, look.bundle.FileList, look.bundle.Files, below, nil)
	if err != nil {
		return err
	}
	s := &items{space: space, view: view, layout: look.bundle.Layout()}
	err = cas.Parallel(ctx, 0, len(look.bundle.Files), func(_ context.Context, i int) error {
		return n.file(ctx, s, &look.bundle.Files[i])
	})
	if err != nil || look.extra == nil {
		return err
	}
	_, err = look.extra(ctx, view.Kinds(), n.fail)
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

func (n *inspection) file(ctx context.Context, s *items, file *manifest.File) error {
	at, isItem := s.at(file)
	var it *ai.Item
	if isItem {
		var err error
		if it, err = s.view.Load(ctx, at); err != nil {
			it = nil
			if file.Ref != "" && !errors.Is(err, ai.ErrAsset) {
				n.fail(&Failure{Check: CheckItem, Path: file.Path, Ref: file.Ref, Err: err})
			}
		}
	}
	if failure := n.look.check(ctx, file, it != nil); failure != nil {
		failure.Path, failure.Ref = file.Path, file.Ref
		n.fail(failure)
	}
	r := n.result
	if file.Mode == cas.Exec {
		n.mention(&r.Executable, file.Path, "mode")
	}
	if line := n.script(ctx, file); line != "" {
		n.mention(&r.Executable, file.Path, line)
		n.mention(&r.Outside, file.Path, strings.TrimSpace(strings.TrimPrefix(line, "#!")))
	}
	if it != nil {
		n.item(file, it)
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

func (n *inspection) item(file *manifest.File, it *ai.Item) {
	model, inspection := it.Model, n.result
	summary := Summary{Path: file.Path, Ref: it.Ref.String(), Version: model.Version, Title: model.Title,
		Description: model.Description}
	for _, p := range model.Problems {
		summary.Problems = append(summary.Problems, p.Error())
	}
	if t := model.Tool; t != nil {
		summary.Type, summary.Executor, summary.Network = t.Type, t.Executor, t.Network.String()
		if !t.Lends() || !t.NoRisk {
			risk, why := t.DeriveRisk()
			summary.Risk, summary.Derived = risk.String(), why
		}
		summary.Secrets, summary.Capabilities = t.Secrets, words(t.Permissions)
		n.tool(file, t)
	}
	if d := model.Directive; d != nil {
		summary.Capabilities = words(d.Permissions)
	}
	n.mention(&inspection.Secrets, file.Path, summary.Secrets...)
	n.mention(&inspection.Capabilities, file.Path, summary.Capabilities...)
	if model.Knowledge == nil {
		n.mention(&inspection.Runs, file.Path, mentionedFields(model.Fields)...)
		n.speaks(file.Path, "", model.Fields)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	inspection.Items = append(inspection.Items, summary)
}

func (n *inspection) tool(file *manifest.File, tool *model.Tool) {
	inspection, kind := n.result, "tool"
	if tool.Primitive {
		kind = "primitive"
	}
	n.mention(&inspection.Executable, file.Path, kind)
	n.mention(&inspection.Hosts, file.Path, tool.Network.Hosts...)
	if tool.Network.All {
		n.mention(&inspection.Hosts, file.Path, "*")
	}
	runs := model.Ref{Kind: "tool", ID: tool.Executor}.String()
	if _, inside := n.refs[runs]; tool.Executor != "" && !inside {
		n.mention(&inspection.Outside, file.Path, runs)
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
func (n *inspection) speaks(path, field string, val *value.Value) {
	if val == nil || field == "description" || field == "tool_description" {
		return
	}
	for i := range val.Items {
		n.speaks(path, "", val.Items[i])
	}
	for i := range val.Map {
		n.speaks(path, val.Map[i].Key, val.Map[i].Value)
	}
	if val.Kind != value.Text {
		return
	}
	hosts, places := mentioned(val.Text)
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
