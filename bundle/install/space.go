package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/rollback"
)

// A Space is the bundles of one user. It is safe for concurrent use, also by other processes.
type Space struct {
	Dir     string // the user's directory .ai; the first install creates it
	Store   Store
	Journal *rollback.Journal
	Now     func() time.Time // the clock; nil for the system's
	Wait    time.Duration    // how long to wait for other processes; zero for 30 seconds

	// Hook sees every change to the files of the space before it happens, and may fail it. For tests.
	Hook func(op, name string) error
}

// A Request is a bundle to install.
type Request struct {
	ID     cas.Digest // of its manifest in the store
	Source string     // its source in the Journal; "" without a named source
	ByName bool       // the user asked for the bundle's name, not for this version
}

// An Installed is a bundle that is installed.
type Installed struct {
	*bundle.Bundle
	Previous []Version // previously installed versions, the latest first
}

// A Version is a version to which a rollback is possible.
type Version struct {
	Version string     `json:"version"`
	ID      cas.Digest `json:"manifest"`
}

// notInstalled returns the error for a bundle, or a version of it, that is not installed. It is fs.ErrNotExist.
func notInstalled(bundleID string, id cas.Digest) error {
	f := fault.New(fault.NotFound, "bundle %q is not installed", bundleID).On("bundle",
		bundleID).Try("rye bundle list").From(fs.ErrNotExist)
	if !id.IsZero() {
		f.Text = fmt.Sprintf("bundle %q was never installed as %s", bundleID, id)
	}
	return f
}

// A ManifestError reports an unreadable manifest of an installed bundle.
type ManifestError struct {
	Path string // below the directory .ai
	Err  error
}

