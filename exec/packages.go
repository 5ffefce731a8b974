package exec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/unpack"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages"
)

// sitePackages is what Python calls the directory of packages.
const sitePackages = "site-packages"

// noPackages returns the error that a tool's list of packages can't be used.
func noPackages(ref model.Ref, err error) error {
	if ended(err) {
		return err
	}
	return fault.New(fault.Validation, "the packages of %q: %v", ref, err).On("ref", ref.String()).On("package", "").Try("rye docs packages").From(err)
}

// noPackage returns the error that a package can't be used; name is the one that the lock has.
func noPackage(ref model.Ref, name string, err error) error {
	err = fmt.Errorf("%q needs the package %q: %w", ref, name, err)
	if e, ok := fault.Find(err); ok && e.Code != fault.Limit {
		e.Err = err
		return e.On("ref", ref.String()).On("package", name)
	}
	return err
}

// unpinned returns the error that no lock pins a package; "" where there is no lock.
func unpinned(ref model.Ref, name string) error {
	e := fault.New(fault.NotLocked, "%q needs packages, and there is no lock that pins them", ref)
	if name != "" {
		e.Text = fmt.Sprintf("%q needs the package %q, which the lock doesn't pin", ref, name)
	}
	return e.On("ref", ref.String()).On("package", name).Try("rye lock")
}

// An Artifact is a package that a call runs with.
type Artifact struct {
	Name   string // as a lock calls it
	Digest cas.Digest

	source string // the digest that the tool's list has
	file   string // what its file is called
	wheel  bool
	at     string // where its files are put
	size   int64
}

// addPackages puts the packages that a tool names where it will find them, from the artifacts that the lock pins. The programs
// are known by now.
func (p *Plan) addPackages(ctx context.Context, b *Base, chain *ai.Chain) error {
	for _, it := range chain.Links[1:] {
		if it.Model.Tool.Packages != "" {
			return noPackages(it.Ref, errors.New("only the tool that is called can have packages, not one that runs it"))
		}
	}
	if p.tool.Packages == "" {
		return nil
	}
	ecosystem, list, err := p.list(chain.Tool())
	if err != nil {
		return noPackages(p.call.Ref, err)
	}
	if b.Artifacts == nil || b.Objects == nil {
		return unpinned(p.call.Ref, "")
	}
	if ecosystem == packages.PyPI {
		p.Artifacts, err = p.wheels(ctx, b, list)
	} else {
		p.Artifacts, err = p.tarballs(b, list)
	}
	if err != nil || p.Undecided {
		return err
	}
	if len(p.Artifacts) == 0 {
		if ecosystem == packages.PyPI {
			// Its list has nothing for this Python. Told nothing, the runtime would look into a virtual environment.
			p.packagePath(filepath.Join(p.copied.Root, sitePackages))
		}
		return nil
	}
	if p.modules, err = p.unpacked(ctx, b); err != nil {
		return err
	}
	if p.Damage == nil {
		p.Damage = p.modules.Damage
	}
	at := p.modules.Dir
	if ecosystem == packages.PyPI {
		at = filepath.Join(at, sitePackages)
	}
	p.Action.Sandbox.Read = append(p.Action.Sandbox.Read, p.modules.Root)
	p.packagePath(at)
	return nil
}

// packagePath tells the runtime where the packages are.
func (p *Plan) packagePath(at string) {
	p.Env = append(p.Env, env.PackagePath+"="+at)
	slices.Sort(p.Env)
	p.Action.Env = p.Env
}

