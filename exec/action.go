package exec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// programs finds the programs that the primitive will start, and compares them with the lock if the policy requires
// it.
func (p *Plan) programs(request env.Request, made *env.Env, base *Base) error {
	all := slices.Clone(made.Programs)
	p.Action.Programs = map[string]primitive.Program{}
	var names []string
	if s, ok := p.primitive.(primitive.Starter); ok {
		names = s.Starts(p.Config)
	}
	needed := len(names)
	if s, ok := p.primitive.(primitive.Seeker); ok {
		names = append(names, s.Seeks(p.Config)...)
	}
	for i, name := range names {
		if p.fromChain(name) {
			// The script is pinned, but not the interpreter that runs it.
			found, err := env.Find(request, made, name)
			if err != nil {
				return ConfigError(p.call.Ref, err)
			}
			p.Action.Programs[name] = primitive.Program{Path: name}
			all = append(all, found[1:]...)
			for _, interpreter := range found[1:] {
				if p.Shim == nil && i < needed {
					p.Shim = env.ShimOf(request, made, filepath.Base(interpreter.Path), interpreter)
				}
			}
			continue
		}
		if i := slices.IndexFunc(made.Programs, func(q env.Program) bool { return q.Path == name }); i >= 0 {
			p.Action.Programs[name] = primitive.Program{Path: name} // found above, with its interpreter
			continue
		}
		found, err := env.Find(request, made, name)
		if _, ok := errors.AsType[*env.NotFoundError](err); ok && i >= needed {
			continue
		}
		if i >= needed && slices.ContainsFunc(found, func(q env.Program) bool { return p.unfit(q) != nil }) {
			continue // it may not be started, which is as if it weren't there
		}
		if err != nil {
			return ConfigError(p.call.Ref, err)
		}
		p.Action.Programs[name] = primitive.Program{Path: found[0].Path}
		all = append(all, found...)
		if i < needed && p.Shim == nil {
			p.Shim = env.ShimOf(request, made, name, found[0])
		}
	}
	p.found = all
	seen := map[string]bool{}
	for _, program := range all {
		if err := p.unfit(program); err != nil {
			return ConfigError(p.call.Ref, err)
		}
		if seen[program.Path] {
			continue
		}
		seen[program.Path] = true
		used := record.Program{Digest: program.Digest, Name: lock.ProgramName(program.Path), Path: program.Path,
			Version: program.Version}
		if base.Program != nil {
			if locked := base.Program(used.Name, program.Digest); locked != nil {
				used.Pinned = locked.Digest == program.Digest
				if !used.Pinned && p.policies.Floor().Enforce {
					return pin{p.call.Ref, used.Name, program.Path, locked.Digest, program.Digest}.mismatch()
				}
			}
		}
		if !used.Pinned && p.policies.Floor().Enforce {
			return pin{ref: p.call.Ref, name: used.Name, path: program.Path, found: program.Digest}.mismatch()
		}
		p.Programs = append(p.Programs, used)
	}
	if !p.policies.Floor().Enforce {
		return nil
	}
	for name, q := range p.Action.Programs {
		if p.fromChain(name) {
			continue
		}
		f, err := p.open(q.Path)
		if err != nil {
			return err
		}
		q.File = f
		p.Action.Programs[name] = q
	}
	return nil
}

// unfit returns why a program may not be started or read; nil if it may. Directories that others write to and rye's
// own provide no programs, except an environment of packages that a link asks for. A stranger's chain may use the
// system's programs and those in PATH only: otherwise it could probe for any executable file by its path.
func (p *Plan) unfit(program env.Program) error {
	if !program.Fallback && slices.Contains([]string{"venv_python", "node_modules", "version_manager"}, program.Type) {
		return nil
	}
	for _, dir := range append([]string{p.call.Project}, p.kernel.Forbidden...) {
		if inside(program.Path, dir) || inside(program.Real, dir) {
			return fmt.Errorf("the program %q is in %q, a directory that may not provide programs", program.Path, dir)
		}
	}
	vars := p.kernel.Host.Vars
	known := slices.Concat(system, filepath.SplitList(cmp.Or(vars["PATH"], vars["Path"])))
	if p.Stranger && !p.Dev && !slices.ContainsFunc(known, func(dir string) bool {
		return inside(program.Path, dir)
	}) {
		return fmt.Errorf("the program %q is not in PATH; tools of other signers can start no others", program.Path)
	}
	return nil
}

// system is where a machine has its programs.
var system = []string{"/usr", "/bin", "/sbin", "/nix/store", "/gnu/store"}