func (e *ManifestError) Error() string { return fmt.Sprintf("%+q: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *ManifestError) Unwrap() error { return e.Err }

// Fault returns e as an error with a code.
func (e *ManifestError) Fault() *fault.Error {
	id := strings.TrimSuffix(strings.TrimPrefix(e.Path, "bundles/"), "/manifest.yaml")
	return fault.New(fault.Parsing, "%s", e).From(e).On("path", e.Path).Try(fault.Command("rye bundle install", id),
		fault.Command("rye bundle remove", id))
}

// LocalSource is the source of all installs in a Journal, whatever their origin.
const LocalSource = "installed"

// Install installs a bundle from the store and replaces the installed one of its name. It first verifies the whole
// bundle: see Import for those errors, and package rollback for those about versions.
func (s *Space) Install(ctx context.Context, r Request, o bundle.VerifyOptions) (*bundle.Report, error) {
	b, err := bundle.ReadStored(ctx, s.Store, s.Store, r.ID)
	if err != nil {
		return nil, err
	}
	return s.swap(ctx, b, r, o)
}

// Rollback reinstalls a previously installed version. It must pass all checks of a new one.
func (s *Space) Rollback(ctx context.Context, bundleID string, to cas.Digest,
	verifyOptions bundle.VerifyOptions) (*bundle.Report,
	error) {
	at, err := s.read(bundleID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(at.Previous, func(v Version) bool { return v.ID == to })
	if i < 0 {
		return nil, notInstalled(bundleID, to)
	}
	b, err := s.open(home(bundleID)+"/"+historyName(at.Previous[i]), bundleID)
	if err != nil {
		return nil, err
	}
	if b.ID != to { // changed meanwhile
		return nil, notInstalled(bundleID, to)
	}
	return s.swap(ctx, b, Request{ID: to}, verifyOptions)
}

// swap verifies a bundle and makes it the installed version.
func (s *Space) swap(ctx context.Context, bundle *bundle.Bundle, request Request,
	o bundle.VerifyOptions) (*bundle.Report,
	error) {
	report, err := verified(ctx, bundle, s.Store, o)
	if err != nil {
		return report, err
	}
	body, err := bundle.Body()
	if err != nil {
		return report, err
	}
	return report, s.locked(ctx, func(files *files) error {
		now := time.Now()
		if s.Now != nil {
			now = s.Now()
		}
		steps := []rollback.Step{rollback.OfFileList(bundle.FileList, LocalSource, request.ByName, now)}
		if request.Source != "" {
			steps = append(steps, rollback.OfFileList(bundle.FileList, request.Source, request.ByName, now))
		}
		// Check before setting refs for it. Record decides.
		if err := s.Journal.Check(steps...); err != nil {
			return err
		}
		if err := keep(ctx, s.Store, s.ref(bundle.ID), bundle, body, cas.Digest{}); err != nil {
			return err
		}
		if err := s.Journal.Record(ctx, steps...); err != nil {
			return err
		}
		return s.point(files, bundle, manifest.Join(nil, body, bundle.Signatures))
	})
}

// point writes the history and then the pointer.
func (s *Space) point(files *files, opened *bundle.Bundle, text []byte) error {
	dir := home(opened.BundleID)
	if err := files.makeDirectory(dir + "/" + historyDir); err != nil {
		return err
	}
	old, err := files.readFile(dir + "/" + pointer)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case bytes.Equal(old, text):
		return files.SyncDirectory(dir) // the process that wrote it may have crashed before the sync
	default:
		// An unreadable manifest is replaced without history: a rollback to it is impossible.
		if was, err := bundle.Parse(old); err == nil && was.ID != opened.ID {
			if err := files.write(dir+"/"+historyName(Version{was.Version, was.ID}), old); err != nil {
				return err
			}
		}
	}
	return files.write(dir+"/"+pointer, text)
}

// Remove removes a bundle and its history, but not its entries in the Journal. gc may then remove its files.
func (s *Space) Remove(ctx context.Context, bundleID string) error {
	if _, err := bundle.ManifestPath(bundleID); err != nil {
		return err
	}
	return s.locked(ctx, func(files *files) error {
		dir := home(bundleID)
		if err := s.unpoint(files, dir); err != nil {
			return err
		}
		names, err := files.history(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			b, err := s.parse(files, dir+"/"+name, bundleID)
			if err == nil {
				err = s.drop(ctx, b.ID)
			} else if _, bad := errors.AsType[*ManifestError](err); bad {
				err = nil
			}
			if err == nil {
				err = files.remove(dir + "/" + name)
			}
			if err != nil {
				return err
			}
		}
		files.prune(dir)
		return nil
	})
}

// unpoint copies the installed version into the history, so that its refs are found even after a crash, and removes
// the pointer: after that the bundle isn't installed.
func (s *Space) unpoint(files *files, dir string) error {
	bundleID := strings.TrimPrefix(dir, bundlesDir+"/")
	old, err := files.readFile(dir + "/" + pointer)
	if errors.Is(err, fs.ErrNotExist) {
		if names, err := files.history(dir); err != nil || len(names) > 0 {
			return err
		}
		return notInstalled(bundleID, cas.Digest{})
	}
	if _, bad := errors.AsType[*ManifestError](err); err != nil && !bad {
		return err
	}
	if b, err := bundle.Parse(old); err == nil {
		if err := files.makeDirectory(dir + "/" + historyDir); err != nil {
			return err
		}
		if err := files.write(dir+"/"+historyName(Version{b.Version, b.ID}), old); err != nil {
			return err
		}
	}
	return files.remove(dir + "/" + pointer)
}

// drop removes the refs of a bundle, the document's first.
func (s *Space) drop(ctx context.Context, id cas.Digest) error {
	for _, name := range []string{s.ref(id), s.ref(id) + "/files", s.ref(id) + "/evidence"} {
		if err := putRef(ctx, s.Store, name, cas.ID{}); err != nil {
			return err
		}
	}
	return nil
}

// ref returns the ref of a document of the space.
func (s *Space) ref(id cas.Digest) string {
	dir := s.Dir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return "installed/" + hex(cas.Sum([]byte(filepath.ToSlash(dir))))[:16] + "/" + hex(id)
}

// Get returns an installed bundle.
func (s *Space) Get(bundleID string) (*Installed, error) {
	at, err := s.read(bundleID)
	if err == nil && at.Bundle == nil {
		return nil, notInstalled(bundleID, cas.Digest{})
	}
	return at, err
}

// Open returns the items of an installed bundle as a space. Every read hashes their bytes; their signatures are
// checked when they are used.
func (s *Space) Open(ctx context.Context, bundleID string) (*ai.Space, error) {
	at, err := s.Get(bundleID)
	if err != nil {
		return nil, err
	}
	space := &ai.Space{Label: "system:" + at.BundleID, Level: ai.System,
		FS: snapshot.FS(ctx, s.Store, at.Files, at.Layout().Items)}
	for _, r := range at.Requires {
		space.Requires = append(space.Requires, "system:"+r.BundleID)
	}
	return space, nil
}

// read returns the installed bundle of a name; its Bundle is nil if only its history exists.
func (s *Space) read(bundleID string) (*Installed, error) {
	if _, err := bundle.ManifestPath(bundleID); err != nil {
		return nil, err
	}
	files, err := s.files()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notInstalled(bundleID, cas.Digest{})
	}
	if err != nil {
		return nil, err
	}
	defer files.Root.Close()
	at := new(Installed)
	at.Bundle, err = s.parse(files, home(bundleID)+"/"+pointer, bundleID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names, err := files.history(home(bundleID))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		b, err := s.parse(files, home(bundleID)+"/"+name, bundleID)
		if err != nil {
			continue // no rollback to it is possible
		}
		if at.Bundle == nil || b.ID != at.ID {
			at.Previous = append(at.Previous, Version{b.Version, b.ID})
		}
	}
	slices.SortFunc(at.Previous, func(a, b Version) int {
		if order := manifest.CompareVersions(b.Version, a.Version); order != 0 {
			return order
		}
		return a.ID.Compare(b.ID)
	})
	return at, nil
}

func (s *Space) open(name, bundleID string) (*bundle.Bundle, error) {
	f, err := s.files()
	if err != nil {
		return nil, err
	}
	defer f.Root.Close()
	return s.parse(f, name, bundleID)
}

// parse reads a manifest of a bundle.
func (s *Space) parse(f *files, name, bundleID string) (*bundle.Bundle, error) {
	text, err := f.readFile(name)
	if err != nil {
		return nil, err
	}
	b, err := bundle.Parse(text)
	if err == nil && b.BundleID != bundleID {
		err = fmt.Errorf("found the manifest of %q", b.BundleID)
	}
	if err != nil {
		return nil, &ManifestError{name, err}
	}
	return b, nil
}

// List returns the installed bundles, sorted by id. The error joins those of unreadable ones.
func (s *Space) List(ctx context.Context) ([]*Installed, error) {
	f, err := s.files()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Root.Close()
	var all []*Installed
	var errs []error
	err = fs.WalkDir(f.Root.FS(), bundlesDir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir() || path.Base(name) != pointer || name == bundlesDir+"/"+pointer:
			return nil
		}
		at, err := s.read(strings.TrimPrefix(path.Dir(name), bundlesDir+"/"))
		if err != nil {
			errs = append(errs, err)
		} else if at.Bundle != nil {
			all = append(all, at)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b *Installed) int { return strings.Compare(a.BundleID, b.BundleID) })
	return all, errors.Join(append(errs, err)...)
}

const (
	bundlesDir = "bundles"
	pointer    = "manifest.yaml"
	historyDir = "history"
)

// home returns the directory of a bundle.
func home(bundleID string) string { return bundlesDir + "/" + bundleID }

// historyName returns the file name of a previous manifest in the bundle's directory.
func historyName(v Version) string {
	return historyDir + "/" + v.Version + "-" + v.ID.Short() + ".yaml"
}

// isHistory reports whether a name is a historyName: a bundle called ID/history has other files there.
func isHistory(name string) bool {
	rest, ok := strings.CutSuffix(name, ".yaml")
	i := strings.LastIndexByte(rest, '-')
	return ok && i > 0 && len(rest)-i-1 == 12 && manifest.CheckVersion(rest[:i]) == nil
}

// readAll reads at most that many bytes, and fails if more follow.
func readAll(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("has more than %d bytes", most)
	}
	return b, err
}

// files opens the user's directory.
func (s *Space) files() (*files, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	return &files{osfile.In{Root: root, Hook: s.Hook}}, nil
}
