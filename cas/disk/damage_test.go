package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
)

// flip changes one byte of a file.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	must(t, err)
	b[0] ^= 1 << (at % 8)
	_, err = f.WriteAt(b[:], at)
	must(t, err)
}

// eachPack calls f for each pack of a store.
func eachPack(t testing.TB, dir string, f func(p *pack)) {
	t.Helper()
	paths, err := listPacks(dir)
	must(t, err)
	for _, path := range paths {
		p, err := openPack(path)
		must(t, err)
		f(p)
		p.release()
	}
}

// hurtIndexes damages the first page of every index.
func hurtIndexes(t testing.TB) func(dir string) {
	return func(dir string) {
		eachPack(t, dir, func(p *pack) { flip(t, p.path, int64(p.foot.index)+7) })
	}
}

// hurtHeaders damages the header of one block in every pack.
func hurtHeaders(t testing.TB) func(dir string) {
	return func(dir string) {
		eachPack(t, dir, func(p *pack) { flip(t, p.path, headerSize+9) })
	}
}

// smallStore has every kind of record, in packs with raw and compressed blocks, and all the other files.
func smallStore(t testing.TB, long ...[]byte) (dir string, w *world) {
	t.Helper()
	now := time.Unix(1e9, 0)
	s := tinyStore(t, Options{Now: func() time.Time { return now }})
	s.fanout = 100
	s.packObjects = 100
	r := &run{Store: s, w: newWorld()}
	must(t, r.put("main", append(long, text(1, 300), noise(2, 200), nil)...))
	i, err := r.Put(t.Context(), cas.Document, bytes.NewReader(text(4, 5000)))
	must(t, err)
	r.w.objects[i.ID] = text(4, 5000)
	_, err = r.Repack(t.Context())
	must(t, err)
	_, err = r.GC(t.Context(), GCOptions{Grace: time.Hour})
	must(t, err)
	must(t, s.writeRecord(condemnedFile, nil, nil))
	must(t, clean(s))
	return s.dir, r.w
}

// reads opens a store and compares all that it hands out with what was put. It returns what was not handed out.
func (w *world) reads(s *Store) (refused []cas.ID, err error) {
	ctx := context.Background()
	for id, want := range w.objects {
		o, err := s.Get(ctx, id)
		if err == nil {
			var got []byte
			if got, err = io.ReadAll(o); err == nil && !bytes.Equal(got, want) {
				return nil, fmt.Errorf("%s was served wrong", id)
			}
			o.Close()
		}
		if err != nil {
			refused = append(refused, id)
		}
	}
	ids := slices.Collect(maps.Keys(w.objects))
	err = s.Visit(ctx, ids, func(i int, o cas.Object) error {
		if got, err := io.ReadAll(o); err == nil && !bytes.Equal(got, w.objects[ids[i]]) {
			return fmt.Errorf("%s was served wrong to a visit", ids[i])
		}
		return nil
	})
	if err != nil && strings.Contains(err.Error(), "served wrong") {
		return nil, err
	}
	for name, want := range w.refs {
		if got, err := s.Ref(name); err == nil && got != want {
			return nil, fmt.Errorf("ref %s was served wrong: %s", name, got)
		}
	}
	return refused, nil
}

// storeFiles returns the paths of a store's files, relative to it; the locks, which are empty, are left out.
func storeFiles(t testing.TB, dir string) (files []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ".lock" {
			rel, err := filepath.Rel(dir, path)
			files = append(files, rel)
			return err
		}
		return err
	}))
	return files
}

