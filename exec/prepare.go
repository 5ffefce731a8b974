package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/grants"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A Decision is everything that was decided about a call, for answers and records. Nothing has been done yet.
type Decision struct {
	Chain    []Link     // from the tool to the primitive
	Set      cas.Digest // of the lock; zero without one
	Params   map[string]any
	Grants   grants.Grants
	Stranger bool // another signer's, so the sandbox for strangers applies
	Dev      bool
	Config   map[string]any // of the primitive, with ${NAME} for secrets
	Env      []string       // its variables, without secrets
	Keys     []string       // the variables that .env and the chain set
	Programs []record.Program
	Action   primitive.Action
	Work     string // the working directory of a build step, empty and removed with the plan
	Damage   error  // why a cached copy of the files had to be replaced
	// Artifacts are the packages of the tool.
	Artifacts []packages.Artifact
	Asks      string // of a dry call, why it needs an approval; "" if it needs none
	// Undecided says that the call is dry, and only a program that isn't started could tell which packages it needs.
	Undecided bool
}

// A Plan is a decided call that can be run once. The caller closes it.
type Plan struct {
	Decision

	kernel    *Kernel
	policies  grants.Policies
	call      *Call
	id        string
	project   string
	caller    *Caller
	tool      *model.Tool
	primitive primitive.Primitive
	copied    *materialise.Copy
	modules   *materialise.Copy // of packages; nil where it names none
	scratch   *materialise.Scratch
	found     []env.Program
	outputs   []string // of the project, to be made
	toolPath  string   // of the tool's file, in the copy
	configure func(secrets map[string]string) (map[string]any, error)
	foreign   bool // an item of the chain is another signer's
	ran       bool

	mu     sync.Mutex
	closed bool
	holds  int // by what lives longer than the action
}

// A Link is one item of a chain, as it was admitted.
type Link struct {
	Item    *ai.Item
	Tree    cas.Digest // of its other files; zero for none
	Signers []string   // fingerprints, "builtin" or "dev"; none where the policy names the digest
	files   []materialise.Part
}

// Prepare decides everything about a call: it finds the chain, asks the current policies about each link, checks the
// parameters, and copies the files that will run. It starts nothing, except a Python that must be asked which wheels it
// takes.
func (k *Kernel) Prepare(ctx context.Context, b *Base, c *Call) (_ *Plan, err error) {
	chain, err := ai.Walk(ctx, b.Resolver, c.Ref)
	if err != nil {
		return nil, err
	}
	p := &Plan{kernel: k, policies: b.Policies, call: c, id: newID(k.Now()), caller: CallerOf(ctx), tool: chain.Tool().Model.Tool,
		project: cmp.Or(c.Project, k.Project), Decision: Decision{Set: b.Set, Dev: b.Dev == c.Ref, Stranger: c.Stranger}}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	var known bool
	if p.primitive, known = k.Primitives[chain.Primitive().ID]; !known {
		return nil, noPrimitive(c.Ref, chain.Primitive().ID)
	}
	if len(chain.Links) == 1 {
		return nil, NotExecutable(c.Ref)
	}
	if graph.Is(p.tool) {
		return nil, fault.New(fault.Validation, "%q is a state graph, which runs as a thread", c.Ref).On("ref", c.Ref.String()).Try(fault.Command("rye run", c.Ref.String()))
	}
	if c.Build && !p.tool.Pure {
		return nil, fault.New(fault.Validation, "%q isn't declared pure, so a build can't use it", c.Ref).On("ref", c.Ref.String()).
			Because("pure: true in a tool promises the same outputs for the same inputs, without network or other files").Try("rye docs build")
	}
	from := &files{at: map[cas.Digest]source{}}
	for _, it := range chain.Links {
		link, own, err := k.admit(ctx, b, it, from)
		if err != nil {
			return nil, err
		}
		p.Chain, p.Stranger = append(p.Chain, link), p.Stranger || !own
		p.foreign = p.foreign || !own && it.Ref != b.Dev
	}
	var parent *grants.Grants
	if p.caller != nil && !p.caller.unbound {
		parent = &p.caller.Grants
	}
	others := c.Stranger && !c.Declared || p.foreign
	if p.Grants, err = b.Allowed(p.tool, c.Ref, others, parent); err != nil {
		return nil, err
	}
	if c.Within != nil {
		if p.Grants.Permissions, err = p.Grants.Permissions.Intersect(*c.Within); err != nil {
			return nil, err
		}
	}
	if c.Build {
		p.Grants = grants.None()
	}
	if p.Dev {
		p.Grants.Secrets = nil // the policy allows secrets to signed tools
	}
	schema, err := Input(p.tool)
	if err != nil {
		return nil, ConfigError(c.Ref, err)
	}
	given := map[string]any{}
	if c.Params != nil {
		if given, err = c.Params(schema); err != nil {
			return nil, fault.Wrap(err, "%v", err).Try(fault.Command("rye exec", c.Ref.String()) + " --help")
		}
	}
	if p.Params, err = schema.Complete(given); err != nil {
		return nil, inputError(c.Ref, err)
	}
	if p.copied, err = k.copy(ctx, p.Chain, from); err != nil {
		return nil, err
	}
	p.Damage = p.copied.Damage
	if p.scratch, err = k.Copies.Scratch(ctx); err != nil {
		return nil, err
	}
	if c.Build {
		p.Work = filepath.Join(p.scratch.Dir, "work")
		if err = os.Mkdir(p.Work, 0o700); err != nil {
			return nil, err
		}
	}
	if err = p.fill(ctx, b, chain, schema); err != nil {
		return nil, err
	}
	if err = p.checkAnswer(); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends the use of what was prepared, once everything that holds it has released it.
func (p *Plan) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = true; p.holds > 0 {
		return nil
	}
	return p.free()
}

