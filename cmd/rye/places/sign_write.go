package places

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// A Rewriting replaces files of spaces, all of them or, as long as none was replaced, none: new ones are written
// beside the old ones first. Each file is the old one or the new one whenever one looks, and what was replaced when
// replace returns stays so whatever becomes of the machine.
//
// One barrier is for all files where the system has one: to wait for each of 10,000 files takes minutes.
type Rewriting struct {
	dirs  map[*ai.Space]*osfile.Dir
	many  bool // there is one barrier for all
	now   time.Time
	swept sync.Map // directories in which nothing is left of processes that died
}

// FewFiles are as many as are waited for one by one.
const FewFiles = 16

func NewRewriting(files int, now time.Time) *Rewriting {
	return &Rewriting{dirs: map[*ai.Space]*osfile.Dir{}, many: files > FewFiles && HasBarrier, now: now}
}

// Open opens a space to write in. It is for one goroutine.
func (w *Rewriting) Open(s *ai.Space) error {
	if w.dirs[s] != nil {
		return nil
	}
	d, err := osfile.OpenDir(s.Dir, 0o777)
	if err == nil {
		w.dirs[s] = d
	}
	return err
}

func (w *Rewriting) Close() {
	for _, d := range w.dirs {
		d.Close()
	}
}

// A Staged file is a new one beside the old one.
type Staged struct {
	space  *ai.Space
	path   string
	part   string      // "" if nothing is to be done
	before fs.FileInfo // of the old one, when it was read
}

// Stage writes the new bytes of a file beside it, with its mode. It may be called by many goroutines.
func (w *Rewriting) Stage(s *ai.Space, p string, before fs.FileInfo, b []byte) (st Staged, err error) {
	d := w.dirs[s]
	r, err := d.Folder(path.Dir(p), false)
	if err != nil {
		return st, err
	}
	defer r.Close()
	dir := d.Where(path.Dir(p))
	if _, again := w.swept.LoadOrStore(dir, true); !again {
		osfile.Sweep(dir, w.now)
	}
	st = Staged{space: s, path: p, part: osfile.Unfinished + rand.Text(), before: before}
	f, err := r.OpenFile(st.part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Staged{}, d.About(p, err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(before.Mode().Perm())
	}
	if err == nil && !w.many {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		r.Remove(st.part)
		return Staged{}, d.About(p, err)
	}
	return st, nil
}

// Drop removes new files that take no old one's place.
func (w *Rewriting) Drop(all []Staged) {
	for _, st := range all {
		if st.part == "" {
			continue
		}
		if r, err := w.dirs[st.space].Folder(path.Dir(st.path), false); err == nil {
			r.Remove(st.part)
			r.Close()
		}
	}
}

// Replace puts the new files in the places of the old ones, and returns how many of them, from the first.
func (w *Rewriting) Replace(ctx context.Context, all []Staged) (done int, err error) {
	if err := w.barrier(); err != nil {
		w.Drop(all)
		return 0, err
	}
	for i, st := range all {
		if err = ctx.Err(); err == nil && st.part != "" {
			err = w.move(st)
		}
		if err != nil {
			w.Drop(all[i:])
			return i, errors.Join(err, w.barrier())
		}
	}
	return len(all), w.barrier()
}

func (w *Rewriting) move(st Staged) error {
	d := w.dirs[st.space]
	r, err := d.Folder(path.Dir(st.path), false)
	if err != nil {
		return err
	}
	defer r.Close()
	now, err := r.Lstat(path.Base(st.path))
	if err != nil {
		return d.About(st.path, err)
	}
	// Whoever wrote to the file since it was read keeps what was written.
	if b := st.before; !os.SameFile(now, b) || now.Size() != b.Size() || !now.ModTime().Equal(b.ModTime()) {
		return &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%q was changed meanwhile, and is left as it is", d.Where(st.path))}
	}
	if err := r.Rename(st.part, path.Base(st.path)); err != nil {
		return d.About(st.path, err)
	}
	if !w.many {
		return osfile.SyncDirectory(d.Where(path.Dir(st.path)))
	}
	return nil
}

// barrier waits until all that was written is on disk.
func (w *Rewriting) barrier() (err error) {
	if !w.many {
		return nil
	}
	for _, d := range w.dirs {
		err = errors.Join(err, SyncSystem(d.Root))
	}
	return err
}
