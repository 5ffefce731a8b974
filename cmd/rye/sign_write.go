package main

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

// A rewriting replaces files of spaces, all of them or, as long as none was replaced, none: new ones are written
// beside the old ones first. Each file is the old one or the new one whenever one looks, and what was replaced when
// replace returns stays so whatever becomes of the machine.
//
// One barrier is for all files where the system has one: to wait for each of 10,000 files takes minutes.
type rewriting struct {
	dirs  map[*ai.Space]*confined
	many  bool // there is one barrier for all
	now   time.Time
	swept sync.Map // directories in which nothing is left of processes that died
}

// fewFiles are as many as are waited for one by one.
const fewFiles = 16

func newRewriting(files int, now time.Time) *rewriting {
	return &rewriting{dirs: map[*ai.Space]*confined{}, many: files > fewFiles && hasBarrier, now: now}
}

// open opens a space to write in. It is for one goroutine.
func (w *rewriting) open(s *ai.Space) error {
	if w.dirs[s] != nil {
		return nil
	}
	d, err := confine(s.Dir, 0o777)
	if err == nil {
		w.dirs[s] = d
	}
	return err
}

func (w *rewriting) close() {
	for _, d := range w.dirs {
		d.close()
	}
}

// A staged file is a new one beside the old one.
type staged struct {
	space  *ai.Space
	path   string
	part   string      // "" if nothing is to be done
	before fs.FileInfo // of the old one, when it was read
}

// stage writes the new bytes of a file beside it, with its mode. It may be called by many goroutines.
func (w *rewriting) stage(s *ai.Space, p string, before fs.FileInfo, b []byte) (st staged, err error) {
	d := w.dirs[s]
	r, err := d.folder(path.Dir(p), false)
	if err != nil {
		return st, err
	}
	defer r.Close()
	dir := d.where(path.Dir(p))
	if _, again := w.swept.LoadOrStore(dir, true); !again {
		sweep(dir, w.now)
	}
	st = staged{space: s, path: p, part: unfinished + rand.Text(), before: before}
	f, err := r.OpenFile(st.part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return staged{}, d.about(p, err)
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
		return staged{}, d.about(p, err)
	}
	return st, nil
}

// drop removes new files that take no old one's place.
func (w *rewriting) drop(all []staged) {
	for _, st := range all {
		if st.part == "" {
			continue
		}
		if r, err := w.dirs[st.space].folder(path.Dir(st.path), false); err == nil {
			r.Remove(st.part)
			r.Close()
		}
	}
}

// replace puts the new files in the places of the old ones, and returns how many of them, from the first.
func (w *rewriting) replace(ctx context.Context, all []staged) (done int, err error) {
	if err := w.barrier(); err != nil {
		w.drop(all)
		return 0, err
	}
	for i, st := range all {
		if err = ctx.Err(); err == nil && st.part != "" {
			err = w.move(st)
		}
		if err != nil {
			w.drop(all[i:])
			return i, errors.Join(err, w.barrier())
		}
	}
	return len(all), w.barrier()
}

func (w *rewriting) move(st staged) error {
	d := w.dirs[st.space]
	r, err := d.folder(path.Dir(st.path), false)
	if err != nil {
		return err
	}
	defer r.Close()
	now, err := r.Lstat(path.Base(st.path))
	if err != nil {
		return d.about(st.path, err)
	}
	// Whoever wrote to the file since it was read keeps what was written.
	if b := st.before; !os.SameFile(now, b) || now.Size() != b.Size() || !now.ModTime().Equal(b.ModTime()) {
		return &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("%q was changed meanwhile, and is left as it is", d.where(st.path))}
	}
	if err := r.Rename(st.part, path.Base(st.path)); err != nil {
		return d.about(st.path, err)
	}
	if !w.many {
		return osfile.SyncDirectory(d.where(path.Dir(st.path)))
	}
	return nil
}

// barrier waits until all that was written is on disk.
func (w *rewriting) barrier() (err error) {
	if !w.many {
		return nil
	}
	for _, d := range w.dirs {
		err = errors.Join(err, syncSystem(d.root))
	}
	return err
}
