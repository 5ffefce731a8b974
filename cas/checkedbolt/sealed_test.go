package checkedbolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

const format = "test 1"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill writes n values of a size.
func fill(t testing.TB, path string, n, size int) {
	t.Helper()
	must(t, Update(t.Context(), path, format, time.Second, func(b *Batch) error {
		for i := range n {
			if err := b.Put(key(i), valueOf(i, size)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func key(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

// former is the size of values that were replaced: an old value may come back.
const former = 5000

func valueOf(i, size int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, size/2) }

// readAll counts the values that are there, and fails if one is another than what was written.
func readAll(t testing.TB, path string, n, size int) (good int, err error) {
	f, err := Open(t.Context(), path, format, time.Second)
	if err != nil {
		return 0, err
	}
	var bad error
	err = Guarded(func() error {
		for i := range n {
			v, err := f.Get(key(i))
			if err != nil {
				bad = err
				continue
			}
			if !bytes.Equal(v, valueOf(i, size)) && !bytes.Equal(v, valueOf(i, former)) {
				t.Errorf("value %d is another one", i)
			}
			good++
		}
		return nil
	})
	if err != nil {
		f.Discard()
		return good, err
	}
	f.Close()
	return good, bad
}

func TestReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "f.db")
	if _, err := Open(t.Context(), path, format, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	fill(t, path, 500, 300)
	if n, err := readAll(t, path, 500, 300); n != 500 || err != nil {
		t.Error(n, err)
	}
	f, err := Open(t.Context(), path, format, 0)
	must(t, err)
	if n := f.size(); n != 500*int64(len(key(0))+sumSize+len(valueOf(0, 300))) {
		t.Errorf("%d bytes", n)
	}
	f.Close()
	if n, err := readAll(t, path, 501, 300); n != 500 || !errors.Is(err, ErrDamaged) {
		t.Error(n, err)
	}
	must(t, Update(t.Context(), path, format, 0, func(b *Batch) error {
		if b.Get(key(7)) == nil || b.Get(key(500)) != nil {
			t.Error("not there, or there")
		}
		return b.Keep(func(k []byte) (bool, []byte) { return k[3]%2 == 0, nil })
	}))
	if n, _ := readAll(t, path, 500, 300); n != 250 {
		t.Error(n)
	}
	refused := errors.New("refused")
	err = Update(t.Context(), path, format, 0, func(b *Batch) error {
		must(t, b.Clear())
		return refused
	})
	if n, _ := readAll(t, path, 500, 300); n != 250 || err != refused {
		t.Error(n, err)
	}
	must(t, Update(t.Context(), path, format, 0, (*Batch).Clear))
	if n, _ := readAll(t, path, 500, 300); n != 0 {
		t.Error(n)
	}
	must(t, os.Truncate(path, 0))
	if _, err := Open(t.Context(), path, format, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	fill(t, path, 1, 10)
	f, err := Open(t.Context(), path, format, 0)
	must(t, err)
	second, err := Open(t.Context(), path, format, 0)
	must(t, err)
	second.Close()
	nothing := func(*Batch) error { return nil }
	if err := Update(t.Context(), path, format, 3*time.Millisecond, nothing); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Update(ctx, path, format, time.Hour, nothing); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.Close()
	must(t, Update(t.Context(), path, format, 0, func(*Batch) error {
		if _, err := Open(t.Context(), path, format, 0); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		return nil
	}))
	if err := Update(t.Context(), filepath.Join(path, "x"), format, 0, nothing); err == nil {
		t.Error("a file is no directory")
	}
	if _, err := Open(t.Context(), t.TempDir(), format, 0); err == nil || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

func TestShrink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	fill(t, path, 300, 64<<10)
	must(t, Update(t.Context(), path, format, 0, func(b *Batch) error {
		return b.Keep(func(k []byte) (bool, []byte) { return k[2] == 0 && k[3] < 10, nil })
	}))
	fi, err := os.Stat(path)
	must(t, err)
	if n, _ := readAll(t, path, 300, 64<<10); n != 10 || fi.Size() > 2<<20 {
		t.Errorf("%d values in %d bytes", n, fi.Size())
	}
	if _, err := os.Stat(path + newSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDamage flips bits and cuts the file in many ways: a value is right or it is none, and after damage the file can
// be made anew.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.db")
	fill(t, path, 40, former)
	fill(t, path, 200, 40)
	whole, err := os.ReadFile(path)
	must(t, err)
	r := rand.New(rand.NewPCG(3, 3))
	try := func(b []byte) {
		must(t, os.WriteFile(path, b, 0o600))
		readAll(t, path, 200, 40) // may find less; that it is right is seen there
		fill(t, path, 200, 40)
		if n, err := readAll(t, path, 200, 40); n != 200 {
			// What was put must be there unless the damage is found now, and the file is gone.
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%d values, %v", n, err)
			}
			os.Remove(path)
			fill(t, path, 200, 40)
			if n, err := readAll(t, path, 200, 40); n != 200 {
				t.Error(n, err)
			}
		}
	}
	for range 300 {
		b := bytes.Clone(whole)
		switch page := pageSize * r.IntN(len(b)/pageSize); r.IntN(4) {
		case 0:
			b = b[:r.IntN(len(b))]
		case 1: // in a page's head or elements
			b[page+r.IntN(64)] ^= 1 << r.IntN(8)
		case 2:
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		case 3: // an old page in the place of a new one
			from := pageSize * r.IntN(len(b)/pageSize)
			copy(b[page:page+pageSize], b[from:])
		}
		try(b)
	}
	try([]byte("not a database"))
	try(bytes.Repeat([]byte("garbage "), 4096))
	try(make([]byte, 1<<16))
}

// TestOtherFormat: a file of another format is none, and neither is a value of one, nor that of another key.
func TestOtherFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	const other = "test 2"
	fill(t, path, 3, 10)
	if _, err := Open(t.Context(), path, other, 0); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	fill(t, path, 3, 10)
	for i := range 2 {
		must(t, Update(t.Context(), path, other, 0, func(b *Batch) error {
			if b.Rebuilt() != (i == 0) {
				t.Errorf("%d: rebuilt %v", i, b.Rebuilt())
			}
			return b.Put(key(9), nil)
		}))
	}
	must(t, os.Remove(path))
	fill(t, path, 3, 10)
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		to, err := tx.CreateBucket([]byte(other))
		must(t, err)
		must(t, tx.Bucket([]byte(format)).ForEach(func(k, v []byte) error {
			must(t, to.Put([]byte("x"), v))
			return to.Put(k, v)
		}))
		return tx.DeleteBucket([]byte(format))
	}))
	must(t, db.Close())
	f, err := Open(t.Context(), path, other, 0)
	must(t, err)
	defer f.Close()
	for _, k := range [][]byte{key(0), []byte("x"), []byte("none")} {
		if _, err := f.Get(k); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v", k, err)
		}
	}
}

// TestForeign: a database of another program is rejected.
func TestForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("theirs"))
		return err
	}))
	must(t, db.Close())
	if _, err := Open(t.Context(), path, format, 0); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	fill(t, path, 50, 1000)
	var wg sync.WaitGroup
	for g := range 40 {
		wg.Go(func() {
			if g%8 == 0 {
				err := Update(t.Context(), path, format, 10*time.Second, func(b *Batch) error {
					return b.Put(fmt.Append(nil, "g", g), nil)
				})
				if err != nil {
					t.Error(err)
				}
				return
			}
			f, err := Open(t.Context(), path, format, 10*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if _, err := f.Get(key(g)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestPages breaks what bbolt takes for granted, one thing at a time: all of it is found when the file is opened.
func TestPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	fill(t, path, 2000, 100)
	tree, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Remove(path))
	fill(t, path, 2, 10) // so small that its bucket lies in the page of the root
	inline, err := os.ReadFile(path)
	must(t, err)

	order := binary.NativeEndian
	live := func(b []byte, kind uint16) (pages [][]byte) {
		for at := 2 * pageSize; at < len(b); at += pageSize {
			if p := b[at : at+pageSize]; order.Uint64(p) == uint64(at/pageSize) && order.Uint16(p[8:]) == kind {
				pages = append(pages, p)
			}
		}
		return pages
	}
	branches := func(f func(p []byte)) func([]byte) {
		return func(b []byte) {
			for _, p := range live(b, branchPage) {
				f(p)
			}
		}
	}
	leaves := func(f func(p []byte)) func([]byte) {
		return func(b []byte) {
			for _, p := range live(b, leafPage) {
				f(p)
			}
		}
	}
	value := func(p []byte) []byte { // of the first element: the head of the bucket, on the page of the root
		e := p[pageHead:]
		return p[pageHead+order.Uint32(e[4:])+order.Uint32(e[8:]):]
	}
	for _, c := range []struct {
		name string
		file []byte
		do   func(b []byte)
	}{
		{"a circle", tree, branches(func(p []byte) { copy(p[pageHead+8:], p[:8]) })},
		{"a page twice", tree, branches(func(p []byte) {
			copy(p[pageHead+8:pageHead+16], p[pageHead+elementSize+8:])
		})},
		{"a page beyond the end", tree, branches(func(p []byte) { order.PutUint64(p[pageHead+8:], 1<<40) })},
		{"a meta page", tree, branches(func(p []byte) { order.PutUint64(p[pageHead+8:], 1) })},
		{"a key beyond the page", tree, branches(func(p []byte) { order.PutUint32(p[pageHead+4:], 1<<30) })},
		{"no children", tree, branches(func(p []byte) { order.PutUint16(p[10:], 0) })},
		{"too many children", tree, branches(func(p []byte) { order.PutUint16(p[10:], 1<<15) })},
		{"of another kind", tree, branches(func(p []byte) { order.PutUint16(p[8:], 16) })},
		{"another page", tree, branches(func(p []byte) { order.PutUint64(p, 1<<20) })},
		{"a page that goes on beyond the end", tree, leaves(func(p []byte) { order.PutUint32(p[12:], 1<<20) })},
		{"a value beyond the page", tree, leaves(func(p []byte) { order.PutUint32(p[pageHead+12:], 1<<30) })},
		{"a bucket in a bucket, or another flag", tree, leaves(func(p []byte) {
			order.PutUint32(p[pageHead:], order.Uint32(p[pageHead:])+1)
		})},
		{"a bucket that is too short", inline, leaves(func(p []byte) {
			order.PutUint32(p[pageHead+12:], bucketHead-1)
		})},
		{"a bucket without a page", inline, leaves(func(p []byte) { order.PutUint32(p[pageHead+12:], bucketHead+1) })},
		{"a bucket of another kind", inline, leaves(func(p []byte) {
			order.PutUint16(value(p)[bucketHead+8:], branchPage)
		})},
		{"a bucket with too many values", inline, leaves(func(p []byte) {
			order.PutUint16(value(p)[bucketHead+10:], 1<<14)
		})},
		{"a bucket in a meta page", inline, leaves(func(p []byte) { order.PutUint64(value(p), 1) })},
	} {
		b := bytes.Clone(c.file)
		c.do(b)
		if bytes.Equal(b, c.file) {
			t.Errorf("%s: nothing was changed", c.name)
		}
		must(t, os.WriteFile(path, b, 0o600))
		if _, err := Open(t.Context(), path, format, 0); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", c.name, err)
		}
		must(t, os.WriteFile(path, b, 0o600))
		fill(t, path, 2, 10) // makes a new one
		if n, err := readAll(t, path, 2, 10); n != 2 || err != nil {
			t.Errorf("%s: %d values, %v", c.name, n, err)
		}
	}
}

// TestPagesBeforeWriting breaks what matters only to who writes: reading may miss values, but a writer makes a
// new file.
func TestPagesBeforeWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	fill(t, path, 2000, 100)
	fill(t, path, 2000, 100) // so that there are free pages
	whole, err := os.ReadFile(path)
	must(t, err)
	order := binary.NativeEndian
	page := func(b []byte, kind uint16) []byte { // the last of its kind
		for at := len(b) - pageSize; ; at -= pageSize {
			if p := b[at:]; order.Uint64(p) == uint64(at/pageSize) && order.Uint16(p[8:]) == kind {
				return p
			}
		}
	}
	root := func(b []byte) []byte { // the page of the bucket, and the one that the live transaction has its list on
		return page(b, branchPage)
	}
	list := func(b []byte) []byte {
		m := b[:pageSize]
		if order.Uint64(b[pageSize+metaTx:]) > order.Uint64(m[metaTx:]) {
			m = b[pageSize:]
		}
		return b[pageSize*order.Uint64(m[metaFreelist:]):]
	}
	if order.Uint16(list(whole)[10:]) < 3 {
		t.Fatal("there are no free pages")
	}
	for name, do := range map[string]func(b []byte){
		"keys of a branch out of order": func(b []byte) {
			e := root(b)[pageHead+elementSize:]
			order.PutUint32(e, order.Uint32(e)-elementSize+3)
		},
		"keys of a leaf out of order": func(b []byte) {
			e := page(b, leafPage)[pageHead:]
			order.PutUint32(e[elementSize+4:], order.Uint32(e[4:])-elementSize)
		},
		"no key": func(b []byte) { order.PutUint32(page(b, branchPage)[pageHead+4:], 0) },
		"a page in use": func(b []byte) {
			order.PutUint64(list(b)[pageHead+16:], order.Uint64(root(b)[pageHead+8:]))
		},
		"the list's own":          func(b []byte) { copy(list(b)[pageHead+16:pageHead+24], list(b)) },
		"a page that never was":   func(b []byte) { order.PutUint64(list(b)[pageHead+16:], 1<<40) },
		"a meta page":             func(b []byte) { order.PutUint64(list(b)[pageHead:], 1) },
		"free pages out of order": func(b []byte) { copy(list(b)[pageHead+8:pageHead+16], list(b)[pageHead:]) },
		"too many of them":        func(b []byte) { order.PutUint16(list(b)[10:], pageSize/8-1) },
		"very many of them": func(b []byte) {
			order.PutUint16(list(b)[10:], 1<<16-1)
			order.PutUint64(list(b)[pageHead:], 1<<62)
		},
		"a list that goes on":    func(b []byte) { order.PutUint32(list(b)[12:], 1<<20) },
		"a list of another kind": func(b []byte) { order.PutUint16(list(b)[8:], leafPage) },
	} {
		b := bytes.Clone(whole)
		do(b)
		if bytes.Equal(b, whole) {
			t.Errorf("%s: nothing was changed", name)
		}
		must(t, os.WriteFile(path, b, 0o600))
		rebuilt := false
		must(t, Update(t.Context(), path, format, 0, func(b *Batch) error { rebuilt = b.Rebuilt(); return nil }))
		if !rebuilt {
			t.Errorf("%s: not found", name)
		}
	}
	must(t, os.WriteFile(path, whole, 0o600))
	must(t, Update(t.Context(), path, format, 0, func(b *Batch) error {
		if b.Rebuilt() {
			t.Error("without damage")
		}
		return nil
	}))
}

// TestNoListOfFreePages: bbolt would look for them where nothing can be caught, so it never gets such a file.
func TestNoListOfFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true, PageSize: pageSize})
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte(format))
		for i := range 2000 {
			must(t, b.Put(key(i), make([]byte, 100)))
		}
		return err
	}))
	must(t, db.Close())
	sound, err := os.ReadFile(path)
	must(t, err)
	broken := bytes.Clone(sound)
	for at := 2 * pageSize; at < len(broken); at += pageSize {
		clear(broken[at+pageHead : at+pageSize])
	}
	for _, b := range [][]byte{sound, broken} {
		must(t, os.WriteFile(path, b, 0o600))
		must(t, Update(t.Context(), path, format, 0, func(b *Batch) error {
			if !b.Rebuilt() {
				t.Error("not found")
			}
			return nil
		}))
		fill(t, path, 2, 10)
		if n, err := readAll(t, path, 2, 10); n != 2 || err != nil {
			t.Error(n, err)
		}
	}
}

