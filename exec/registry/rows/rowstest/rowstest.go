// Package rowstest tests an implementation of rows.Store.
package rowstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/registry/rows"
)

// Open opens a store as another process would, and closes it when the test ends.
type Open func(testing.TB) rows.Store

// Test runs every check. make makes an empty world, and returns a function that opens its store.
func Test(t *testing.T, make func(t testing.TB) Open) {
	for name, check := range map[string]func(*testing.T, Open){
		"values": values, "scan": scan, "pages": pages, "undone": undone, "refused": refuses, "large": large,
		"counter": counter, "numbers": numbers, "skew": skew, "views": views, "cancelled": cancelled, "any": anyOrder,
	} {
		t.Run(name, func(t *testing.T) { check(t, make(t)) })
	}
}

var must, refused = journaltest.Must, journaltest.Refused

// Put writes rows: names and values in turn.
func Put(t testing.TB, s rows.Store, texts ...string) {
	t.Helper()
	must(t, s.Update(t.Context(), func(w rows.Writer) error {
		for i := 0; i < len(texts); i += 2 {
			w.Put(texts[i], []byte(texts[i+1]))
		}
		return nil
	}))
}

// All returns all rows as text, "name=value" for each, with spaces between.
func All(t testing.TB, s rows.Store) string {
	t.Helper()
	var text string
	must(t, s.View(t.Context(), func(r rows.Reader) (err error) {
		text, err = scanned(r, "", "")
		return err
	}))
	return text
}

func scanned(r rows.Reader, prefix, after string) (string, error) {
	var all []string
	for row, err := range r.Scan(prefix, after) {
		if err != nil {
			return "", err
		}
		all = append(all, row.Name+"="+string(row.Value))
	}
	return strings.Join(all, " "), nil
}

func want(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%.2000s\nwant\n%.2000s", got, want)
	}
}

// values checks what a row is: its last value, for all who have the store open, and after it is opened again.
func values(t *testing.T, open Open) {
	first, second := open(t), open(t)
	want(t, All(t, first), "")
	Put(t, first, "a/1", ` { "n" : 1, "text": "<é>" } `, "a/2", `{"n":2}`)
	must(t, second.Update(t.Context(), func(w rows.Writer) error {
		value, err := w.Get("a/1")
		if err != nil || string(value) != `{"n":1,"text":"\u003cé\u003e"}` {
			t.Errorf("%s, %v", value, err)
		}
		if value, err := w.Get("a/3"); value != nil || err != nil {
			t.Errorf("no such row: %s, %v", value, err)
		}
		w.Put("a/3", []byte(`{"n":3}`))
		w.Put("a/3", []byte(`{"n":4}`))
		w.Delete("a/2")
		w.Delete("none")
		three, err := w.Get("a/3")
		two, bad := w.Get("a/2")
		if string(three) != `{"n":4}` || two != nil || err != nil || bad != nil {
			t.Errorf("own writes: %s, %s, %v, %v", three, two, err, bad)
		}
		return nil
	}))
	for _, s := range []rows.Store{first, second, open(t)} {
		want(t, All(t, s), `a/1={"n":1,"text":"\u003cé\u003e"} a/3={"n":4}`)
	}
	// A row that was deleted and written in one update is there; one that was written and deleted is not.
	must(t, first.Update(t.Context(), func(w rows.Writer) error {
		w.Delete("a/1")
		w.Put("a/1", []byte(`{}`))
		w.Put("b", []byte(`{}`))
		w.Delete("b")
		return nil
	}))
	must(t, first.Close())
	want(t, All(t, open(t)), `a/1={} a/3={"n":4}`)
}

