package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// A word counts for its name.
type word struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// words are a total: the last number of each name, which may only rise by one.
type words struct{ last map[string]int }

func (w *words) Take(b []byte) error {
	var r word
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	if was, ok := w.last[r.Name]; ok && r.N != was+1 || r.Name == "" {
		return errors.New("a number is left out")
	}
	w.last[r.Name] = r.N
	return nil
}

func (w *words) Records() (all [][]byte) {
	for name, n := range w.last {
		b, _ := json.Marshal(word{name, n})
		all = append(all, b)
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}

func openBook(t testing.TB, path string) *Book[*words] {
	b := &Book[*words]{Path: path, Format: "rye words", Empty: func() *words { return &words{map[string]int{}} }}
	if t != nil {
		t.Cleanup(func() { b.Close() })
	}
	return b
}

// say counts a name on.
func say(b *Book[*words], name string) (n int, err error) {
	err = b.Change(context.Background(), func(w *words) ([]any, error) {
		n = w.last[name] + 1
		return []any{word{name, n}}, nil
	})
	return n, err
}

func last(t testing.TB, path string) map[string]int {
	t.Helper()
	var all map[string]int
	must(t, openBook(t, path).View(func(w *words) error { all = w.last; return nil }))
	return all
}

// child counts its name on for ever, and says how far it is.
func child(path, name string) {
	b := openBook(nil, path)
	for {
		n, err := say(b, name)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// TestKilled: of processes that are killed while they write, everything is there that was durable, and others go on.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "words")
	self, err := os.Executable()
	must(t, err)
	var group sync.WaitGroup
	var mu sync.Mutex
	said := map[string]string{}
	for i := range 12 {
		name := fmt.Sprint("child", i)
		c := exec.Command(self)
		c.Env = []string{"RYE_TEST_BOOK=" + path, "RYE_TEST_NAME=" + name}
		out, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		group.Go(func() {
			lines := bufio.NewScanner(out)
			for n := 0; lines.Scan(); n++ {
				mu.Lock()
				said[name] = lines.Text()
				mu.Unlock()
				if n == 5+3*i {
					c.Process.Kill()
				}
			}
			c.Wait()
		})
	}
	group.Wait()
	all := last(t, path)
	for i := range 12 {
		name := fmt.Sprint("child", i)
		if n := fmt.Sprint(all[name]); len(said[name]) > len(n) || len(said[name]) == len(n) && said[name] > n ||
			all[name] < 5 {
			t.Errorf("%s said %q, %s is there", name, said[name], n)
		}
	}
	if _, err := say(openBook(t, path), "after"); err != nil {
		t.Error(err)
	}
}

// TestFaults: whichever change of a file fails, with nothing, half or all of it done: what was acknowledged is there,
// and the next change works, in the same Book and in another.
func TestBookFaults(t *testing.T) {
	for _, mode := range []string{"fails", "torn", "dies"} {
		for fail := 0; ; fail++ {
			path := filepath.Join(t.TempDir(), "state", "words")
			b := openBook(t, path)
			at, failed := 0, false
			b.Hook = func(op, file string, text []byte) error {
				if at++; at-1 < fail || failed && (mode != "dies" || op != "truncate") {
					return nil
				}
				failed = true
				if op == "write" && mode != "fails" {
					must(t, tear(file, text))
				}
				return errors.New("broken")
			}
			acknowledged := 0
			for range 3 {
				if n, err := say(b, "x"); err == nil {
					acknowledged = n
				}
			}
			b.Hook = nil
			n, err := say(b, "x")
			if err != nil || n <= acknowledged {
				t.Fatalf("%s at %d: %d after %d, %v", mode, fail, n, acknowledged, err)
			}
			m, err := say(openBook(t, path), "x")
			if err != nil || m != n+1 || last(t, path)["x"] != m {
				t.Fatalf("%s at %d: %d after %d, %v", mode, fail, m, n, err)
			}
			if !failed {
				break
			}
		}
	}
}

// tear writes half of what was to be added.
func tear(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(text[:len(text)/2])
	return err
}

// TestTogether: changes of many goroutines and Books are all there, and share their syncs.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	a, b := openBook(t, path), openBook(t, path)
	var mu sync.Mutex
	syncs := 0
	a.Hook = func(op, file string, _ []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "sync" && file == path {
			syncs++
		}
		return nil
	}
	var group sync.WaitGroup
	for i := range 400 {
		to := a
		if i%40 == 0 {
			to = b
		}
		group.Go(func() {
			if _, err := say(to, fmt.Sprint("n", i%20)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for name, n := range last(t, path) {
		if n != 20 {
			t.Errorf("%s: %d", name, n)
		}
	}
	if syncs >= 360 {
		t.Errorf("%d syncs", syncs)
	}
}

// TestRefused: an error of decide is returned as it is and writes nothing, with or without other changes beside it.
func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	b := openBook(t, path)
	no := errors.New("no")
	if err := b.Change(t.Context(), func(*words) ([]any, error) { return nil, no }); err != no {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a book of nothing: %v", err)
	}
	_, err := say(b, "x")
	must(t, err)
	must(t, b.Change(t.Context(), func(*words) ([]any, error) { return nil, nil }))
	for _, bad := range []any{word{"x", 9}, func() {}, word{strings.Repeat("x", 70_000), 1}} {
		if err := b.Change(t.Context(), func(*words) ([]any, error) {
			return []any{word{"y", 1}, bad}, nil
		}); err == nil {
			t.Errorf("%T is taken", bad)
		}
	}
	if all := last(t, path); len(all) != 1 || all["x"] != 1 {
		t.Error(all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Change(ctx, func(*words) ([]any, error) { return []any{word{"x", 2}}, nil }); err == nil {
		t.Error("written for a caller that is gone")
	}
}

// TestDamage: lines that were changed, left out or moved, another file, a newer format, and a book that is gone.
func TestBookDamage(t *testing.T) {
	edit := func(f func([][]byte) [][]byte) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Join(f(bytes.SplitAfter(b, []byte("\n"))), nil) }
	}
	for name, change := range map[string]func([]byte) []byte{
		"changed":  func(b []byte) []byte { return bytes.Replace(b, []byte(`"n":2`), []byte(`"n":7`), 1) },
		"left out": edit(func(l [][]byte) [][]byte { return slices.Delete(l, 1, 2) }),
		"moved":    edit(func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l }),
		"twice":    edit(func(l [][]byte) [][]byte { return slices.Insert(l, 2, l[1]) }),
		"other":    func([]byte) []byte { return []byte("hello\n") },
		"empty":    func([]byte) []byte { return nil },
		"newer":    func(b []byte) []byte { return bytes.Replace(b, []byte("words/1"), []byte("words/2"), 1) },
		"gone":     nil,
	} {
		path := filepath.Join(t.TempDir(), "words")
		b := openBook(t, path)
		for range 3 {
			_, err := say(b, "x")
			must(t, err)
		}
		text, err := os.ReadFile(path)
		must(t, err)
		if must(t, os.Remove(path)); change != nil {
			must(t, os.WriteFile(path, change(text), 0o600))
		}
		want := fault.Integrity
		if name == "newer" {
			want = fault.VersionMismatch
		}
		err = openBook(t, path).View(func(*words) error { return nil })
		_, bad := say(openBook(t, path), "x")
		if fault.CodeOf(err) != want || fault.CodeOf(bad) != want {
			t.Errorf("%s: %v, %v", name, err, bad)
		}
		if _, own := errors.AsType[*DamagedError](err); own != (want == fault.Integrity) {
			t.Errorf("%s: %v", name, err)
		}
		if hint := strings.Join(fault.Of(err).Hint, " "); strings.HasPrefix(hint,
			"mv "+filepath.Dir(path)) != (want == fault.Integrity) {
			t.Errorf("%s: no way out: %q", name, hint)
		}
	}
}

// TestTakenBack: a line that was read before it was durable, and was taken back, is forgotten.
func TestTakenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words")
	a, b := openBook(t, path), openBook(t, path)
	_, err := say(a, "x")
	must(t, err)
	text, err := os.ReadFile(path)
	must(t, err)
	_, err = say(a, "x")
	must(t, err)
	must(t, b.View(func(w *words) error {
		if w.last["x"] != 2 {
			t.Errorf("%v", w.last)
		}
		return nil
	}))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	must(t, errors.Join(f.Truncate(int64(len(text))), f.Close()))
	if n, err := say(openBook(t, path), "y"); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := say(b, "x"); n != 2 || err != nil {
		t.Error(n, err)
	}
}

// counted counts how often the records of a total are asked for.
type counted struct {
	*words
	made *int
}

func (c counted) Records() [][]byte {
	*c.made++
	return c.words.Records()
}

// sized is a total that knows its size.
type sized struct {
	counted
	size *int64
}

func (s sized) Size() int64 { return *s.size }

// TestCompactsSized: a total that says that its records are long isn't asked for them. A process that writes once to a
// large book would need several times its memory.
func TestCompactsSized(t *testing.T) {
	made, size := 0, int64(1<<30)
	b := &Book[sized]{Path: filepath.Join(t.TempDir(), "words"), Format: "rye words",
		Empty: func() sized { return sized{counted{&words{map[string]int{}}, &made}, &size} }}
	defer b.Close()
	add := func(n int) {
		must(t, b.Change(t.Context(), func(sized) (all []any, err error) {
			for i := range 6_000 {
				all = append(all, word{fmt.Sprint("a", i), n})
			}
			return all, nil
		}))
	}
	for n := range 3 {
		add(n + 1)
	}
	if made != 0 {
		t.Errorf("%d compact books", made)
	}
	size = 1
	if add(4); made != 1 {
		t.Errorf("%d compact books", made)
	}
}

// TestCompactsSeldom: a large book without superfluous records is compared with a compact one once, and not at each
// change. The book of a registry has all of its versions, and each publish would write them all.
func TestCompactsSeldom(t *testing.T) {
	made := 0
	path := filepath.Join(t.TempDir(), "words")
	b := &Book[counted]{Path: path, Format: "rye words",
		Empty: func() counted { return counted{&words{map[string]int{}}, &made} }}
	defer b.Close()
	add := func(prefix string, count, n int) {
		must(t, b.Change(t.Context(), func(counted) (all []any, err error) {
			for i := range count {
				all = append(all, word{fmt.Sprint(prefix, i), n})
			}
			return all, nil
		}))
	}
	add("a", 6_000, 1)
	for i := range 20 {
		add(fmt.Sprint("b", i), 1, 1)
	}
	if made != 1 {
		t.Errorf("compact books were made %d times in 20 changes", made)
	}
	info, err := os.Stat(path)
	must(t, err)
	for n := 2; ; n++ { // superfluous records still end in a compact book
		add("a", 6_000, n)
		now, err := os.Stat(path)
		must(t, err)
		if now.Size() < 2*info.Size() && n > 2 {
			break
		}
		if n > 6 {
			t.Fatalf("%d bytes, and no compact book", now.Size())
		}
	}
	if made > 4 || last(t, path)["a7"] < 3 {
		t.Errorf("%d compact books, %v", made, last(t, path)["a7"])
	}
}
