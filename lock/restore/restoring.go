package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

// modesAreKept is whether file modes have an executable bit.
const modesAreKept = runtime.GOOS != "windows"

// A restoring is one rye restore. It writes all new files beside the old ones first, so that nothing is replaced
// while bytes are missing. At any moment each file is the old or the new one.
type restoring struct {
	l       *workspace.Lock
	objects lock.Source
	dir     *osfile.Dir // nil: the directory is missing and nothing is to be written
	writes  bool
	files   []*restored // to examine, by directory; after compare, those that differ from their pins
}

// add adds the files of pins, if all paths are valid.
func (r *restoring) add(ctx context.Context, pins []lockfile.Pin) error {
	files, err := lock.Files(ctx, r.objects, lockfile.FromProject, pins)
	if err != nil {
		return err
	}
	r.files = make([]*restored, len(files))
	for i := range files {
		f := &files[i]
		where := f.Path
		if r.dir != nil {
			where = r.dir.Where(f.Path)
		}
		kind, id, _ := strings.Cut(f.Ref, ":")
		r.files[i] = &restored{ref: model.Ref{Kind: kind, ID: id}, path: f.Path, dir: path.Dir(f.Path), where: where,
			want: cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: f.Digest}, Size: f.Size}, mode: f.Mode}
	}
	slices.SortFunc(r.files, func(a, b *restored) int {
		return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.path, b.path))
	})
	return nil
}

// folders calls visit for each directory with its files, from a few goroutines, and returns the error of the first
// directory in order.
func (r *restoring) folders(ctx context.Context, visit func(dir string, files []*restored) error) error {
	var groups [][]*restored
	for i := 0; i < len(r.files); {
		n := i + 1
		for n < len(r.files) && r.files[n].dir == r.files[i].dir {
			n++
		}
		groups, i = append(groups, r.files[i:n]), n
	}
	errs := make([]error, len(groups))
	if err := cas.Parallel(ctx, 2*runtime.GOMAXPROCS(0), len(groups), func(_ context.Context, i int) error {
		errs[i] = visit(groups[i][0].dir, groups[i])
		return nil
	}); err != nil {
		return err
	}
	return cmp.Or(errs...)
}

// existing calls f like folders, but only for directories that exist, which it opens.
func (r *restoring) existing(ctx context.Context, f func(folder *os.Root, dir string, files []*restored) error) error {
	return r.folders(ctx, func(dir string, files []*restored) error {
		folder, err := r.dir.Folder(dir, false)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer folder.Close()
		return f(folder, dir, files)
	})
}

// compare finds the files that differ from their pins.
func (r *restoring) compare(ctx context.Context) error {
	if r.dir == nil {
		return nil
	}
	if r.writes {
		r.sweep()
	}
	same := sync.Map{}
	err := r.existing(ctx, func(folder *os.Root, dir string, files []*restored) (err error) {
		if r.writes {
			// leftovers of an interrupted run may be in a directory without differences
			osfile.Sweep(r.dir.Where(dir), r.l.Now())
		}
		for _, f := range files {
			f.there = true
			h := cas.NewHasher()
			if f.before, err = r.read(ctx, folder, f, h); err != nil {
				return err
			}
			if f.before == nil {
				continue
			}
			if f.found = h.Digest(); f.found == f.want.Digest && f.sameMode(f.before) {
				same.Store(f, true)
			}
		}
		return nil
	})
	r.files = slices.DeleteFunc(r.files, func(f *restored) bool { _, ok := same.Load(f); return ok })
	return err
}

// sweep removes leftovers of an interrupted run from all directories.
func (r *restoring) sweep() {
	swept := map[string]bool{}
	for _, f := range r.files {
		for dir := path.Dir(f.dir); !swept[dir]; dir = path.Dir(dir) {
			swept[dir] = true
			osfile.Sweep(r.dir.Where(dir), r.l.Now())
		}
	}
}

// read reads a file, or returns nil if it is missing. It refuses a link, because replacing it would replace the link
// itself.
func (r *restoring) read(ctx context.Context, folder *os.Root, restored *restored, out io.Writer) (fs.FileInfo,
	error) {
	base := path.Base(restored.path)
	fi, err := folder.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, r.dir.About(restored.path, err)
	case !fi.Mode().IsRegular():
		return nil, restored.notRegular()
	}
	file, err := folder.Open(base)
	if err != nil {
		return nil, r.dir.About(restored.path, err)
	}
	defer file.Close()
	if opened, err := file.Stat(); err != nil || !os.SameFile(fi, opened) {
		return nil, r.dir.Changed(restored.path)
	}
	if _, err := io.Copy(out, cas.Until(ctx, file)); err != nil {
		return nil, r.dir.About(restored.path, err)
	}
	return fi, nil
}

// write replaces the old files, after their content was saved in the store.
func (r *restoring) write(ctx context.Context) error {
	if err := r.keep(ctx); err != nil {
		return err
	}
	b := osfile.NewBatch(len(r.files), r.l.Now())
	if err := r.stageAll(ctx, b); err != nil {
		b.Drop(r.staged())
		if isMissing(err) {
			err = cmp.Or(r.missing(ctx), err)
		}
		return err
	}
	err := b.Commit(ctx, r.staged())
	for _, f := range r.files {
		f.done = f.staged.Placed()
	}
	return err
}