// scan checks order, prefixes, where a scan begins, and that it shows the update's own writes in their places.
func scan(t *testing.T, open Open) {
	s := open(t)
	names := []string{"B", "a", "a-b", "a.b", "a/", "a/b", "a/b/c", "a/c", "a0", "ab", "b", "{", "~"}
	for _, name := range []string{"b", "a/c", "~", "a", "ab", "a/b/c", "{", "a-b", "B", "a0", "a/", "a.b", "a/b"} {
		Put(t, s, name, `{}`)
	}
	check := func(r rows.Reader, names []string) {
		for _, prefix := range append([]string{"", "zz", "a/b/c/d"}, names...) {
			for _, after := range append([]string{"", "a/bb", "A"}, names...) {
				var expected []string
				for _, name := range names {
					if strings.HasPrefix(name, prefix) && name > after {
						expected = append(expected, name+"={}")
					}
				}
				got, err := scanned(r, prefix, after)
				if err != nil || got != strings.Join(expected, " ") {
					t.Errorf("prefix %q after %q: %s, %v, want %s", prefix, after, got, err, expected)
				}
			}
		}
	}
	must(t, s.View(t.Context(), func(r rows.Reader) error {
		check(r, names)
		for row := range r.Scan("a", "a") { // a scan may end early, and the next one still works
			if row.Name != "a-b" {
				t.Error(row.Name)
			}
			break
		}
		value, err := r.Get("a0")
		want(t, string(value), `{}`)
		return err
	}))
	must(t, s.Update(t.Context(), func(w rows.Writer) error {
		w.Delete("a/b")
		w.Delete("~")
		w.Put("a/b/c", []byte(`{}`))
		w.Put("!", []byte(`{}`))
		w.Put("a/bb", []byte(`{}`))
		w.Put("a/z", []byte(`{}`))
		check(w, []string{"!", "B", "a", "a-b", "a.b", "a/", "a/b/c", "a/bb", "a/c", "a/z", "a0", "ab", "b", "{"})
		// Rows that are written during a scan don't change it, and other reads work meanwhile.
		n := 0
		for row, err := range w.Scan("a/", "") {
			if err != nil {
				return err
			}
			w.Delete("a/c")
			w.Put(row.Name+"+", []byte(`{}`))
			if value, err := w.Get("B"); string(value) != `{}` || err != nil {
				t.Errorf("%s, %v", value, err)
			}
			n++
		}
		if n != 5 {
			t.Errorf("%d rows", n)
		}
		return nil
	}))
	must(t, s.View(t.Context(), func(r rows.Reader) error {
		got, err := scanned(r, "a/", "")
		want(t, got, "a/={} a/+={} a/b/c={} a/b/c+={} a/bb={} a/bb+={} a/c+={} a/z={} a/z+={}")
		return err
	}))
}

// pages checks scans of more rows than a store reads at once.
func pages(t *testing.T, open Open) {
	s := open(t)
	const n = 2_500
	name := func(i int) string { return fmt.Sprintf("n/%05d", i) }
	must(t, s.Update(t.Context(), func(w rows.Writer) error {
		for i := range n {
			w.Put(name((i*7919)%n), fmt.Appendf(nil, `{"n":%d}`, (i*7919)%n))
		}
		w.Put("o", []byte(`{}`))
		return nil
	}))
	must(t, open(t).Update(t.Context(), func(w rows.Writer) error {
		for i := range n {
			if i%3 == 0 {
				w.Delete(name(i))
			}
		}
		next := 1
		for row, err := range w.Scan("n/", name(0)) {
			if err != nil {
				return err
			}
			if row.Name != name(next) || string(row.Value) != fmt.Sprintf(`{"n":%d}`, next) {
				return fmt.Errorf("%s=%s instead of %d", row.Name, row.Value, next)
			}
			if next++; next%3 == 0 {
				next++
			}
		}
		if next != n {
			return fmt.Errorf("the scan ends before %d", next)
		}
		return nil
	}))
	if got := strings.Count(All(t, s), "n/"); got != n-(n+2)/3 {
		t.Errorf("%d rows", got)
	}
}

// undone checks that an update that ends with an error or a panic leaves nothing, and that its error is returned.
func undone(t *testing.T, open Open) {
	s, other := open(t), open(t)
	Put(t, s, "a", `{"n":1}`, "b", `{"n":2}`)
	before := All(t, s)
	no := errors.New("no")
	change := func(w rows.Writer) {
		w.Put("a", []byte(`{"n":9}`))
		w.Delete("b")
		w.Put("c", []byte(`{}`))
	}
	if err := s.Update(t.Context(), func(w rows.Writer) error { change(w); return no }); err != no {
		t.Error(err)
	}
	func() {
		defer func() {
			if got := recover(); got != no {
				t.Errorf("recovered %v", got)
			}
		}()
		s.Update(t.Context(), func(w rows.Writer) error { change(w); panic(no) })
		t.Error("a panic is lost")
	}()
	if err := s.View(t.Context(), func(rows.Reader) error { return no }); err != no {
		t.Error(err)
	}
	for _, s := range []rows.Store{s, other, open(t)} {
		want(t, All(t, s), before)
		Put(t, s, "a", `{"n":1}`)
	}
}

