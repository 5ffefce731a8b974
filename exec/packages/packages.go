// Package packages is the packages of a tool, unpacked: wheels for Python, tarballs for Node. Each comes from an
// artifact that the lock pins and the tool's own list allows; its bytes are checked against both digests before they
// are unpacked.
//
// # How a package goes through here
//
// Prepare reads the tool's list (read), chooses an artifact of each package (tarballs, or wheels and fit, which may
// ask Python), and unpacks them (unpack): fetch copies an artifact to a file and checks both digests, Wheel or Tarball
// reads it as an Archive, and materialise.Cache.Packages writes the files.
//
// # How a call goes through here
//
// Prepare reads the tool's list (Set.read) and selects an artifact of each package (tarballs; or wheels, fit and
// Best). Set.unpack fetches and verifies the artifacts (fetch), reads each archive completely (Wheel or Tarball,
// read), and copies their files (materialise.Cache.Packages, which reads them through a Shelf). LicencesOf reads the
// licences of a lock's packages (Metadata).
//
// # Unpacking
//
// An Archive is a Python wheel or an npm tarball. Nothing in it is run or built.
//
// An archive is read twice. The first reading verifies the whole archive and gives each file a digest: errors occur
// here, before anything is written. The second reads the files by these digests, and hashes them again while they are
// written (package materialise). Memory use doesn't grow with the size of files.
//
// # Both formats
//
//	files        only regular ones: a link, a device or a sparse file is refused. Directories are those of the files
//	paths        portable as a set (package portable), apart from directories called node_modules. Two paths that
//	             differ only in case, or a file and a directory with one path, are refused. Files that are
//	             never part of a tree, such as .DS_Store and __pycache__, are left out
//	modes        a file is executable if any executable bit is set
//	limits       at most MaxFiles entries, MaxBytes of files, and Ratio times the size of the archive or MinBytes,
//	             whichever is more, whatever the archive declares
//
// # Wheels
//
// A wheel (version 1 of the format) is a zip archive from its first byte to its last, of stored or deflated files, not
// encrypted, with a directory of at most MaxDirectory bytes, not zip64. It has one directory NAME-VERSION.dist-info,
// matching its file name, with
//
//	WHEEL     contains "Wheel-Version: 1.…"
//	RECORD    lists every file with its digest, sha256, sha384 or sha512, and its length: a file that is unlisted,
//	          different or missing is an error. RECORD itself, RECORD.jws and RECORD.p7s have no digest
//
// Files in NAME-VERSION.data/purelib and platlib go into the same directory as the others. Scripts, headers and data
// there are checked and left out: nothing is installed, a tool imports. Any other directory there is refused. Files
// that end in .pth are ordinary files, and not executed.
//
// # Tarballs
//
// A tarball is one gzip member and nothing else, around a tar archive whose files are all in one directory, usually
// called package, which is stripped. It contains a package.json. node_modules has the package's bundled dependencies.
// Scripts in package.json are never run, and "bin" makes no commands.
//
// # Licences
//
// LicencesOf reads the declared licence of each bundle and each package of a lock:
//
//	a bundle   license in its manifest, which is signed
//	npm        license in package.json; in old ones licenses, a list to choose from, or an object with a type
//	PyPI       License-Expression in METADATA; else License; else the one classifier for a licence, if it names just
//	           one
//
// A text that isn't an expression of SPDX (package licence) is NOASSERTION, and kept as declared. The declarations
// aren't verified.
package packages

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

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/lock/file"
	list "github.com/rye-build/rye/lock/packages"
)

// SitePackages is the directory in which Python looks for packages.
const SitePackages = "site-packages"

// A Request names the packages of one call.
type Request struct {
	Ref    model.Ref                                  // the tool
	List   string                                     // the name of its list of packages
	Path   string                                     // the list, in the checked copy of the tool's files
	Lock   func(name, version string) []file.Artifact // the pinned artifacts of a package; nil without a lock
	Store  cas.Getter                                 // has the artifacts; nil without a lock
	Copies *materialise.Cache
	Dir    string // a private directory for temporary files
	Dry    bool   // don't start Python: leave the choice open if it needs that
	// Python asks the Python of the call about itself. It is called at most once, and only if the answer matters.
	Python func(context.Context) (*Python, error)
}

// A Set is the packages of a call.
type Set struct {
	Artifacts []Artifact
	Undecided bool              // the request is dry, and only Python could tell which packages it needs
	Possible  []Artifact        // of an undecided set: every wheel that the lock pins for its list
	ForPython bool              // else for Node
	Copy      *materialise.Copy // the unpacked files; nil for none
}