// hold keeps the files of the action for what lives longer. It implements primitive.Action.Hold.
func (p *Plan) hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.holds--; p.holds == 0 && p.closed {
			_ = p.free() // what is left is removed with the cache
		}
	})
}

// free removes and closes what was prepared. The mutex is held.
func (p *Plan) free() error {
	var errs []error
	for _, program := range p.Action.Programs {
		if program.File != nil {
			errs = append(errs, program.File.Close())
		}
	}
	if p.scratch != nil {
		errs = append(errs, p.scratch.Close())
	}
	for _, c := range []*materialise.Copy{p.copied, p.modules} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	p.Action.Programs, p.scratch, p.copied, p.modules = nil, nil, nil, nil
	return errors.Join(errs...)
}

// admit asks the policy about a link and notes its files. own reports whether it is the user's or the library's.
func (k *Kernel) admit(ctx context.Context, b *Base, it *ai.Item, from *files) (l Link, own bool, err error) {
	l.Item = it
	a, err := b.Admit.Admit(ctx, it, policy.ToUse)
	if it.Ref == b.Dev {
		// It needs neither signature nor lock, but it must not be revoked.
		if a == nil || a.Exam == nil {
			return l, false, about(ctx, it, err)
		}
		if a.Decision.Code == policy.DigestRevoked {
			return l, false, ai.NotAdmitted(it.Ref, it.Path, a.Decision)
		}
		l.Signers = []string{"dev"}
	} else {
		if err != nil {
			return l, false, about(ctx, it, err)
		}
		if !a.Decision.Allowed {
			return l, false, ai.NotAdmitted(it.Ref, it.Path, a.Decision)
		}
		if b.Unlisted != nil {
			if left := b.Unlisted(a); len(left) > 0 {
				return l, false, fault.New(fault.Policy, "%q has a v1 signature, which doesn't cover %q beside it, and no admitted manifest lists that file", it.Ref, left[0]).
					On("ref", it.Ref.String()).On("reason", "evidence-only").Try(fault.Command("rye sign --upgrade", it.Ref.String()))
			}
		}
		own = a.Decision.OwnedBy(k.Own)
		if a.Decision.Voucher == policy.Builtin {
			l.Signers = []string{"builtin"}
		}
		for _, v := range a.Decision.Signers {
			if v.Code == policy.Admitted {
				l.Signers = append(l.Signers, v.Key.String())
			}
		}
	}
	if it.Model.Tool != nil && it.Model.Tool.Primitive {
		return l, own, nil // the binary runs it, and needs no file for that
	}
	m, err := mode(it)
	if err != nil {
		return l, false, err
	}
	from.at[it.Raw] = source{bytes: it.Bytes, size: int64(len(it.Bytes))}
	l.files = append(l.files, part(it.Space, it.Path, it.Raw, m, int64(len(it.Bytes))))
	if a.Tree == nil {
		return l, own, nil
	}
	l.Tree = a.Tree.Digest
	anchor, err := b.Admit.Anchor(ctx, it)
	if err != nil || anchor == nil {
		return l, own, cmp.Or(err, errMoved)
	}
	for i := range a.Tree.Files {
		f := &a.Tree.Files[i]
		at := path.Join(anchor.Dir, f.Path)
		from.at[f.Raw] = source{space: it.Space, path: at, size: f.Size}
		l.files = append(l.files, part(it.Space, at, f.Raw, f.Mode, f.Size))
	}
	return l, own, nil
}