// refuses checks the limits of names and values: nothing of an update with an invalid write is stored.
func refuses(t *testing.T, open Open) {
	s := open(t)
	bad := []string{"", " ", "a b", "é", "a\x00", "a\n", "\x7f", strings.Repeat("a", rows.MaxName+1)}
	for _, name := range bad {
		refused(t, fault.Validation, s.Update(t.Context(), func(w rows.Writer) error {
			w.Put("good", []byte(`{}`))
			w.Put(name, []byte(`{}`))
			return nil
		}))
		refused(t, fault.Validation, s.Update(t.Context(), func(w rows.Writer) error { w.Delete(name); return nil }))
		refused(t, fault.Validation, s.View(t.Context(), func(r rows.Reader) error {
			_, err := r.Get(name)
			return err
		}))
		if name == "" {
			continue
		}
		for _, texts := range [][2]string{{name, ""}, {"", name}} {
			refused(t, fault.Validation, s.View(t.Context(), func(r rows.Reader) error {
				_, err := scanned(r, texts[0], texts[1])
				return err
			}))
		}
	}
	for value, code := range map[string]fault.Code{
		"": fault.Validation, "[]": fault.Validation, "1": fault.Validation, `{"a":1`: fault.Validation,
		"{} {}": fault.Validation, "null": fault.Validation, "{\"a\":\"\x01\"}": fault.Validation, large262144 + " ": "",
		strings.Replace(large262144, "a", "aa", 1): fault.Limit,
	} {
		err := s.Update(t.Context(), func(w rows.Writer) error {
			w.Put("value", []byte(value))
			w.Put("good", []byte(`{}`))
			return nil
		})
		if code == "" {
			must(t, err)
			Put(t, s, "value", `{}`)
			must(t, s.Update(t.Context(), func(w rows.Writer) error {
				w.Delete("value")
				w.Delete("good")
				return nil
			}))
		} else {
			refused(t, code, err)
		}
	}
	want(t, All(t, s), "")
}

// large262144 is the largest value.
var large262144 = `{"text":"` + strings.Repeat("a", rows.MaxValue-11) + `"}`

// large checks that large values and updates are whole.
func large(t *testing.T, open Open) {
	s := open(t)
	longest := strings.Repeat("<", rows.MaxName)
	random := rand.New(rand.NewPCG(1, 2))
	sizes := map[string]int{longest: rows.MaxValue - 11, longest[1:]: 57_000, "empty": 0}
	for i := range 60 {
		sizes[fmt.Sprint("n/", i)] = random.IntN(120_000)
	}
	values := map[string]string{}
	for name, size := range sizes {
		text := make([]byte, size)
		for i := range text {
			text[i] = "abcdefghijklmnopqrstuvwxyz0123456789-_.:"[random.IntN(40)]
		}
		values[name] = `{"text":"` + string(text) + `"}`
	}
	must(t, s.Update(t.Context(), func(w rows.Writer) error {
		for name, value := range values {
			w.Put(name, []byte(value))
		}
		return nil
	}))
	must(t, open(t).View(t.Context(), func(r rows.Reader) error {
		names := slices.Sorted(maps.Keys(values))
		for row, err := range r.Scan("", "") {
			if err != nil {
				return err
			}
			if row.Name != names[0] || string(row.Value) != values[row.Name] {
				t.Errorf("%.20s has %d bytes, want %.20s with %d", row.Name, len(row.Value), names[0],
					len(values[names[0]]))
			}
			names = names[1:]
		}
		if len(names) > 0 {
			t.Errorf("missing: %.20s", names)
		}
		return nil
	}))
}

// number is the number in a value.
func number(value []byte) (n int) {
	fmt.Sscanf(string(value), `{"n":%d}`, &n)
	return n
}