// TestFlip changes every byte of a small store in turn. Nothing is ever served wrong, what is refused was in the
// damaged file, fsck sees every change but those of gc's records, and the indexes never promise what isn't there.
func TestFlip(t *testing.T) {
	dir, w := smallStore(t)
	for _, file := range storeFiles(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, file))
		must(t, err)
		index := len(b)
		if filepath.Ext(file) == packExt {
			p, err := openPack(filepath.Join(dir, file))
			must(t, err)
			index = int(p.foot.index)
			p.release()
		}
		unseen := 0
		for at := 0; at < len(b); at += sample {
			if at > index && at%16 != 0 && len(bytes.Trim(b[max(at-64, 0):min(at+64, len(b))], "\x00")) == 0 {
				continue // among zeros of a page, which are all alike
			}
			flip(t, filepath.Join(dir, file), int64(at))
			seen, err := flipped(dir, w, file, at >= index)
			if err != nil {
				t.Errorf("%s, byte %d: %v", file, at, err)
			}
			if !seen {
				unseen++
			}
			must(t, os.WriteFile(filepath.Join(dir, file), b, 0o600))
		}
		// A few bits of a compressed block mean nothing: with either value it becomes the same bytes.
		if unseen > len(b)/500 && !harmless(file) {
			t.Errorf("%s: fsck did not see %d of %d changes", file, unseen, len(b))
		}
	}
	s, err := open(dir, Options{})
	must(t, err)
	must(t, clean(s)) // all is as it was
}

// harmless reports whether nothing depends on a byte: of gc's records a damaged one is as none.
func harmless(file string) bool { return file == garbageFile || file == condemnedFile }

// flipped reports whether fsck sees that a byte of a file was changed.
func flipped(dir string, w *world, file string, index bool) (seen bool, err error) {
	s, err := open(dir, Options{})
	if err != nil {
		if file == "format" {
			return true, nil
		}
		return false, err
	}
	defer s.Close()
	if file == "format" {
		return false, errors.New("the store was opened")
	}
	refused, err := w.reads(s)
	if err != nil {
		return false, err
	}
	inBlock := filepath.Ext(file) == packExt && !index
	if len(refused) > 0 && !inBlock {
		return false, fmt.Errorf("%s is refused", refused[0])
	}
	absent, err := s.Missing(context.Background(), slices.Collect(maps.Keys(w.objects)))
	if err != nil {
		return false, err
	}
	if len(absent) > 0 && filepath.Ext(file) != packExt {
		return false, fmt.Errorf("%s counts as missing", absent[0])
	}
	if err = clean(s); err == nil {
		if !harmless(file) && (!inBlock || len(refused) > 0) {
			return false, errors.New("fsck sees nothing")
		}
		return false, nil
	}
	if !strings.HasPrefix(err.Error(), "fsck: ") {
		return false, err
	}
	return true, nil
}

// TestReplaced puts other things in the place of each file.
func TestReplaced(t *testing.T) {
	from, w := smallStore(t, noise(3, 257<<10))
	for _, file := range storeFiles(t, from) {
		for name, do := range replacements() {
			dir := copyDir(t, from)
			must(t, do(filepath.Join(dir, file)))
			s, err := open(dir, Options{})
			if file == "format" {
				if err == nil && name != "extended" {
					t.Errorf("%s %s: the store was opened", file, name)
				}
				continue
			}
			must(t, err)
			refused, err := w.reads(s)
			if err != nil {
				t.Errorf("%s %s: %v", file, name, err)
			}
			if len(refused) > 0 && filepath.Ext(file) != packExt {
				t.Errorf("%s %s: %v is refused", file, name, refused)
			}
			absent, err := s.Missing(t.Context(), refused)
			if err != nil || len(absent) != len(refused) && name != "zeroed" {
				t.Errorf("%s %s: %d are refused, %d count as missing, %v", file, name, len(refused), len(absent), err)
			}
			if err := clean(s); err == nil && !harmless(file) {
				t.Errorf("%s %s: fsck sees nothing", file, name)
			} else if err != nil && !strings.HasPrefix(err.Error(), "fsck: ") {
				t.Errorf("%s %s: %v", file, name, err)
			}
			must(t, s.Close())
		}
	}
}

func replacements() map[string]func(path string) error {
	out := map[string]func(path string) error{
		"cut by one": func(path string) error {
			fi, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, fi.Size()-1)
		},
		"half": func(path string) error {
			fi, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, fi.Size()/2)
		},
		"empty": func(path string) error { return os.Truncate(path, 0) },
		"extended": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, 5000))
			return errors.Join(err, f.Close())
		},
		"zeroed": func(path string) error {
			fi, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, make([]byte, fi.Size()), 0o600)
		},
		"a directory": func(path string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+"~"), os.Symlink(filepath.Base(path)+"~", path))
		},
	}
	maps.Copy(out, replacementsHere)
	return out
}

