package packages

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	list "github.com/rye-build/rye/lock/packages"
)

// maxMetadata bounds the file in which a package describes itself.
const maxMetadata = 4 << 20

// Metadata returns the file in which a package describes itself: package.json of a tarball, METADATA of a wheel; nil
// if it is missing. It verifies the whole archive. dir is a private directory for a temporary file.
func Metadata(ctx context.Context, store cas.Getter, a file.Artifact, dir string) ([]byte, error) {
	ecosystem, name, _ := strings.Cut(a.Name, ":")
	version, tags := a.Tags()
	artifact := &Artifact{Name: a.String(), Digest: a.Digest, source: a.Source, size: a.Size,
		file: path.Base(name) + "-" + version + ".tgz"}
	if ecosystem == list.PyPI {
		artifact.wheel, artifact.file = true, wheelName(&list.Package{Name: name, Version: version}, tags)
	}
	f, err := (&Request{Store: store, Dir: dir}).fetch(ctx, artifact)
	if err != nil {
		return nil, fmt.Errorf("the package %q: %w", artifact.Name, err)
	}
	defer func() { f.Close(); os.Remove(f.Name()) }()
	content, err := artifact.open(ctx, f)
	if err != nil {
		return nil, err
	}
	b, err := describing(content, artifact.wheel)
	if err != nil {
		return nil, fault.Wrap(err, "the package %q: %v", artifact.Name, err)
	}
	return b, nil
}

// describing reads that file. A package may contain one of the other ecosystem, which is ignored.
func describing(a *Archive, wheel bool) ([]byte, error) {
	for _, f := range a.Files {
		dir, base := path.Split(f.Path)
		if wheel && (base != "METADATA" || !strings.HasSuffix(dir, ".dist-info/") || strings.Count(dir, "/") > 1) ||
			!wheel && f.Path != "package.json" {
			continue
		}
		if f.Size > maxMetadata {
			return nil, fault.New(fault.Limit, "%s has more than %d bytes", f.Path, maxMetadata)
		}
		r, err := a.Open(f.Path)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(io.LimitReader(r, maxMetadata))
	}
	return nil, nil
}