// counter checks that no increment of many goroutines and processes is lost.
func counter(t *testing.T, open Open) {
	const each, rounds = 4, 10
	var group sync.WaitGroup
	for range 2 {
		s := open(t)
		for range each {
			group.Go(func() {
				for range rounds {
					if err := s.Update(t.Context(), func(w rows.Writer) error {
						value, err := w.Get("n")
						w.Put("n", fmt.Appendf(nil, `{"n":%d}`, number(value)+1))
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	want(t, All(t, open(t)), fmt.Sprintf(`n={"n":%d}`, 2*each*rounds))
}

// numbers checks that each of many updates that take the next free name gets one of its own: what a scan has not
// shown, no concurrent update has written.
func numbers(t *testing.T, open Open) {
	const each, rounds = 3, 6
	var group sync.WaitGroup
	for range 2 {
		s := open(t)
		for range each {
			group.Go(func() {
				for range rounds {
					if err := s.Update(t.Context(), func(w rows.Writer) error {
						n := 0
						for _, err := range w.Scan("leaf/", "") {
							if err != nil {
								return err
							}
							n++
						}
						w.Put(fmt.Sprintf("leaf/%03d", n), []byte(`{}`))
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	var all []string
	for n := range 2 * each * rounds {
		all = append(all, fmt.Sprintf("leaf/%03d={}", n))
	}
	want(t, All(t, open(t)), strings.Join(all, " "))
}

// skew checks that two updates that each read both rows and write one of them have the result of one order: of two
// owners, one may leave, not both.
func skew(t *testing.T, open Open) {
	first, second := open(t), open(t)
	for range 25 {
		Put(t, first, "owner/a", `{"n":1}`, "owner/b", `{"n":1}`)
		var group sync.WaitGroup
		for i, s := range []rows.Store{first, second} {
			group.Go(func() {
				if err := s.Update(t.Context(), func(w rows.Writer) error {
					a, err := w.Get("owner/a")
					b, bad := w.Get("owner/b")
					if number(a)+number(b) == 2 {
						w.Put([]string{"owner/a", "owner/b"}[i], []byte(`{"n":0}`))
					}
					return errors.Join(err, bad)
				}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got := All(t, first); strings.Count(got, "1") != 1 {
			t.Fatalf("both left, or none: %s", got)
		}
	}
}

// views checks that a view never shows half of an update, whether it gets rows or scans them.
func views(t *testing.T, open Open) {
	s, other := open(t), open(t)
	Put(t, s, "a", `{"n":50}`, "b", `{"n":50}`)
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(done)
		for n := range 40 {
			if err := s.Update(t.Context(), func(w rows.Writer) error {
				w.Put("a", fmt.Appendf(nil, `{"n":%d}`, n))
				w.Put("b", fmt.Appendf(nil, `{"n":%d}`, 100-n))
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	})
	seen := 0
	for running := true; running || seen < 10; seen++ {
		select {
		case <-done:
			running = false
		default:
		}
		must(t, other.View(t.Context(), func(r rows.Reader) error {
			a, err := r.Get("a")
			sum := number(a)
			for row, err := range r.Scan("", "a") {
				if err != nil {
					return err
				}
				sum += number(row.Value)
			}
			again, bad := r.Get("a")
			if sum != 100 || !bytes.Equal(a, again) {
				t.Errorf("%d in total, %s and then %s", sum, a, again)
			}
			return errors.Join(err, bad)
		}))
	}
	group.Wait()
}

// cancelled checks that nothing happens for a caller who has gone.
func cancelled(t *testing.T, open Open) {
	s := open(t)
	Put(t, s, "a", `{}`)
	over, cancel := context.WithCancel(t.Context())
	put := func(w rows.Writer) error {
		cancel()
		w.Put("b", []byte(`{}`))
		return nil
	}
	if err := s.Update(over, put); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled by the change: %v", err)
	}
	called := false
	err := s.Update(over, func(rows.Writer) error { called = true; return nil })
	bad := s.View(over, func(rows.Reader) error { called = true; return nil })
	if !errors.Is(err, context.Canceled) || !errors.Is(bad, context.Canceled) || called {
		t.Errorf("%v, %v, %v", err, bad, called)
	}
	want(t, All(t, s), "a={}")
	want(t, All(t, open(t)), "a={}")
}

// anyOrder compares a store with a map, over random updates of two openers, and some fail.
func anyOrder(t *testing.T, open Open) {
	random := rand.New(rand.NewPCG(3, 4))
	stores := []rows.Store{open(t), open(t)}
	model := map[string]string{}
	no := errors.New("no")
	for n := range 60 {
		after := maps.Clone(model)
		err := stores[random.IntN(2)].Update(t.Context(), func(w rows.Writer) error {
			for range random.IntN(12) {
				name := fmt.Sprintf("%c/%d", 'a'+rune(random.IntN(3)), random.IntN(200))
				if random.IntN(3) == 0 {
					w.Delete(name)
					delete(after, name)
				} else {
					value := fmt.Sprintf(`{"n":%d}`, n)
					w.Put(name, []byte(value))
					after[name] = value
				}
			}
			text, err := scanned(w, "b/", "b/1")
			want(t, text, modelled(after, "b/", "b/1"))
			if err == nil && n%5 == 4 {
				err = no
			}
			return err
		})
		if n%5 == 4 && err == no {
			continue
		}
		must(t, err)
		model = after
	}
	for _, s := range append(stores, open(t)) {
		want(t, All(t, s), modelled(model, "", ""))
	}
}

func modelled(model map[string]string, prefix, after string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(model)) {
		if strings.HasPrefix(name, prefix) && name > after {
			all = append(all, name+"="+model[name])
		}
	}
	return strings.Join(all, " ")
}
