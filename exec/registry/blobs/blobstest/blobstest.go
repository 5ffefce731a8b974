// Package blobstest tests an implementation of blobs.Store.
package blobstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/registry/blobs"
)

// Open opens a store as another process would, and closes it when the test ends.
type Open func(testing.TB) blobs.Store

// Test runs every check. make makes an empty world, and returns a function that opens its store.
func Test(t *testing.T, make func(t testing.TB) Open) {
	for name, check := range map[string]func(*testing.T, Open){
		"files": files, "exists": exists, "race": race, "cut off": cutOff, "replaced": replaced, "removed": removed,
		"listed": listed, "refused": refuses, "large": large, "cancelled": cancelled,
	} {
		t.Run(name, func(t *testing.T) { check(t, make(t)) })
	}
}

var must, refused = journaltest.Must, journaltest.Refused

// Create creates a file.
func Create(t testing.TB, s blobs.Store, name, text string) {
	t.Helper()
	must(t, s.Create(t.Context(), name, strings.NewReader(text), int64(len(text))))
}

// Read returns the content of a file.
func Read(t testing.TB, s blobs.Store, name string) string {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	must(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	must(t, err)
	if int64(len(b)) != f.Size || f.Name != name {
		t.Errorf("%s: %d bytes read, %+v", name, len(b), f.Info)
	}
	return string(b)
}

// Names returns the names of the files with a prefix, with spaces between.
func Names(t testing.TB, s blobs.Store, prefix string) string {
	t.Helper()
	var names []string
	for info, err := range s.List(t.Context(), prefix) {
		must(t, err)
		names = append(names, info.Name)
	}
	return strings.Join(names, " ")
}

func want(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%.2000s\nwant\n%.2000s", got, want)
	}
}

// absent wants that no file has a name.
func absent(t testing.TB, s blobs.Store, name string) {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err == nil {
		f.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", name, err)
	}
}