// A pack that is cut short under the feet of a process that has its index mapped.
func TestCutWhileMapped(t *testing.T) {
	dir, w := smallStore(t, noise(3, 257<<10))
	s, err := open(dir, Options{})
	must(t, err)
	must(t, w.check(s))
	paths, err := listPacks(dir)
	must(t, err)
	for _, path := range paths {
		must(t, os.Truncate(path, 100))
	}
	if _, err := w.reads(s); err != nil {
		t.Error(err)
	}
	if _, err := s.Missing(t.Context(), slices.Collect(maps.Keys(w.objects))); err != nil {
		t.Error(err)
	}
	for range s.List(t.Context()) {
	}
	if err := clean(s); err == nil {
		t.Error("fsck sees nothing")
	}
	if _, err := s.GC(t.Context(), GCOptions{}); err == nil {
		t.Error("gc saw nothing")
	}
	b, err := s.Batch(t.Context())
	must(t, err)
	for id, x := range w.objects {
		_, err := b.PutBytes(t.Context(), id.Kind, x)
		must(t, err)
	}
	must(t, b.Commit(t.Context()))
	must(t, b.Close())
	must(t, w.check(s))
}

// TestPutHeals: what a put acknowledges can be read, whatever happened to the pack that has the object already.
func TestPutHeals(t *testing.T) {
	small, long := noise(1, 3000), noise(2, 700<<10)
	for name, damage := range map[string]func(p *pack){
		"flipped byte": func(p *pack) { flip(t, p.path, headerSize+200) },
		"zeros": func(p *pack) {
			f, err := os.OpenFile(p.path, os.O_WRONLY, 0)
			must(t, err)
			defer f.Close()
			_, err = f.WriteAt(make([]byte, 4096), headerSize+100)
			must(t, err)
		},
		"cut short": func(p *pack) { must(t, os.Truncate(p.path, p.size/2)) },
	} {
		for _, reopen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reopened %t", name, reopen), func(t *testing.T) {
				dir := t.TempDir()
				open := func() *Store {
					s, err := Open(dir, Options{Create: true})
					must(t, err)
					return s
				}
				put := func(s *Store) (ids []cas.ID) {
					for _, b := range [][]byte{small, long} {
						i, err := s.Put(t.Context(), cas.Blob, bytes.NewReader(b))
						must(t, err)
						ids = append(ids, i.ID)
					}
					return ids
				}
				s := open()
				put(s)
				eachPack(t, dir, damage)
				if reopen {
					must(t, s.Close())
					s = open()
				}
				for i, id := range put(s) {
					o, err := s.Get(t.Context(), id)
					must(t, err)
					got, err := io.ReadAll(o)
					must(t, err)
					must(t, o.Close())
					if !bytes.Equal(got, [][]byte{small, long}[i]) {
						t.Errorf("object %d came back as other bytes", i)
					}
				}
				must(t, s.Close())
			})
		}
	}
}

// TestPutTrusts: a pack that was only copied is verified once, and then trusted without being read.
func TestPutTrusts(t *testing.T) {
	s := tinyStore(t, Options{})
	_, err := s.Put(t.Context(), cas.Blob, strings.NewReader("copied"))
	must(t, err)
	path := func() (path string) {
		eachPack(t, s.dir, func(p *pack) { path = p.path })
		return path
	}()
	must(t, os.Chtimes(path, time.Time{}, time.Now()))
	for range 2 {
		_, err = s.Put(t.Context(), cas.Blob, strings.NewReader("copied"))
		must(t, err)
		fi, err := os.Stat(path)
		must(t, err)
		if !fi.ModTime().Equal(sealedTime) {
			t.Errorf("the pack has the time %s", fi.ModTime())
		}
	}
	if paths, err := listPacks(s.dir); err != nil || len(paths) != 1 {
		t.Errorf("%d packs, %v", len(paths), err)
	}
}