// inside reports whether a path is in a directory.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

// fromChain reports whether a program is a file of the chain, which is pinned like all of them.
func (p *Plan) fromChain(path string) bool { return inside(path, p.copied.Dir) }

// open opens a pinned program and hashes it. The open file is what starts, even if its path is replaced meanwhile.
func (p *Plan) open(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h := cas.NewHasher()
	_, err = io.Copy(h, file)
	d := h.Digest()
	i := slices.IndexFunc(p.Programs, func(r record.Program) bool { return r.Path == path })
	if err == nil && (i < 0 || p.Programs[i].Digest != d) {
		q := pin{ref: p.call.Ref, name: lock.ProgramName(path), path: path, found: d}
		if i >= 0 {
			q.want = p.Programs[i].Digest
		}
		err = q.mismatch()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// action makes the action from the decision.
func (p *Plan) action() error {
	need := p.need()
	if p.Derived != "" && p.Risk < declared.Destructive {
		need = max(need, floor.Landlock) // the risk is that low only in a sandbox
	}
	spec := sandbox.Spec{
		Level: need,
		Deny:  p.kernel.Secret,
		Network: sandbox.Network{
			All: !p.Grants.Network.Bound, Hosts: p.Grants.Network.Hosts,
		},
		Limits: p.limits(),
	}
	if err := p.offline(&spec.Network); err != nil {
		return err
	}
	if p.copied != nil {
		spec.Read, p.Action.Own = []string{p.copied.Root}, p.copied.Root
	}
	if p.scratch != nil {
		spec.Write = []string{p.scratch.Home, p.scratch.Temp}
		p.Action.Dir, p.Action.Scratch = cmp.Or(p.Work, p.scratch.Home), p.scratch.Dir
	}
	if p.data != "" {
		spec.Data = []string{p.data}
	}
	for _, q := range p.found {
		spec.Read = append(spec.Read, p.kernel.around(q)...)
	}
	files := primitive.Files{Project: p.project}
	for _, at := range p.Grants.Read {
		abs, err := p.granted(at, false)
		if err != nil {
			return err
		}
		if abs != "" {
			files.Read = append(files.Read, abs)
		}
	}
	for _, at := range p.Grants.Write {
		abs, err := p.granted(at, true)
		if err != nil {
			return err
		}
		if at != "." {
			files.Write = append(files.Write, abs)
			continue
		}
		files.Write = append(files.Write, abs)
		if info, err := os.Lstat(filepath.Join(abs, ".ai")); err == nil && info.IsDir() {
			if below, err := p.granted(outputs, true); err == nil { // else a link, which is not followed
				files.Write = append(files.Write, below)
			}
		}
	}
	spec.Read, spec.Write = append(spec.Read, files.Read...), append(spec.Write, files.Write...)
	if slices.Contains(files.Write, p.project) {
		for _, name := range kept { // also those that don't exist
			files.Read = append(files.Read, filepath.Join(p.project, name))
		}
		spec.Keep = files.Read[len(files.Read)-len(kept):]
	}
	switch {
	case p.Work != "":
		spec.Write = append(spec.Write, p.Work)
		files = primitive.Files{Project: p.Work, Write: []string{p.Work}}
	case p.tool.Pure:
		files = primitive.Files{}
	}
	p.Action.Config, p.Action.Env, p.Action.Sandbox = p.Config, p.Env, spec
	p.Action.Files, p.Action.Pure, p.Action.Tool = files, p.tool.Pure, p.call.Ref.String()
	p.Action.Permissions, p.Action.Stranger = p.Grants.Permissions, p.stranger()
	for _, l := range p.Chain {
		p.Action.Links = append(p.Action.Links, l.Item.Ref.String())
	}
	p.Action.Share = fmt.Sprintf("%q %q %s", p.call.Principal, p.call.Tenant, p.Set)
	p.Action.Hold = p.hold
	return nil
}

// need returns the least sandbox that the policies require.
func (p *Plan) need() floor.Level {
	least := p.policies.Floor()
	switch {
	case !p.Stranger && !p.Dev:
		return least.Floor
	case least.Strangers != floor.Unset:
		return max(least.Floor, least.Strangers)
	}
	return max(least.Floor, floor.Landlock)
}

// stranger reports whether another signer's item takes part in the call, or in one that led to it.
func (p *Plan) stranger() bool { return p.Stranger || p.caller != nil && p.caller.stranger }

// limits returns the limits that the tool declares; the sandbox has defaults for the others.
func (p *Plan) limits() sandbox.Limits {
	of := func(name string) int64 { n, _ := declared.Limit(p.tool.Limits, name); return n }
	limits := sandbox.Limits{
		CPU:       declared.Duration(p.tool.Limits, "cpu_seconds"),
		Wall:      declared.Duration(p.tool.Limits, "duration_seconds"), // fractions allowed
		Memory:    of("memory_mib") << 20,
		Written:   of("written_mib") << 20,
		Output:    of("output_mib") << 20,
		Processes: int(of("processes")),
		Files:     int(of("open_files")),
	}
	if t := p.call.Timeout; t > 0 && (limits.Wall == 0 || t < limits.Wall) {
		limits.Wall = t
	}
	return limits
}

// installed are the readable names next to the bin/ of an installation. Its parent may also be a project, or hold
// passwords, so nothing else in it is readable.
var installed = []string{"bin", "conf", "jmods", "lib", "lib64", "libexec", "pyvenv.cfg", "share"}

// around returns the paths that a program outside of the system's directories needs to read: itself and, if it or its
// virtual environment is in a bin/, the installation around that, unless the installation contains something private.
func (k *Kernel) around(q env.Program) []string {
	list, dirs := []string{q.Real}, []string{filepath.Dir(q.Real)}
	if q.Type == "venv_python" && !q.Fallback {
		dirs = append(dirs, filepath.Dir(q.Path))
	}
	for _, dir := range dirs {
		prefix := filepath.Dir(dir)
		if filepath.Base(dir) != "bin" || k.private(prefix) {
			continue
		}
		for _, name := range installed {
			at := filepath.Join(prefix, name)
			// A link is skipped: it leads to another of these names, or elsewhere.
			if info, err := os.Lstat(at); err == nil && (info.IsDir() || info.Mode().IsRegular()) {
				list = append(list, at)
			}
		}
	}
	return list
}

// private reports whether a directory is, or holds, a path that no program may read.
func (k *Kernel) private(dir string) bool {
	return slices.ContainsFunc(slices.Concat(k.Secret, k.Forbidden, []string{k.Project, k.User, k.Host.Vars["HOME"]}),
		func(private string) bool {
			return private != "" && inside(private, dir)
		})
}

// outputs is the only part of .ai that calls may write.
const outputs = ".ai/outputs"

// kept are the files and directories of a project that no call may write.
var kept = []string{".ai", ".git", "rye.lock", "rye.yaml"}

// granted resolves a path of the project. It refuses symbolic links, with which a tool that may write the project
// could extend other tools' grants. A missing path to read grants nothing; a missing one to write must be in outputs.
func (p *Plan) granted(at string, write bool) (string, error) {
	fail := func(err error) (string, error) { return "", filesError(p.call.Ref, at, err) }
	if p.project == "" {
		return fail(errors.New("no project"))
	}
	root, err := os.OpenRoot(p.project)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	if write && chain.Below(at, outputs) {
		p.outputs = append(p.outputs, at)
	}
	for dir := at; dir != "."; dir = filepath.ToSlash(filepath.Dir(filepath.FromSlash(dir))) {
		info, err := root.Lstat(filepath.FromSlash(dir))
		switch {
		case errors.Is(err, fs.ErrNotExist) && !write:
			return "", nil
		case errors.Is(err, fs.ErrNotExist) && chain.Below(at, outputs):
		case errors.Is(err, fs.ErrNotExist):
			return fail(fmt.Errorf("%q does not exist: create it first", dir))
		case err != nil:
			return fail(err)
		case info.Mode()&fs.ModeSymlink != 0:
			return fail(fmt.Errorf("%q is a symbolic link", dir))
		case !info.IsDir() && !info.Mode().IsRegular():
			return fail(fmt.Errorf("%q is neither a file nor a directory", dir))
		}
	}
	return filepath.Join(p.project, filepath.FromSlash(at)), nil
}

// make creates the data of the plugin, and the granted directories in outputs. If a link replaces one meanwhile, the
// sandbox refuses it.
func (p *Plan) make() error {
	if err := p.makeData(); err != nil {
		return err
	}
	if len(p.outputs) == 0 {
		return nil
	}
	root, err := os.OpenRoot(p.project)
	if err != nil {
		return filesError(p.call.Ref, outputs, err)
	}
	defer root.Close()
	for _, at := range p.outputs {
		if err := root.MkdirAll(filepath.FromSlash(at), 0o777); err != nil {
			return filesError(p.call.Ref, at, err)
		}
	}
	return nil
}