// files checks what is stored, for all who have the store open, and as a server reads it: from any offset.
func files(t *testing.T, open Open) {
	first, second := open(t), open(t)
	absent(t, first, "a/b")
	before := time.Now().Add(-2 * time.Second)
	Create(t, first, "a/b.tar.zst", "0123456789")
	Create(t, second, "empty", "")
	for _, s := range []blobs.Store{first, second, open(t)} {
		want(t, Read(t, s, "a/b.tar.zst"), "0123456789")
		want(t, Read(t, s, "empty"), "")
		absent(t, s, "a")
		absent(t, s, "a/b.tar.zst/c")
		absent(t, s, "a/b")
	}
	f, err := second.Open(t.Context(), "a/b.tar.zst")
	must(t, err)
	defer f.Close()
	if f.Modified.Before(before) || f.Modified.After(time.Now().Add(2*time.Second)) || f.ETag == "" ||
		strings.ContainsAny(f.ETag, `"\`) {
		t.Errorf("%+v", f.Info)
	}
	for _, c := range []struct {
		offset     int64
		whence     int
		at, length int64
		text       string
	}{
		{0, io.SeekEnd, 10, 5, ""}, {0, io.SeekStart, 0, 3, "012"}, {2, io.SeekCurrent, 5, 2, "56"},
		{-2, io.SeekEnd, 8, 9, "89"}, {4, io.SeekStart, 4, 1, "4"}, {0, io.SeekCurrent, 5, 1, "5"},
		{1, io.SeekStart, 1, 9, "123456789"}, {20, io.SeekStart, 20, 9, ""}, {9, io.SeekStart, 9, 1, "9"},
	} {
		at, err := f.Seek(c.offset, c.whence)
		b, bad := io.ReadAll(io.LimitReader(f, c.length))
		if at != c.at || err != nil || bad != nil || string(b) != c.text {
			t.Errorf("seek %d, %d: at %d, %q, %v, %v", c.offset, c.whence, at, b, err, bad)
		}
	}
	if _, err := f.Seek(-1, io.SeekStart); err == nil {
		t.Error("an offset before the file")
	}
	var infos []blobs.Info
	for info, err := range second.List(t.Context(), "a/") {
		must(t, err)
		infos = append(infos, info)
	}
	if len(infos) != 1 || infos[0].ETag != f.ETag || infos[0].Size != 10 || infos[0].Name != "a/b.tar.zst" ||
		infos[0].Modified.Sub(f.Modified).Abs() > time.Second {
		t.Errorf("%+v, opened %+v", infos, f.Info)
	}
}

// exists checks that a created file stays as it is.
func exists(t *testing.T, open Open) {
	first, second := open(t), open(t)
	Create(t, first, "a/b", "first")
	for _, s := range []blobs.Store{first, second} {
		err := s.Create(t.Context(), "a/b", strings.NewReader("other"), 5)
		var exists *blobs.ExistsError
		if !errors.As(err, &exists) || exists.Name != "a/b" || !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
		refused(t, fault.Conflict, err)
		want(t, Read(t, s, "a/b"), "first")
	}
	want(t, Names(t, first, ""), "a/b")
}

// race checks that of many who create a file at once exactly one does, and the file is that one's.
func race(t *testing.T, open Open) {
	stores := []blobs.Store{open(t), open(t)}
	for round := range 6 {
		name := fmt.Sprintf("race/%d/file", round)
		var group sync.WaitGroup
		var mu sync.Mutex
		var won []string
		for i := range 6 {
			text := strings.Repeat(fmt.Sprint(i), 10_000+i)
			group.Go(func() {
				err := stores[i%2].Create(t.Context(), name, strings.NewReader(text), int64(len(text)))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, text)
				} else if !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			t.Fatalf("%d have created it", len(won))
		}
		want(t, Read(t, stores[0], name), won[0])
	}
}

// cutOff checks that nothing is stored of a reader that fails, or has another size than announced.
func cutOff(t *testing.T, open Open) {
	s := open(t)
	broken := errors.New("broken")
	text := strings.Repeat("x", 100_000)
	half := strings.NewReader(text[:50_000])
	then := func(err error) io.Reader { return io.MultiReader(strings.NewReader(text), iotest.ErrReader(err)) }
	for name, c := range map[string]struct {
		r    io.Reader
		size int64
		code fault.Code // or else
		err  error
	}{
		"short":         {half, 100_000, fault.Validation, nil},
		"long":          {strings.NewReader(text), 50_000, fault.Validation, nil},
		"long by one":   {strings.NewReader(text), 99_999, fault.Validation, nil},
		"long and slow": {iotest.OneByteReader(strings.NewReader("ab")), 1, fault.Validation, nil},
		"not empty":     {strings.NewReader("x"), 0, fault.Validation, nil},
		"fails":         {then(broken), 200_000, "", broken},
		"is cut off":    {then(io.ErrUnexpectedEOF), 200_000, "", io.ErrUnexpectedEOF},
		"fails at once": {iotest.ErrReader(broken), 10, "", broken},
		"fails last":    {then(broken), 100_000, "", broken},
		"fails empty":   {iotest.ErrReader(broken), 0, "", broken},
	} {
		err := s.Create(t.Context(), "a/"+name, c.r, c.size)
		if c.err != nil && !errors.Is(err, c.err) || c.err == nil && (err == nil || fault.CodeOf(err) != c.code) {
			t.Errorf("%s: %v", name, err)
		}
		absent(t, s, "a/"+name)
	}
	want(t, Names(t, s, ""), "")
	// A reader that gives its last bytes together with the end, or single bytes, is as good as any.
	must(t, s.Create(t.Context(), "a/data", iotest.DataErrReader(strings.NewReader(text)), 100_000))
	must(t, s.Create(t.Context(), "a/single", iotest.OneByteReader(strings.NewReader("abc")), 3))
	want(t, Read(t, s, "a/data"), text)
	want(t, Read(t, s, "a/single"), "abc")
}

// replaced checks that readers see one version, old or new, and can distinguish them.
func replaced(t *testing.T, open Open) {
	s, other := open(t), open(t)
	version := func(n int) string { return strings.Repeat(string(rune('a'+n%26)), 40_000) }
	must(t, s.Replace(t.Context(), "log/checkpoint", []byte(version(0))))
	want(t, Read(t, other, "log/checkpoint"), version(0))
	before, err := other.Open(t.Context(), "log/checkpoint")
	must(t, err)
	defer before.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 30 {
			if err := s.Replace(t.Context(), "log/checkpoint", []byte(version(n))); err != nil {
				t.Error(err)
			}
		}
	}()
	tags := map[string]string{}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		f, err := other.Open(t.Context(), "log/checkpoint")
		must(t, err)
		b, err := io.ReadAll(f)
		must(t, err)
		f.Close()
		if len(b) != 40_000 || strings.Trim(string(b), string(b[:1])) != "" {
			t.Errorf("%d bytes, a mix", len(b))
		}
		if tags[f.ETag] != "" && tags[f.ETag] != string(b) {
			t.Errorf("two versions have the ETag %s", f.ETag)
		}
		tags[f.ETag] = string(b)
	}
	want(t, Read(t, s, "log/checkpoint"), version(29))
	if b, err := io.ReadAll(before); err == nil && string(b) != version(0) {
		t.Errorf("a file that was open is another: %d bytes", len(b))
	}
	// A created file may be replaced, and a replaced one exists.
	Create(t, s, "a", "a")
	must(t, s.Replace(t.Context(), "a", nil))
	want(t, Read(t, s, "a"), "")
	refused(t, fault.Conflict, s.Create(t.Context(), "log/checkpoint", strings.NewReader("a"), 1))
}

// removed checks that a file is gone, and that its name is free.
func removed(t *testing.T, open Open) {
	s := open(t)
	Create(t, s, "a/b", "1")
	Create(t, s, "a/c", "2")
	must(t, s.Remove(t.Context(), "a")) // no file
	for range 2 {
		must(t, s.Remove(t.Context(), "a/b"))
	}
	must(t, s.Remove(t.Context(), "none/at/all"))
	must(t, s.Remove(t.Context(), "a/c/d"))
	absent(t, open(t), "a/b")
	want(t, Names(t, s, ""), "a/c")
	Create(t, s, "a/b", "3")
	want(t, Read(t, s, "a/b"), "3")
	must(t, s.Remove(t.Context(), "a/b"))
	must(t, s.Remove(t.Context(), "a/c"))
	want(t, Names(t, s, ""), "")
}

// listed checks the order of names and the meaning of prefixes.
func listed(t *testing.T, open Open) {
	s := open(t)
	texts := map[string]string{}
	for i, name := range []string{"z", "a-b", "a/b", "a.b", "a/c/d/e", "a0", "index/é.yaml", "index/acme/base.yaml",
		"index/acme-x/base.yaml", "index/acme.yaml", "tile/0/x001/067", "tile/0/001", "tile/0/001.p/7"} {
		texts[name] = strings.Repeat("x", i)
		Create(t, s, name, texts[name])
	}
	for _, prefix := range []string{"", "a", "a/", "a/c", "a/c/", "a/c/d/e", "a/c/d/e/", "index/", "index/acme",
		"index/acme/", "tile/0/0", "zz", "none/", "index/é"} {
		var expected []string
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if strings.HasPrefix(name, prefix) {
				expected = append(expected, name)
			}
		}
		want(t, Names(t, s, prefix), strings.Join(expected, " "))
	}
	for info, err := range s.List(t.Context(), "") {
		must(t, err)
		if info.Size != int64(len(texts[info.Name])) || info.ETag == "" || info.Modified.IsZero() {
			t.Errorf("%+v", info)
		}
	}
	for range s.List(t.Context(), "a/") { // may end early
		break
	}
}

// refuses checks the limits of names and sizes.
func refuses(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".", "a/./b", "a\\b", "a:b", "aux",
		"a\x00", "a.", "\xff", strings.Repeat("a/", 250) + "b", ".rye-tmp-write-x"} {
		refused(t, fault.Validation, s.Create(ctx, name, strings.NewReader(""), 0))
		refused(t, fault.Validation, s.Replace(ctx, name, nil))
		refused(t, fault.Validation, s.Remove(ctx, name))
		_, err := s.Open(ctx, name)
		refused(t, fault.Validation, err)
	}
	for _, prefix := range []string{"/", "/a", "a//b", "../a", "a/../b", "./", "a/./"} {
		for _, err := range s.List(ctx, prefix) {
			refused(t, fault.Validation, err)
		}
		if Count(s.List(ctx, prefix)) != 1 {
			t.Errorf("the prefix %q lists files", prefix)
		}
	}
	refused(t, fault.Validation, s.Create(ctx, "a", strings.NewReader(""), -1))
	refused(t, fault.Limit, s.Create(ctx, "a", iotest.ErrReader(errors.New("read")), blobs.MaxSize+1))
	refused(t, fault.Limit, s.Replace(ctx, "a", make([]byte, blobs.MaxReplace+1)))
	longest := strings.Repeat("a/", 249) + "bc"
	Create(t, s, longest, "x")
	want(t, Names(t, s, ""), longest)
}

// Count returns how many pairs a sequence has.
func Count[K, V any](all func(func(K, V) bool)) (n int) {
	all(func(K, V) bool { n++; return true })
	return n
}

// large checks a file that no store keeps in memory.
func large(t *testing.T, open Open) {
	s := open(t)
	const size = 24<<20 + 7
	must(t, s.Create(t.Context(), "large", pattern(size), size))
	f, err := open(t).Open(t.Context(), "large")
	must(t, err)
	defer f.Close()
	whole, err := io.ReadAll(f)
	must(t, err)
	expected, err := io.ReadAll(pattern(size))
	must(t, err)
	if !bytes.Equal(whole, expected) {
		t.Errorf("%d bytes, not the same", len(whole))
	}
	for _, at := range []int64{size - 100, 17 << 20, 3} {
		_, err := f.Seek(at, io.SeekStart)
		must(t, err)
		b := make([]byte, 100)
		_, err = io.ReadFull(f, b)
		must(t, err)
		if !bytes.Equal(b, expected[at:at+100]) {
			t.Errorf("other bytes at %d", at)
		}
	}
}

// pattern returns a reader of bytes that differ between places.
func pattern(size int64) io.Reader {
	n := 0
	return io.LimitReader(readFunc(func(b []byte) (int, error) {
		for i := range b {
			b[i] = byte(n * 2654435761 >> 13)
			n++
		}
		return len(b), nil
	}), size)
}

// A readFunc is a reader.
type readFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// cancelled checks that nothing happens for a caller who has gone.
func cancelled(t *testing.T, open Open) {
	s := open(t)
	Create(t, s, "a", "a")
	over, cancel := context.WithCancel(t.Context())
	// Cancelled in the middle of a file.
	read := 0
	err := s.Create(over, "b", readFunc(func(b []byte) (int, error) {
		if read += len(b); read > 100_000 {
			cancel()
		}
		return len(b), nil
	}), 1<<20)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("in the middle: %v", err)
	}
	_, opened := s.Open(over, "a")
	var list error
	for _, list = range s.List(over, "") {
	}
	for name, err := range map[string]error{
		"create": s.Create(over, "c", strings.NewReader(""), 0), "replace": s.Replace(over, "a", nil),
		"remove": s.Remove(over, "a"), "open": opened, "list": list,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	want(t, Names(t, s, ""), "a")
	want(t, Read(t, s, "a"), "a")
}
