package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A Decision is everything that was decided about a call, for answers and records. Nothing has been done yet.
type Decision struct {
	Chain  []chain.Link // from the tool to the primitive
	Set    cas.Digest   // of the lock; zero without one
	Params map[string]any
	Grants chain.Grants
	Risk   model.Risk // by which the policies decide
	// Derived is why the tool, which declares no risk, has this one; "" if it declares one.
	Derived  string
	Stranger bool // another signer's, so the sandbox for strangers applies
	Dev      bool
	Config   map[string]any // of the primitive, with ${NAME} for secrets
	Env      []string       // its variables, without secrets
	Keys     []string       // the variables that .env and the chain set
	Programs []record.Program
	Shim     *env.Shim // that stands in PATH for the program to start; nil without one
	Action   primitive.Action
	Work     string // the working directory of a build step, empty and removed with the plan
	Damage   error  // why a cached copy of the files had to be replaced
	// Artifacts are the packages of the tool.
	Artifacts []packages.Artifact
	Asks      string // of a dry call, why it needs an approval; "" if it needs none
	// Undecided is set for a dry call whose packages depend on a program that a dry call doesn't start.
	Undecided bool
	// Possible are the packages from which such a program would choose.
	Possible []packages.Artifact
}

// A Plan is a decided call that can be run once. The caller closes it.
type Plan struct {
	Decision

	kernel    *Kernel
	policies  chain.Policies
	published func(space, item string) (version, registry string)
	call      *Call
	id        string
	project   string
	caller    *Caller
	chain     *chain.Chain
	tool      *model.Tool
	variables map[string]string // that the process has secrets in beside the usual ones, by the secrets' names
	primitive primitive.Primitive
	copied    *materialise.Copy
	modules   *materialise.Copy // of packages; nil where it names none
	scratch   *materialise.Scratch
	release   func() // releases the Keeper's hold on the action; nil: none
	found     []env.Program
	outputs   []string // of the project, to be made
	toolPath  string   // of the tool's file, in the copy
	data      string   // the directory of its plugin's data; "" for none
	configure func(secrets map[string]string) (map[string]any, error)
	ran       bool

	mu     sync.Mutex
	closed bool
	holds  int // by what lives longer than the action
}

// Prepare decides everything about a call and starts nothing, except a Python that must be asked which wheels it
// takes.
func (k *Kernel) Prepare(ctx context.Context, b *Base, c *Call) (*Plan, error) {
	t, err := k.Resolve(ctx, b, c)
	if err != nil {
		return nil, err
	}
	return t.Prepare(ctx)
}

// A Target is a call whose chain is admitted, whose grants are known and whose parameters are complete. Nothing is
// copied yet, and a Target needs no closing.
type Target struct {
	plan   *Plan
	base   *Base
	schema *params.Schema // of the parameters
}

// Resolve does the part of Prepare that an approval depends on: it asks the current policies about each link of the
// call's chain, and checks the parameters. If Call.Approval is for another digest, risk, set, caller or other
// parameters, the error is CONFLICT.
func (k *Kernel) Resolve(ctx context.Context, base *Base, call *Call) (*Target, error) {
	source := chain.Source{Resolver: base.Resolver, Admit: base.Admit, Unlisted: base.Unlisted, Dev: base.Dev,
		Own: k.Own, Memory: base.Known, Plugins: base.Plugins}
	found, err := source.Find(ctx, call.Ref, func(found *ai.Chain) error { return k.fits(call, found) })
	if err != nil {
		return nil, err
	}
	plan := &Plan{kernel: k, policies: base.Policies, published: base.Published, call: call, id: newID(k.Now()),
		caller: CallerOf(ctx),
		chain:  found, tool: found.Tool().Model.Tool,
		project: cmp.Or(call.Project, k.Project), primitive: k.Primitives[found.Primitive().ID],
		Decision: Decision{Chain: found.Links, Set: base.Set, Dev: base.Dev == call.Ref, Stranger: call.Stranger ||
			!found.Own}}
	if err := plan.grant(base); err != nil {
		return nil, err
	}
	confined := plan.need() >= floor.Landlock || k.Confines != nil && k.Confines()
	plan.Risk, plan.Derived = plan.Grants.Risk(plan.tool, confined)
	if plan.Derived != "" && found.Data && plan.Risk < declared.Write {
		plan.Risk, plan.Derived = declared.Write, "it may write the data of its plugin"
	}
	schema, err := plan.complete()
	if err != nil {
		return nil, err
	}
	if a := call.Approval; a != nil {
		if err := a.Covers(plan.asked()); err != nil {
			return nil, err
		}
	}
	return &Target{plan: plan, base: base, schema: schema}, nil
}

