package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/project"
)

// The public registries.
const (
	publicNPM  = "https://registry.npmjs.org"
	publicPyPI = "https://pypi.org/simple"
)

const (
	maxFile = 2 << 30
	maxPage = 64 << 20
)

// A Fetcher gets the content of an https address, and its announced size (-1: unknown), as *web.Client does. More
// than limit bytes are an error.
type Fetcher interface {
	Get(ctx context.Context, address string, limit int64) (io.ReadCloser, int64, error)
}

// A Store is the store that files are brought to.
type Store interface {
	cas.Store
	cas.Batcher
}

// Options configures New. Dir and Store are required.
type Options struct {
	Dir      string // the directory of rye.yaml, an absolute path
	From     project.Registries
	Fetch    Fetcher // nil: offline
	Store    Store
	Vendored cas.Getter        // vendored files; nil: no vendor directory
	Progress func(bytes int64) // several goroutines call it with the number of bytes read; may be nil
}

// A Registry caches the answers of the registries. It is safe for concurrent use.
type Registry struct {
	o Options

	mu    sync.Mutex
	known map[string]func() (map[string]place, error) // by the address of a page, or a directory and an extension
}

// A place is the location of a file.
type place struct {
	name string // of the file
	at   string // its address, or its path
}

// New returns registries with these options. It reads nothing.
func New(o Options) *Registry {
	return &Registry{o: o, known: map[string]func() (map[string]place, error){}}
}

// once calls find once for a key and caches the result.
func (r *Registry) once(key string, find func() (map[string]place, error)) (map[string]place, error) {
	r.mu.Lock()
	get, ok := r.known[key]
	if !ok {
		get = sync.OnceValues(find)
		r.known[key] = get
	}
	r.mu.Unlock()
	return get()
}

// Find returns the files of a package that can be pinned, without digests and sizes: one for npm, and for PyPI all
// wheels that the list allows and the registry has.
func (r *Registry) Find(ctx context.Context, pkg *packages.Package) ([]file.Artifact, error) {
	if pkg.Ecosystem == packages.NPM {
		return []file.Artifact{{Name: pkg.Key(), Version: pkg.Version, Source: pkg.Files[0].Source}}, nil
	}
	places, where, err := r.wheels(ctx, pkg.Name, pkg.String())
	if err != nil {
		return nil, err
	}
	var found []file.Artifact
	names := map[string]string{}
	others := 0
	for _, listed := range pkg.Files {
		at, ok := places[listed.Source]
		tags := wheelTags(pkg.Name, pkg.Version, at.name)
		switch {
		case !ok:
			continue
		case tags == "":
			others++
			continue
		case names[tags] != "":
			return nil, inPackage(pkg.String(), where,
				fmt.Errorf("%q and %q are wheels for the same platforms", names[tags], at.name))
		}
		names[tags] = at.name
		found = append(found, file.Artifact{Name: pkg.Key(), Version: pkg.Version + ":" + tags, Source: listed.Source})
	}
	if len(found) == 0 {
		return nil, notFound(pkg.String(), where, others)
	}
	return found, nil
}

// wheels returns the files of a Python package by their digests, and the place that was searched.
func (r *Registry) wheels(ctx context.Context, name, wanted string) (places map[string]place, where string,
	err error) {
	if from := r.o.From.PyPI; from.Where != "" && !from.Remote() {
		places, err = r.directory(ctx, from.Where, ".whl")
		return places, from.Where, inPackage(wanted, from.Where, err)
	}
	where = base(r.o.From.PyPI, publicPyPI) + "/" + name + "/"
	if r.o.Fetch == nil {
		return nil, where, &OfflineError{wanted, where}
	}
	places, err = r.once(where, func() (map[string]place, error) {
		body, _, err := r.o.Fetch.Get(ctx, where, maxPage)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		return links(string(text), where), nil
	})
	return places, where, inPackage(wanted, where, err)
}

// base returns the address of a registry.
func base(from project.Source, public string) string {
	if from.Where == "" {
		return public
	}
	return strings.TrimRight(from.Where, "/")
}

// open opens the registry's file of an artifact, and returns its location too.
func (r *Registry) open(ctx context.Context, artifact file.Artifact) (body io.ReadCloser, where string, err error) {
	ecosystem, name, _ := strings.Cut(artifact.Name, ":")
	version, _ := artifact.Tags()
	var places map[string]place
	switch from := r.o.From.NPM; {
	case ecosystem == packages.NPM && (from.Where == "" || from.Remote()):
		where = base(from, publicNPM) + "/" + name + "/-/" + path.Base(name) + "-" + version + ".tgz"
		body, err = r.get(ctx, artifact, where)
		return body, where, err
	case ecosystem == packages.NPM:
		where = from.Where
		places, err = r.directory(ctx, where, ".tgz")
	case ecosystem == packages.PyPI:
		places, where, err = r.wheels(ctx, name, artifact.String())
	default:
		err = errors.New("unknown registry")
	}
	if err != nil {
		return nil, where, err
	}
	at, ok := places[artifact.Source]
	if !ok {
		return nil, where, notFound(artifact.String(), where, 0)
	}
	if strings.Contains(at.at, "://") {
		body, err = r.get(ctx, artifact, at.at)
		return body, at.at, err
	}
	body, err = r.openFile(where, at.at)
	return body, path.Join(where, at.name), err
}

func (r *Registry) get(ctx context.Context, a file.Artifact, address string) (io.ReadCloser, error) {
	if r.o.Fetch == nil {
		return nil, &OfflineError{a.String(), address}
	}
	body, _, err := r.o.Fetch.Get(ctx, address, maxFile)
	return body, err
}

// path returns the path of a directory in rye.yaml.
func (r *Registry) path(where string) string {
	return filepath.Join(r.o.Dir, filepath.FromSlash(where))
}

// wheelTags returns the part of a wheel's name between the version and ".whl", or "" for other files.
func wheelTags(name, version, wheel string) string {
	stem, ok := strings.CutSuffix(wheel, ".whl")
	parts := strings.Split(stem, "-")
	if !ok || len(parts) < 5 || len(parts) > 6 || packages.Normal(parts[0]) != name ||
		!packages.SameVersion(parts[1], version) {
		return ""
	}
	tags := strings.Join(parts[2:], "-")
	if !portable.Spelled(tags, portable.Letters+portable.Digits+"._-", "", 120) ||
		strings.Contains("-"+tags+"-", "--") {
		return ""
	}
	return tags
}