// TestDamageWhileWriting: what panics after the file was opened makes a new one, for which everything is put again.
func TestDamageWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	fill(t, path, 10, 10)
	calls := 0
	must(t, Update(t.Context(), path, format, time.Second, func(b *Batch) error {
		if calls++; !b.Rebuilt() {
			panic("as bbolt does")
		}
		return b.Put(key(3), valueOf(3, 10))
	}))
	if n, _ := readAll(t, path, 10, 10); n != 1 || calls != 2 {
		t.Errorf("%d values after %d calls", n, calls)
	}
}

// TestModel compares with a map whatever is done, and wants no file to be taken for damaged.
func TestModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	r := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	for round := range 80 {
		must(t, Update(t.Context(), path, format, 0, func(b *Batch) error {
			if b.Rebuilt() {
				t.Errorf("round %d: rebuilt", round)
			}
			for range r.IntN(300) {
				k := fmt.Sprint(r.IntN(5000))
				k += strings.Repeat("k", r.IntN(200)*r.IntN(2))
				v := strings.Repeat("v", r.IntN(3000))
				want[k] = v
				must(t, b.Put([]byte(k), []byte(v)))
				b.unsaved *= 1 + r.IntN(30)
				must(t, b.Flush())
			}
			switch r.IntN(10) {
			case 0:
				clear(want)
				return b.Clear()
			case 1, 2, 3:
				drop := byte('0' + r.IntN(10))
				maps.DeleteFunc(want, func(k, _ string) bool { return k[0] == drop })
				looked := map[byte]bool{}
				return b.Keep(func(k []byte) (bool, []byte) {
					if k[0] == drop {
						return false, nil
					}
					if looked[k[0]] {
						t.Errorf("round %d: %q was to be passed over", round, k)
					}
					looked[k[0]] = true
					return true, []byte{k[0] + 1}
				})
			}
			return nil
		}))
		f, err := Open(t.Context(), path, format, 0)
		must(t, err)
		n := 0
		must(t, f.b.ForEach(func(k, _ []byte) error {
			n++
			if v, err := f.Get(k); err != nil || string(v) != want[string(k)] {
				t.Errorf("round %d: %q: %v", round, k, err)
			}
			return nil
		}))
		f.Close()
		if n != len(want) {
			t.Fatalf("round %d: %d values, not %d", round, n, len(want))
		}
	}
}