// Asked returns the call as the policies decide about it.
func (t *Target) Asked() *consent.Call { return t.plan.asked() }

func (p *Plan) asked() *consent.Call {
	c, tool := p.call, p.chain.Tool()
	return &consent.Call{
		Ref: c.Ref, Digest: tool.Raw, Risk: p.Risk.String(), Derived: p.Derived,
		Declare: tool.Model.RiskLine(p.Risk), Params: p.Params, Set: p.Set,
		Principal: c.Principal, Tenant: c.Tenant,
		Approval: c.Approval, Attended: !c.Stranger,
	}
}

// Prepare decides the rest about the call, once: it copies the files that will run, and makes the environment, the
// configuration and the action. The caller closes the plan.
func (t *Target) Prepare(ctx context.Context) (_ *Plan, err error) {
	plan := t.plan
	defer func() {
		if err != nil {
			plan.Close()
		}
	}()
	if needsNoFiles, err := plan.bare(t.schema); needsNoFiles || err != nil {
		return plan, err
	}
	if kept, err := plan.kept(t.schema); kept || err != nil {
		return plan, err
	}
	plan.warm()
	if err := plan.copyFiles(ctx); err != nil {
		return nil, err
	}
	if err := plan.fill(ctx, t.base, t.schema); err != nil {
		return nil, err
	}
	if err := plan.checkAnswer(); err != nil {
		return nil, err
	}
	return plan, nil
}

// grant decides what the call may do: what its tool declares, as far as the policies and its caller allow it.
func (p *Plan) grant(b *Base) (err error) {
	call := p.call
	var parent *chain.Grants
	if p.caller != nil && !p.caller.unbound {
		parent = &p.caller.Grants
	}
	if err := p.allow(b); err != nil {
		return err
	}
	others := call.Stranger && !call.Declared || p.chain.Foreign
	if p.Grants, err = b.Allowed(p.tool, call.Ref, others, parent); err != nil {
		return err
	}
	if call.Within != nil {
		if p.Grants.Permissions, err = p.Grants.Permissions.Intersect(*call.Within); err != nil {
			return err
		}
	}
	if call.Build {
		p.Grants = chain.NoGrants()
	}
	if p.Dev {
		p.Grants.Secrets = nil // the policy allows secrets to signed tools
	}
	return nil
}

// complete checks the parameters by the tool's schema, which it returns, and adds the defaults.
func (p *Plan) complete() (*params.Schema, error) {
	call := p.call
	schema, err := p.chain.Input()
	if err != nil {
		return nil, ConfigError(call.Ref, err)
	}
	given := map[string]any{}
	if call.Params != nil {
		if given, err = call.Params(schema); err != nil {
			return nil, fault.Wrap(err, "%v", err).Try(fault.Command("rye exec", call.Ref.String()) + " --help")
		}
	}
	if p.Params, err = schema.Complete(given); err != nil {
		return nil, inputError(call.Ref, err)
	}
	return schema, nil
}

// warm lets the primitive start a process while the files are copied.
func (p *Plan) warm() {
	if r, able := p.primitive.(primitive.Readier); able && !p.call.Dry {
		r.Ready(!p.Grants.Network.Bound)
	}
}

// copyFiles makes the private copy of the chain's files, and the directories of the call.
func (p *Plan) copyFiles(ctx context.Context) (err error) {
	copies := p.kernel.Copies
	if p.copied, err = copies.Copy(ctx, p.chain.Files, p.chain.Parts); err != nil {
		return err
	}
	p.Damage = p.copied.Damage
	if p.scratch, err = copies.Scratch(ctx); err != nil {
		return err
	}
	if !p.call.Build {
		return nil
	}
	p.Work = filepath.Join(p.scratch.Dir, "work")
	return os.Mkdir(p.Work, 0o700)
}