// about adds the link of the chain to an error.
func about(ctx context.Context, it *ai.Item, err error) error {
	if _, ok := errors.AsType[*ai.ItemError](err); ok || err == nil || ctx.Err() != nil {
		return err
	}
	return &ai.ItemError{Ref: it.Ref, Space: it.Space, Path: it.Path, Err: err}
}

var errMoved = errors.New("the files of the tool changed while they were read")

// copy puts the files of all links on disk, each once.
func (k *Kernel) copy(ctx context.Context, chain []Link, from *files) (*materialise.Copy, error) {
	var parts []materialise.Part
	for i := range chain {
		parts = append(parts, chain[i].files...)
	}
	slices.SortFunc(parts, func(a, b materialise.Part) int { return cmp.Compare(a.Path, b.Path) })
	return k.Copies.Copy(ctx, from, slices.CompactFunc(parts, func(a, b materialise.Part) bool { return a == b }))
}

// fill makes the environment and the configuration of the chain.
func (p *Plan) fill(ctx context.Context, b *Base, chain *ai.Chain, schema *params.Schema) error {
	names, links, err := p.names(ctx, b, chain)
	if err != nil {
		return err
	}
	var own []env.Variable
	if p.kernel.DotEnv != nil && b.Floor().DotEnv == floor.DotEnvProject {
		if own, err = p.kernel.DotEnv(); err != nil {
			return err
		}
	}
	request := p.isolate(env.Request{
		Host: p.kernel.Host, Links: links, Project: p.kernel.Project, Home: p.scratch.Home, Temp: p.scratch.Temp,
		Forbidden: p.kernel.Forbidden, Names: names, DotEnv: own,
	})
	made, err := env.Resolve(ctx, request)
	if err != nil {
		return err
	}
	// Parameters are known to templates of the configuration alone.
	text, err := jcs.Append(nil, p.Params)
	if err != nil {
		return inputError(p.call.Ref, err)
	}
	names["params_json"] = string(text)
	at, err := listed(chain)
	if err != nil {
		return err
	}
	if at >= 0 {
		names[packagesPath] = filepath.Join(p.scratch.Dir, "packages") // until they are there
	}
	p.configure = func(secrets map[string]string) (map[string]any, error) {
		vars := maps.Clone(made.Vars)
		maps.Copy(vars, secrets)
		return p.config(chain, schema, vars, names)
	}
	shown, err := p.placeholders()
	if err != nil {
		return err
	}
	if p.Config, err = p.configure(shown); err != nil {
		return err
	}
	p.Env, p.Keys = p.fixed(p.inherited(made), made.Keys), made.Keys
	if err := p.programs(request, made, b); err != nil {
		return err
	}
	if err := p.action(); err != nil {
		return err
	}
	return p.addPackages(ctx, b, chain, func(dir string) error {
		names[packagesPath] = dir
		p.Config, err = p.configure(shown)
		p.Action.Config = p.Config
		return err
	})
}

// inherited are the variables that the action gets: what the chain made, without those that led rye to programs.
func (p *Plan) inherited(made *env.Env) []string {
	return slices.DeleteFunc(made.List(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "RYE_") && name != env.ModulePath
	})
}

