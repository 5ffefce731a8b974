package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
)

// listed returns the link of the chain that names a list of packages, which is one at most; -1 for none.
func listed(chain *ai.Chain) (int, error) {
	found := -1
	for i, it := range chain.Links {
		if it.Model.Tool.Packages == "" {
			continue
		}
		if found >= 0 {
			return -1, packages.Invalid(it.Ref,
				fmt.Errorf("%q, which it runs, has packages too: only one link of a chain can",
					chain.Links[found].Ref))
		}
		found = i
	}
	return found, nil
}

// packagesPath is the name of the directory of the packages in templates of the configuration.
const packagesPath = "packages_path"

// addPackages makes the packages of a link available to the chain, and sets the name of their directory. The programs
// must be known already.
func (p *Plan) addPackages(ctx context.Context, base *Base, named func(dir string) error) error {
	at, err := listed(p.chain.Chain)
	if at < 0 || err != nil {
		return err
	}
	link := p.Chain[at].Item
	name := link.Model.Tool.Packages
	// The list comes from the copy, whose bytes are checked.
	from := path.Join(chain.Directory(link.Space), path.Dir(link.Path), name)
	if !p.Chain[at].Has(from) {
		return packages.Invalid(link.Ref, fmt.Errorf("%q is not a file of the tool's tree", name))
	}
	set, err := packages.Prepare(ctx, packages.Request{
		Ref: link.Ref, List: name, Path: filepath.Join(p.copied.Dir, filepath.FromSlash(from)), Lock: base.Artifacts,
		Store:  base.Objects,
		Copies: p.kernel.Copies, Dir: p.scratch.Dir, Dry: p.call.Dry, Python: p.python,
	})
	if err != nil {
		return err
	}
	p.Artifacts, p.Undecided, p.Possible, p.modules = set.Artifacts, set.Undecided, set.Possible, set.Copy
	if p.modules != nil {
		p.Damage = cmp.Or(p.Damage, p.modules.Damage)
		p.Action.Sandbox.Read = append(p.Action.Sandbox.Read, p.modules.Root)
	}
	dir := set.Path()
	if dir == "" && set.ForPython && !set.Undecided {
		// else the runtime would look in a virtual environment
		dir = filepath.Join(p.copied.Root, packages.SitePackages)
	}
	if dir != "" {
		p.Env = append(p.Env, env.PackagePath+"="+dir)
		slices.Sort(p.Env)
		p.Action.Env = p.Env
		return named(dir)
	}
	return nil
}

// programs is the primitive that runs a program once, whichever one the chain ends in: a server answers no question.
const programs = "rye/core/primitives/subprocess"

// pythonTime is how many seconds a Python has to describe itself.
const pythonTime = 60

// python asks the Python that will run about itself, once for each interpreter. It runs where the tool will, without
// the project's files, a plugin's data and network.
func (p *Plan) python(ctx context.Context) (*packages.Python, error) {
	s, ok := p.primitive.(primitive.Starter)
	var names []string
	if ok = ok && p.kernel.Primitives[programs] != nil; ok {
		names = s.Starts(p.Config)
	}
	if len(names) != 1 || p.fromChain(names[0]) {
		return nil, errors.New("its chain starts no Python of this machine, which choosing wheels needs")
	}
	path := p.Action.Programs[names[0]].Path
	key := path
	for _, q := range p.Programs {
		if q.Path == path {
			key = q.Digest.String() + " " + path
		}
	}
	if known, ok := p.kernel.pythons.Load(key); ok {
		return known.(*packages.Python), nil
	}
	a := p.Action
	a.Config = map[string]any{"command": names[0],
		"args": []any{"-I", "-S", "-B", "-X", "utf8", "-c", packages.Question}, "timeout": int64(pythonTime)}
	a.Dir, a.Files = p.scratch.Home, primitive.Files{}
	a.Sandbox.Network, a.Sandbox.Data = sandbox.Network{}, nil // the data of a plugin is made when the call begins
	a.Sandbox.Read, a.Sandbox.Write = []string{p.copied.Root}, []string{p.scratch.Home, p.scratch.Temp}
	for _, q := range p.found {
		a.Sandbox.Read = append(a.Sandbox.Read, p.kernel.around(q)...)
	}
	r, err := p.kernel.Primitives[programs].Run(ctx, &a, nil)
	if err != nil {
		return nil, err
	}
	if r.Failed {
		return nil, fmt.Errorf("%q doesn't say which wheels it takes: %s", path, r.Failure)
	}
	python, err := packages.ParsePython(r.Value)
	if err != nil {
		return nil, fmt.Errorf("%q doesn't say which wheels it takes: %w", path, err)
	}
	p.kernel.pythons.Store(key, python)
	return python, nil
}