// unpaid refuses a thread's call that reaches a model as a tool: only a model call of the thread itself reserves its
// price in the budget.
func unpaid(ref model.Ref, found *ai.Chain) error {
	for _, it := range found.Links {
		if it.Model.IsProvider() {
			return fault.New(fault.Denied, "a thread can't call %q as a tool: %q is a provider of models", ref,
				it.Ref).On("ref", ref.String()).
				Because("only the thread's own model calls are paid from its budget").Try("rye docs budgets")
		}
	}
	return nil
}

// fits refuses a chain that this kernel can't run, or that a build can't use.
func (k *Kernel) fits(call *Call, found *ai.Chain) error {
	if k.Primitives[found.Primitive().ID] == nil {
		return noPrimitive(call.Ref, found.Primitive().ID)
	}
	if len(found.Links) == 1 {
		return NotExecutable(call.Ref)
	}
	if graph.Is(found.Tool().Model.Tool) {
		return fault.New(fault.Validation, "%q is a state graph, which runs as a thread", call.Ref).On("ref",
			call.Ref.String()).Try(fault.Command("rye run", call.Ref.String()))
	}
	if call.Within != nil {
		if err := unpaid(call.Ref, found); err != nil {
			return err
		}
	}
	if call.Build && !found.Tool().Model.Tool.Pure {
		return fault.New(fault.Validation, "%q isn't declared pure, so a build can't use it", call.Ref).On("ref",
			call.Ref.String()).
			Because(
				"pure: true in a tool promises the same outputs for the same inputs, without network or other files").
			Try("rye docs build")
	}
	return nil
}

// bare decides the rest about a call that needs no file, directory or environment of its own, and reports whether it
// is one: the primitive needs none, and the configuration names none.
func (p *Plan) bare(schema *params.Schema) (bool, error) {
	b, able := p.primitive.(primitive.Bare)
	if !able || slices.ContainsFunc(p.Chain, func(l chain.Link) bool {
		return !l.Item.Model.Tool.Anchor.IsNull()
	}) || !p.plain(schema, map[string]string{}) {
		return false, nil
	}
	var err error
	if p.Config, err = p.configure(nil); err != nil || !b.Bare(p.Config) {
		return false, nil
	}
	return true, p.action()
}

// plain reports whether a call needs no environment and no template names but the given ones, and prepares its
// configuration. After an error it returns false: the full preparation meets the same error and reports it.
func (p *Plan) plain(schema *params.Schema, names map[string]string) bool {
	if p.call.Build || p.call.Dry || p.tool.Answer != "" || len(p.tool.Secrets) > 0 {
		return false
	}
	for _, l := range p.Chain {
		if t := l.Item.Model.Tool; !t.EnvConfig.IsNull() || t.Packages != "" {
			return false
		}
	}
	text, err := jcs.Append(nil, p.Params)
	if err != nil {
		return false
	}
	names["params_json"] = string(text)
	config, err := p.chain.Config()
	p.configure = func(map[string]string) (map[string]any, error) { return p.config(schema, nil, names) }
	return err == nil && config.Only(slices.Collect(maps.Keys(names))...)
}