// list reads the list of packages, which is a file of the tool's tree: what is read is the copy, whose bytes were compared.
func (p *Plan) list(tool *ai.Item) (ecosystem string, list []packages.Package, err error) {
	name := p.tool.Packages
	at := path.Join(directory(tool.Space), path.Dir(tool.Path), name)
	if !slices.ContainsFunc(p.Chain[0].files, func(f materialise.Part) bool { return f.Path == at }) {
		return "", nil, fmt.Errorf("%q is not a file of the tool's tree", name)
	}
	ecosystem, read := packages.For(name)
	if read == nil {
		return "", nil, fmt.Errorf("%q is not a list of packages: expected a name that ends in requirements.txt, or package-lock.json", name)
	}
	f, err := os.Open(filepath.Join(p.copied.Dir, filepath.FromSlash(at)))
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if list, err = read(f); err != nil {
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return ecosystem, list, nil
}

// pinned returns the artifacts of a package that the lock pins and the list allows.
func (p *Plan) pinned(b *Base, q *packages.Package) ([]file.Artifact, error) {
	all := slices.DeleteFunc(slices.Clone(b.Artifacts(q.Key(), q.Version)), func(a file.Artifact) bool { return !q.Has(a.Source) })
	if len(all) == 0 {
		return nil, unpinned(p.call.Ref, q.String())
	}
	return all, nil
}

// The names that Node has for systems and processors.
var (
	nodeOS  = map[string]string{"windows": "win32"}
	nodeCPU = map[string]string{"amd64": "x64", "386": "ia32"}
)

// tarballs chooses what is wanted of packages of npm.
func (p *Plan) tarballs(b *Base, list []packages.Package) ([]Artifact, error) {
	here := packages.Environment{OS: cmp.Or(nodeOS[runtime.GOOS], runtime.GOOS), CPU: cmp.Or(nodeCPU[runtime.GOARCH], runtime.GOARCH)}
	wanted, err := packages.Choose(list, here)
	if err != nil {
		return nil, noPackages(p.call.Ref, err)
	}
	var out []Artifact
	for i := range wanted {
		q := &wanted[i]
		all, err := p.pinned(b, q)
		if err != nil {
			return nil, err
		}
		out = append(out, Artifact{all[0].String(), all[0].Digest, all[0].Source, q.Files[0].Name, false, q.At, all[0].Size})
	}
	return out, nil
}

// wheels chooses those that fit the Python that will run. It is asked only where that makes a difference.
func (p *Plan) wheels(ctx context.Context, b *Base, list []packages.Package) ([]Artifact, error) {
	python := &unpack.Interpreter{Name: "python", Major: 3}
	wanted, err := packages.Choose(list, packages.Environment{})
	asked := false
	ask := func() error {
		asked = true
		var markers map[string]string
		if python, markers, err = p.python(ctx); err == nil {
			wanted, err = packages.Choose(list, packages.Environment{Markers: markers})
		}
		if err != nil {
			return noPackages(p.call.Ref, err)
		}
		return nil
	}
	if err != nil {
		if p.Undecided = p.call.Dry; p.Undecided {
			return nil, nil
		}
		if err := ask(); err != nil {
			return nil, err
		}
	}
	var out []Artifact
	for i := 0; i < len(wanted); i++ {
		q := &wanted[i]
		all, err := p.pinned(b, q)
		if err != nil {
			return nil, err
		}
		names := make([]string, len(all))
		plain := true
		for j, a := range all {
			_, tags := a.Tags()
			names[j] = wheelName(q, tags)
			n, err := unpack.ParseWheel(names[j])
			plain = plain && err == nil && n.Pure()
		}
		if !plain && !asked {
			if p.Undecided = p.call.Dry; p.Undecided {
				return nil, nil
			}
			if err := ask(); err != nil {
				return nil, err
			}
			out, i = nil, -1 // from the beginning: which packages are wanted is known only now
			continue
		}
		best := unpack.Best(names, python)
		if best < 0 {
			return nil, noWheel(p.call.Ref, q.String(), python.String(), all)
		}
		out = append(out, Artifact{all[best].String(), all[best].Digest, all[best].Source, names[best], true, sitePackages, all[best].Size})
	}
	return out, nil
}

// noWheel returns the error that none of the pinned wheels of a package fits the Python that would run.
func noWheel(ref model.Ref, name, python string, all []file.Artifact) error {
	e := fault.New(fault.VersionMismatch, "%q needs the package %q, and none of its wheels fits %s", ref, name, python).
		On("ref", ref.String()).On("package", name).On("python", python).Try("rye docs packages")
	var wheels, lines []string
	for _, a := range all {
		_, tags := a.Tags()
		wheels, lines = append(wheels, tags), append(lines, "there is one for "+tags)
	}
	return e.On("wheels", wheels).List(lines...)
}

// wheelName is what the file of a wheel was called.
func wheelName(q *packages.Package, tags string) string {
	return strings.ReplaceAll(q.Name, "-", "_") + "-" + q.Version + "-" + tags + ".whl"
}

// unpacked is the copy of all packages. Every archive is looked at as a whole: what it has says what the copy must be.
func (p *Plan) unpacked(ctx context.Context, b *Base) (*materialise.Copy, error) {
	var shelf unpack.Shelf
	var parts []materialise.Part
	known := map[cas.Digest]*unpack.Archive{}
	for i := range p.Artifacts {
		q := &p.Artifacts[i]
		a := known[q.Digest]
		if a == nil {
			f, err := p.fetch(ctx, b, q)
			if err != nil {
				return nil, noPackage(p.call.Ref, q.Name, err)
			}
			defer func() { f.Close(); os.Remove(f.Name()) }()
			if a, err = read(ctx, q, f); err != nil {
				return nil, noPackage(p.call.Ref, q.Name, err)
			}
			known[q.Digest] = a
			shelf = append(shelf, a)
		}
		if len(parts)+len(a.Files) > materialise.MaxFiles { // in as many places as the list likes
			return nil, noPackage(p.call.Ref, q.Name, materialise.TooMany("files", materialise.MaxFiles))
		}
		for _, f := range a.Files {
			id := cas.ID{Kind: cas.Blob, Digest: f.Digest}
			parts = append(parts, materialise.Part{Path: path.Join(q.at, f.Path), ID: id, Mode: f.Mode, Size: f.Size})
		}
	}
	c, err := p.kernel.Copies.Packages(ctx, shelf, parts)
	_, part := errors.AsType[*materialise.PartError](err)
	if _, set := errors.AsType[*portable.Error](err); part || set {
		err = noPackages(p.call.Ref, err) // two of them want to have different files in one place
	}
	return c, err
}

// fetch brings an artifact to where nobody else writes, and hashes it on the way: it has the digest of the lock, and that of
// the list, which is what somebody has vouched for.
func (p *Plan) fetch(ctx context.Context, b *Base, q *Artifact) (*os.File, error) {
	id := cas.ID{Kind: cas.Blob, Digest: q.Digest}
	o, err := b.Objects.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	checked := cas.Verify(cas.Info{ID: id, Size: q.size}, o)
	defer checked.Close()
	f, err := os.CreateTemp(p.scratch.Dir, "package-")
	if err != nil {
		return nil, err
	}
	algorithm, _, _ := strings.Cut(q.source, ":")
	h := sha512.New()
	if algorithm == "sha256" {
		h = sha256.New()
	}
	_, err = io.Copy(io.MultiWriter(f, h), checked)
	if found := algorithm + ":" + hex.EncodeToString(h.Sum(nil)); err == nil && found != q.source {
		err = fault.New(fault.Integrity, "the tool's list has %s, and the lock pins %s", q.source, found).On("expected", q.source).On("found", found).
			Because("rye lock keeps a pin that the list allows; remove its line from rye.lock to make a new one").Try("git restore rye.lock", "rye lock")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

func read(ctx context.Context, q *Artifact, f *os.File) (*unpack.Archive, error) {
	if q.wheel {
		return unpack.Wheel(ctx, q.file, f, q.size)
	}
	return unpack.Tarball(ctx, q.file, f, q.size)
}

// Packages says which packages a call runs with, in one digest: that of a line for each, sorted, with its digest and
// what the lock calls it. Zero where there are none.
func (p *Plan) Packages() cas.Digest {
	if len(p.Artifacts) == 0 {
		return cas.Digest{}
	}
	lines := make([]string, len(p.Artifacts))
	for i, a := range p.Artifacts {
		lines[i] = a.Digest.String() + " " + a.Name + "\n"
	}
	slices.Sort(lines)
	return cas.Sum([]byte(strings.Join(slices.Compact(lines), "")))
}