// Path returns the directory in which the runtime looks for the packages; "" without packages.
func (s *Set) Path() string {
	switch {
	case s.Copy == nil:
		return ""
	case s.ForPython:
		return filepath.Join(s.Copy.Dir, SitePackages)
	}
	return s.Copy.Dir
}

// An Artifact is a package that a call uses.
type Artifact struct {
	Name   string     `json:"name"` // as in the lock
	Digest cas.Digest `json:"digest"`

	source string // the digest in the tool's list
	file   string // its file name
	wheel  bool
	at     string // the directory for its files
	size   int64
}

// Prepare chooses the packages of a tool and unpacks them.
func Prepare(ctx context.Context, request Request) (*Set, error) {
	set := &Set{}
	wanted, err := set.read(&request)
	if err != nil {
		return nil, Invalid(request.Ref, err)
	}
	if request.Lock == nil || request.Store == nil {
		return nil, unpinned(request.Ref, "")
	}
	if set.ForPython {
		err = set.wheels(ctx, &request, wanted)
	} else {
		err = set.tarballs(&request, wanted)
	}
	if err == nil && len(set.Artifacts) > 0 {
		set.Copy, err = set.unpack(ctx, &request)
	}
	return set, err
}

// read reads the tool's list of packages.
func (s *Set) read(request *Request) ([]list.Package, error) {
	ecosystem, read := list.For(request.List)
	if read == nil {
		return nil, fmt.Errorf(
			"%q is not a list of packages: expected a name that ends in requirements.txt, or package-lock.json",
			request.List)
	}
	f, err := os.Open(request.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s.ForPython = ecosystem == list.PyPI
	wanted, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", request.List, err)
	}
	return wanted, nil
}

// pinned returns the artifacts of a package that the lock pins and the list allows.
func (q *Request) pinned(p *list.Package) ([]file.Artifact, error) {
	all := slices.DeleteFunc(slices.Clone(q.Lock(p.Key(), p.Version)), func(a file.Artifact) bool {
		return !p.Has(a.Source)
	})
	if len(all) == 0 {
		return nil, unpinned(q.Ref, p.String())
	}
	return all, nil
}

// Node's names for operating systems and processors, where they differ from Go's.
var (
	nodeOS  = map[string]string{"windows": "win32"}
	nodeCPU = map[string]string{"amd64": "x64", "386": "ia32"}
)

// tarballs chooses the artifacts of npm packages for this machine.
func (s *Set) tarballs(q *Request, all []list.Package) error {
	here := list.Environment{OS: cmp.Or(nodeOS[runtime.GOOS], runtime.GOOS),
		CPU: cmp.Or(nodeCPU[runtime.GOARCH], runtime.GOARCH)}
	wanted, err := list.Choose(all, here)
	if err != nil {
		return Invalid(q.Ref, err)
	}
	for i := range wanted {
		p := &wanted[i]
		pins, err := q.pinned(p)
		if err != nil {
			return err
		}
		s.Artifacts = append(s.Artifacts, Artifact{pins[0].String(), pins[0].Digest, pins[0].Source, p.Files[0].Name,
			false, p.At, pins[0].Size})
	}
	return nil
}

// wheels chooses the wheels that fit the Python of the call. It asks Python only if the answer matters.
func (s *Set) wheels(ctx context.Context, request *Request, all []list.Package) error {
	wanted, err := list.Choose(all, list.Environment{})
	if err == nil {
		var known bool
		if known, err = s.fit(request, wanted, nil); known || err != nil {
			return err
		}
	}
	if s.Undecided = request.Dry; s.Undecided {
		return s.possible(request, all)
	}
	python, err := request.Python(ctx)
	if err == nil {
		wanted, err = list.Choose(all, list.Environment{Markers: python.Markers})
	}
	if err != nil {
		return Invalid(request.Ref, err)
	}
	_, err = s.fit(request, wanted, python)
	return err
}

// possible lists all wheels from which a Python would choose.
func (s *Set) possible(request *Request, all []list.Package) error {
	for i := range all {
		pins, err := request.pinned(&all[i])
		if err != nil {
			return err
		}
		for _, a := range pins {
			s.Possible = append(s.Possible, Artifact{Name: a.String(), Digest: a.Digest})
		}
	}
	return nil
}