// kept decides the rest about a call if the primitive still holds the files of an earlier call like it. Then nothing
// is copied.
func (p *Plan) kept(schema *params.Schema) (ok bool, err error) {
	keeper, able := p.primitive.(primitive.Keeper)
	if !able || !keeper.Keeps() || p.project == "" {
		return false, nil
	}
	key, err := p.chain.Key()
	if err != nil {
		return false, err
	}
	p.copied = p.kernel.Copies.Place(key)
	names, _ := p.names()
	if p.addPluginNames(names) == nil && p.plain(schema, names) { // else preparing it in full reports the error
		if p.Config, err = p.configure(nil); err == nil {
			err = p.action()
		}
		if err != nil {
			return false, err
		}
		p.release, ok = keeper.Take(&p.Action)
	}
	if !ok {
		p.copied, p.Config, p.Action, p.outputs, p.data = nil, nil, primitive.Action{}, nil, ""
	}
	return ok, nil
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
			_ = p.free() // cleaning the cache removes the rest
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
	if p.release != nil {
		p.release()
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

// fill makes the environment and the configuration of the chain.
func (p *Plan) fill(ctx context.Context, base *Base, schema *params.Schema) error {
	names, links := p.names()
	if err := p.addPluginNames(names); err != nil {
		return err
	}
	var own []env.Variable
	var err error
	if p.kernel.DotEnv != nil && base.Floor().DotEnv == floor.DotEnvProject {
		if own, err = p.kernel.DotEnv(); err != nil {
			return err
		}
	}
	host := p.kernel.Host
	if p.policies.Floor().Enforce {
		host.Known = nil // digests admit programs
	}
	request := p.isolate(env.Request{
		Host: host, Links: links, Project: p.kernel.Project, Home: p.scratch.Home, Temp: p.scratch.Temp,
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
	at, err := listed(p.chain.Chain)
	if err != nil {
		return err
	}
	if at >= 0 {
		names[packagesPath] = filepath.Join(p.scratch.Dir, "packages") // until they are there
	}
	p.configure = func(secrets map[string]string) (map[string]any, error) {
		vars := maps.Clone(made.Vars)
		maps.Copy(vars, secrets)
		return p.config(schema, vars, names)
	}
	shown, err := p.placeholders()
	if err != nil {
		return err
	}
	if p.Config, err = p.configure(shown); err != nil {
		return err
	}
	p.Env, p.Keys = p.fixed(p.inherited(made), made.Keys), made.Keys
	if err := p.programs(request, made, base); err != nil {
		return err
	}
	if err := p.action(); err != nil {
		return err
	}
	return p.addPackages(ctx, base, func(dir string) error {
		names[packagesPath] = dir
		p.Config, err = p.configure(shown)
		p.Action.Config = p.Config
		return err
	})
}

// inherited returns the variables of the action: the chain's, without those by which rye finds programs.
func (p *Plan) inherited(made *env.Env) []string {
	list := slices.DeleteFunc(made.List(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "RYE_") && name != env.ModulePath
	})
	if id := p.thread(); id != "" {
		list = append(list, env.Thread+"="+id)
	}
	return list
}

// thread returns the thread that the call is made by, "" for none.
func (p *Plan) thread() string {
	if d := p.call.Door; d != nil && d.Thread != "" {
		return d.Thread
	}
	for c := p.caller; c != nil; c = c.above {
		if d := c.call.Door; d != nil && d.Thread != "" {
			return d.Thread
		}
	}
	return ""
}

// Named returns the template names that rye defines. A name without a value is undefined in a call.
func Named() []string {
	return []string{"tool_path", "tool_dir", "tool_parent", "project_path", "user_space", "anchor_path", "runtime_lib",
		"params_json", packagesPath, chain.PluginRoot, chain.PluginData}
}

// names returns the values of template names, and the links' declarations about their environment.
func (p *Plan) names() (map[string]string, []env.Link) {
	tool, anchor := p.chain.Tool(), p.chain.Anchor
	in := func(s *ai.Space, at string) string {
		return filepath.Join(p.copied.Dir, filepath.FromSlash(path.Join(chain.Directory(s), at)))
	}
	names := map[string]string{ // each of them in Named
		"tool_path": in(tool.Space, tool.Path), "tool_dir": in(tool.Space, path.Dir(tool.Path)),
		"tool_parent": in(tool.Space, path.Dir(path.Dir(tool.Path))), "project_path": cmp.Or(p.Work, p.project),
	}
	if names["project_path"] == "" {
		names["project_path"] = p.scratch.Home
	}
	if p.kernel.User != "" && !p.call.Build {
		names["user_space"] = p.kernel.User
	}
	p.toolPath = names["tool_path"]
	if anchor != nil {
		names["anchor_path"] = in(tool.Space, anchor.Dir)
	}
	ruled := false
	links := make([]env.Link, 0, len(p.Chain))
	for _, it := range p.chain.Chain.Links {
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
	return names, links
}

// config merges the configurations of the links, fills in the names, and checks the result by the primitive's schema.
func (p *Plan) config(schema *params.Schema, vars, names map[string]string) (map[string]any, error) {
	merged, err := p.chain.Config()
	if err != nil {
		return nil, ConfigError(p.call.Ref, err)
	}
	filled, err := merged.Fill(template.Names{Variables: vars, Kernel: names, Params: p.Params,
		Declares: schema.Declares})
	if err != nil {
		return nil, ConfigError(p.call.Ref, err)
	}
	takes, err := p.chain.Takes()
	if err != nil {
		return nil, ConfigError(p.chain.Primitive().Ref, err)
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