// Named are the names that rye itself gives to templates, where there is what they name.
func Named() []string {
	return []string{"tool_path", "tool_dir", "tool_parent", "project_path", "user_space", "anchor_path", "runtime_lib", "params_json", packagesPath}
}

// names are what templates may call by name, and what the links say about their environment.
func (p *Plan) names(ctx context.Context, b *Base, chain *ai.Chain) (map[string]string, []env.Link, error) {
	tool := chain.Tool()
	in := func(s *ai.Space, at string) string {
		return filepath.Join(p.copied.Dir, filepath.FromSlash(path.Join(directory(s), at)))
	}
	names := map[string]string{ // each of them in Named
		"tool_path": in(tool.Space, tool.Path), "tool_dir": in(tool.Space, path.Dir(tool.Path)),
		"tool_parent": in(tool.Space, path.Dir(path.Dir(tool.Path))), "project_path": cmp.Or(p.Work, p.project, p.scratch.Home),
	}
	if p.kernel.User != "" && !p.call.Build {
		names["user_space"] = p.kernel.User
	}
	p.toolPath = names["tool_path"]
	anchor, err := b.Admit.Anchor(ctx, tool)
	if err != nil {
		return nil, nil, err
	}
	if anchor != nil {
		names["anchor_path"] = in(tool.Space, anchor.Dir)
	}
	ruled := false
	links := make([]env.Link, 0, len(chain.Links))
	for _, it := range chain.Links {
		t := it.Model.Tool
		if t.Primitive {
			break
		}
		link := env.Link{Name: it.Ref.String(), EnvConfig: t.EnvConfig}
		// The anchor is by the rule of the first link that has one, and that one's paths count while it is active.
		if !t.Anchor.IsNull() && !ruled {
			ruled = true
			if anchor != nil && anchor.Below == "" {
				link.EnvPaths = t.Anchor.Get("env_paths")
			}
		}
		links = append(links, link)
		if lib := t.Anchor.Get("lib").String(); lib != "" && names["runtime_lib"] == "" {
			names["runtime_lib"] = in(it.Space, path.Join(path.Dir(it.Path), lib))
		}
	}
	return names, links, nil
}

// config merges what the links say, fills it in, and holds it against what the primitive takes.
func (p *Plan) config(chain *ai.Chain, schema *params.Schema, vars, names map[string]string) (map[string]any, error) {
	var links []template.Link
	for _, it := range chain.Links {
		links = append(links, template.Link{Name: it.Ref.String(), Config: it.Model.Tool.Config})
	}
	merged, err := template.Merge(links...)
	if err != nil {
		return nil, ConfigError(p.call.Ref, err)
	}
	filled, err := merged.Fill(template.Names{Variables: vars, Kernel: names, Params: p.Params, Declares: schema.Declares})
	if err != nil {
		return nil, ConfigError(p.call.Ref, err)
	}
	takes, err := params.Compile(chain.Primitive().Model.Tool.Interface().Input)
	if err != nil {
		return nil, ConfigError(chain.Primitive().Ref, err)
	}
	// What others refer to and the primitive doesn't know are names of the chain's own.
	config := maps.Clone(filled.Config)
	for _, name := range filled.Used {
		if !takes.Declares(name) {
			delete(config, name)
		}
	}
	fitted, ok := takes.Fit(config).(map[string]any)
	if !ok {
		return nil, ConfigError(p.call.Ref, fmt.Errorf("it is not an object"))
	}
	config, err = takes.Complete(fitted)
	if err != nil {
		return nil, ConfigError(p.call.Ref, err)
	}
	return config, nil
}

// mode is that of an item's own file.
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

// part is where a file of a space stands in the copy.
func part(s *ai.Space, at string, d cas.Digest, m cas.Mode, size int64) materialise.Part {
	return materialise.Part{Path: path.Join(directory(s), at), ID: cas.ID{Kind: cas.Blob, Digest: d}, Mode: m, Size: size}
}

// directory is that of a space in the copy.
func directory(s *ai.Space) string { return strings.ReplaceAll(s.Label, ":", "/") }