// fit chooses a wheel of each package. It returns false if the choice needs a Python and python is nil.
func (s *Set) fit(request *Request, wanted []list.Package, python *Python) (bool, error) {
	s.Artifacts = nil
	takes := &Interpreter{Name: "python", Major: 3}
	if python != nil {
		takes = python.Interpreter
	}
	for i := range wanted {
		pkg := &wanted[i]
		pins, err := request.pinned(pkg)
		if err != nil {
			return true, err
		}
		names := make([]string, len(pins))
		for j, a := range pins {
			_, tags := a.Tags()
			names[j] = wheelName(pkg, tags)
			if n, err := ParseWheel(names[j]); python == nil && (err != nil || !n.Pure()) {
				s.Artifacts = nil
				return false, nil
			}
		}
		best := Best(names, takes)
		if best < 0 {
			return true, noWheel(request.Ref, pkg.String(), takes.String(), pins)
		}
		s.Artifacts = append(s.Artifacts, Artifact{pins[best].String(), pins[best].Digest, pins[best].Source,
			names[best], true, SitePackages, pins[best].Size})
	}
	return true, nil
}

// wheelName returns the file name of a wheel.
func wheelName(p *list.Package, tags string) string {
	return strings.ReplaceAll(p.Name, "-", "_") + "-" + p.Version + "-" + tags + ".whl"
}

// unpack copies the files of all packages to disk. Every archive is read whole first, because its content determines
// the copy.
func (s *Set) unpack(ctx context.Context, request *Request) (*materialise.Copy, error) {
	var shelf Shelf
	var parts []materialise.Part
	known := map[cas.Digest]*Archive{}
	for i := range s.Artifacts {
		artifact := &s.Artifacts[i]
		archive := known[artifact.Digest]
		if archive == nil {
			f, err := request.fetch(ctx, artifact)
			if err != nil {
				return nil, noPackage(request.Ref, artifact.Name, err)
			}
			defer func() { f.Close(); os.Remove(f.Name()) }()
			if archive, err = artifact.open(ctx, f); err != nil {
				return nil, noPackage(request.Ref, artifact.Name, err)
			}
			known[artifact.Digest] = archive
			shelf = append(shelf, archive)
		}
		if len(parts)+len(archive.Files) > materialise.MaxFiles { // a list may name a package in many places
			return nil, noPackage(request.Ref, artifact.Name, materialise.TooMany("files", materialise.MaxFiles))
		}
		for _, f := range archive.Files {
			id := cas.ID{Kind: cas.Blob, Digest: f.Digest}
			parts = append(parts, materialise.Part{Path: path.Join(artifact.at, f.Path), ID: id, Mode: f.Mode,
				Size: f.Size})
		}
	}
	c, err := request.Copies.Packages(ctx, shelf, parts)
	_, part := errors.AsType[*materialise.PartError](err)
	if _, set := errors.AsType[*portable.Error](err); part || set {
		err = Invalid(request.Ref, err) // two packages have different files at one path
	}
	return c, err
}

// fetch copies an artifact to a private file and verifies two digests: the lock's, and the one in the list, which the
// tool's signature covers.
func (q *Request) fetch(ctx context.Context, artifact *Artifact) (*os.File, error) {
	id := cas.ID{Kind: cas.Blob, Digest: artifact.Digest}
	o, err := q.Store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	checked := cas.Verify(cas.Info{ID: id, Size: artifact.size}, o)
	defer checked.Close()
	file, err := os.CreateTemp(q.Dir, "package-")
	if err != nil {
		return nil, err
	}
	algorithm, _, _ := strings.Cut(artifact.source, ":")
	h := sha512.New()
	if algorithm == "sha256" {
		h = sha256.New()
	}
	_, err = io.Copy(io.MultiWriter(file, h), checked)
	if found := algorithm + ":" + hex.EncodeToString(h.Sum(nil)); err == nil && found != artifact.source {
		err = fault.New(fault.Integrity, "the tool's list has %s, and the lock pins %s", artifact.source,
			found).On("expected", artifact.source).On("found", found).
			Because("rye lock keeps a pin that the list allows; remove its line from rye.lock to make a new one").
			Try("git restore rye.lock", "rye lock")
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

func (p *Artifact) open(ctx context.Context, f *os.File) (*Archive, error) {
	if p.wheel {
		return Wheel(ctx, p.file, f, p.size)
	}
	return Tarball(ctx, p.file, f, p.size)
}

// Digest returns one digest for all packages of a call: that of their sorted lines, each with a package's digest and
// its name in the lock. It is zero without packages.
func Digest(all []Artifact) cas.Digest {
	if len(all) == 0 {
		return cas.Digest{}
	}
	lines := make([]string, len(all))
	for i, a := range all {
		lines[i] = a.Digest.String() + " " + a.Name + "\n"
	}
	slices.Sort(lines)
	return cas.Sum([]byte(strings.Join(slices.Compact(lines), "")))
}