func (r *restoring) staged() (all []*osfile.Staged) {
	for _, f := range r.files {
		all = append(all, f.staged)
	}
	return all
}

// keep saves the old content in the store.
func (r *restoring) keep(ctx context.Context) error {
	if !slices.ContainsFunc(r.files, func(f *restored) bool { return f.before != nil && f.found != f.want.Digest }) {
		return nil
	}
	s, err := r.l.OpenStore(true)
	if err != nil {
		return err
	}
	batch, err := s.Batch(ctx)
	if err != nil {
		return err
	}
	defer batch.Close()
	err = r.existing(ctx, func(folder *os.Root, _ string, files []*restored) error {
		for _, restored := range files {
			if restored.before == nil || restored.found == restored.want.Digest {
				continue
			}
			out, in := io.Pipe()
			read := make(chan error, 1)
			go func() {
				_, err := r.read(ctx, folder, restored, in)
				in.CloseWithError(err)
				read <- err
			}()
			info, err := batch.Put(ctx, cas.Blob, out)
			out.CloseWithError(io.ErrClosedPipe)
			if err := cmp.Or(<-read, err); err != nil {
				return err
			}
			if info.Digest != restored.found {
				return r.dir.Changed(restored.path)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return batch.Commit(ctx)
}

// stageAll writes the new files: into existing directories one by one, into new directories in the order that is
// cheapest for the source.
func (r *restoring) stageAll(ctx context.Context, batch *osfile.Batch) error {
	var mu sync.Mutex
	var ids []cas.ID
	built := make(map[cas.ID][]builtFile)
	if err := r.folders(ctx, func(dir string, files []*restored) error {
		if files[0].there {
			return r.stage(ctx, batch, dir, files)
		}
		in, err := batch.Build(r.dir, dir)
		if err != nil {
			return err
		}
		if in == nil {
			return r.stage(ctx, batch, dir, files)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, f := range files {
			if built[f.want.ID] == nil {
				ids = append(ids, f.want.ID)
			}
			built[f.want.ID] = append(built[f.want.ID], builtFile{f, in})
		}
		return nil
	}); err != nil {
		return err
	}
	return lock.Visit(ctx, r.objects, ids, func(i int, o cas.Object) error {
		if err := built[ids[i]][0].write(o); err != nil {
			return err
		}
		for _, f := range built[ids[i]][1:] { // identical files
			again, err := r.objects.Get(ctx, ids[i])
			if err != nil {
				return err
			}
			if err := errors.Join(f.write(again), again.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// A builtFile is a file in a new directory.
type builtFile struct {
	*restored
	in *osfile.Folder
}

func (f builtFile) write(o cas.Object) (err error) {
	f.staged, err = f.in.Stage(path.Base(f.path), nil, edit.Mode(f.mode == cas.Exec), copyOf(o))
	return err
}

// copyOf returns a function that writes an object. It fails if the bytes don't match the object's id.
func copyOf(o cas.Object) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, o)
		return err
	}
}

// stage writes the new files of a directory beside the old ones.
func (r *restoring) stage(ctx context.Context, batch *osfile.Batch, dir string, files []*restored) error {
	var in *osfile.Folder
	defer func() {
		if in != nil {
			in.Close()
		}
	}()
	for _, file := range files {
		object, err := r.objects.Get(ctx, file.want.ID)
		if errors.Is(err, fs.ErrNotExist) {
			return &lock.MissingError{ID: file.want.ID, NeededBy: file.ref.String()}
		}
		if err != nil {
			return err
		}
		if in == nil { // late, so that nothing is created if the first file is missing
			in, err = batch.Folder(r.dir, dir, slices.ContainsFunc(files, func(f *restored) bool {
				return f.before == nil
			}))
			if err != nil {
				return errors.Join(err, object.Close())
			}
		}
		file.staged, err = in.Stage(path.Base(file.path), file.before, edit.Mode(file.mode == cas.Exec),
			copyOf(object))
		if err := errors.Join(err, object.Close()); err != nil {
			return err
		}
	}
	return nil
}

// missing returns one error for all unavailable bytes, or nil if all are available.
func (r *restoring) missing(ctx context.Context) error {
	var failure *fault.Error
	var paths []string
	checked := map[cas.ID]bool{}
	for _, file := range r.files {
		if file.staged != nil || file.found == file.want.Digest || checked[file.want.ID] {
			continue
		}
		checked[file.want.ID] = true
		o, err := r.objects.Get(ctx, file.want.ID)
		switch {
		case err == nil:
			o.Close()
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case failure == nil:
			failure, paths = fault.Of(&lock.MissingError{ID: file.want.ID, NeededBy: file.ref.String()}),
				[]string{file.path}
		case len(failure.Why) < fault.MaxLines:
			failure.Why = append(failure.Why, fmt.Sprintf("%s is needed by %s", file.want.ID, file.ref))
			paths = append(paths, file.path)
		}
	}
	if failure == nil {
		return nil
	}
	failure.Hint = fromGit(r.l, paths...)
	return failure
}
