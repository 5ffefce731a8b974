package disk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// The test binary is its own helper: with this variable set it is a process at work on a store.
const childVar = "RYE_DISK_TEST_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childVar); what != "" {
		if err := child(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start runs a child: its kind, the store and a seed.
func start(t testing.TB, kind, dir string, seed int) (*exec.Cmd, *bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	c := exec.Command(exe)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", childVar, kind, seed, dir))
	stderr := new(bytes.Buffer)
	c.Stderr = stderr
	_, err = c.StdinPipe() // open until the child ends
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	return c, bufio.NewScanner(out), stderr
}

func child(what string) error {
	f := strings.SplitN(what, " ", 3)
	seed, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	s, err := Open(f[2], Options{Create: f[0] != "read", ReadOnly: f[0] == "read", Wait: time.Minute})
	if err != nil {
		return err
	}
	defer s.Close()
	s.packObjects, s.fanout, s.files.lazy = 24, 3, true
	switch f[0] {
	case "read":
		return errors.Join(clean(s), childReads(s))
	case "live":
		return childLives(s, seed)
	case "put":
		return childPuts(s, seed)
	case "gc":
		return childCollects(s)
	case "fsck":
		for range 5 {
			if err := clean(s); err != nil {
				return err
			}
		}
		return nil
	case "hold":
		b, err := s.Batch(context.Background())
		if err != nil {
			return err
		}
		fmt.Println("held")
		io.Copy(io.Discard, os.Stdin) // until it is killed
		return b.Close()
	}
	return fmt.Errorf("no such child: %q", f[0])
}

// childReads reads all there is.
func childReads(s *Store) error {
	ctx := context.Background()
	for i, err := range s.List(ctx) {
		if err != nil {
			return err
		}
		o, err := s.Get(ctx, i.ID)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, o)
		if err = errors.Join(err, o.Close()); err != nil {
			return err
		}
	}
	return nil
}

// content is the blob with a number, the same in every process.
func content(n int) []byte {
	if n%16 == 0 {
		return noise(uint64(n), 270<<10)
	}
	return text(uint64(n), 20+n%3000)
}

// childLives puts, names, collects and merges until it is killed, and says what it has done.
func childLives(s *Store, seed int) error {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	for {
		n := r.IntN(400)
		switch r.IntN(8) {
		case 0:
			if _, err := s.GC(ctx, GCOptions{}); err != nil {
				return err
			}
		case 1:
			if _, err := s.Repack(ctx); err != nil {
				return err
			}
		case 2:
			name := fmt.Sprintf("n%d", r.IntN(20))
			fmt.Println("unset", name)
			if err := s.PutRef(ctx, name, cas.ID{}); err != nil {
				return err
			}
			fmt.Println("done", name)
		default:
			b, err := s.Batch(ctx)
			if err != nil {
				return err
			}
			i, err := b.Put(ctx, cas.Blob, bytes.NewReader(content(n)))
			if err == nil {
				err = b.Commit(ctx)
			}
			if err != nil {
				return err
			}
			name := fmt.Sprintf("n%d", r.IntN(20))
			fmt.Println("set", name, n)
			if err := s.PutRef(ctx, name, i.ID); err != nil {
				return err
			}
			fmt.Println("done", name)
			if err := b.Close(); err != nil {
				return err
			}
		}
	}
}

// TestKill kills a process at work, again and again. After each time the store is clean, every ref is what was
// acknowledged last, or what was asked for after that, and its object is there.
func TestKill(t *testing.T) {
	dir := ramDir(t)
	r := rand.New(rand.NewPCG(7, 7))
	refs := make(map[string]int) // to the number of the content; -1 is unset
	for round := range 60 / (1 + sample/8) {
		c, lines, stderr := start(t, "live", dir, round)
		maybe := make(map[string]int)
		for left := r.IntN(60); left > 0 && lines.Scan(); left-- {
			follow(refs, maybe, lines.Text())
		}
		must(t, c.Process.Kill())
		for lines.Scan() {
			follow(refs, maybe, lines.Text())
		}
		if err := c.Wait(); err == nil || stderr.Len() > 0 {
			t.Fatalf("round %d: the process ended by itself: %v %s", round, err, stderr)
		}
		s, err := open(dir, Options{})
		must(t, err)
		if err := agrees(s, refs, maybe); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := clean(s); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		must(t, s.Close())
	}
	s, err := open(dir, Options{})
	must(t, err)
	defer s.Close()
	_, err = s.GC(t.Context(), GCOptions{})
	must(t, err)
	must(t, swept(dir))
	must(t, agrees(s, refs, nil))
}

// follow notes what a child said: that it is about to change a ref, or that it has.
func follow(refs, maybe map[string]int, line string) {
	f := strings.Fields(line)
	switch f[0] {
	case "unset":
		maybe[f[1]] = -1
	case "set":
		n, _ := strconv.Atoi(f[2])
		maybe[f[1]] = n
	case "done":
		refs[f[1]] = maybe[f[1]]
		delete(maybe, f[1])
	}
}

// agrees compares the refs of a store with what is known, and enters what was not.
func agrees(s *Store, refs, maybe map[string]int) error {
	ctx := context.Background()
	for i := range 20 {
		name := fmt.Sprintf("n%d", i)
		got, err := s.Ref(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		is := func(n int) bool {
			if n < 0 {
				return err != nil
			}
			return err == nil && got.Digest == cas.Sum(content(n))
		}
		known, ok := refs[name]
		if !ok {
			known = -1
		}
		asked, ok := maybe[name]
		if ok && is(asked) {
			refs[name] = asked
		} else if !is(known) {
			return fmt.Errorf("the ref %s is %v; acknowledged was %d, asked for %d", name, got, known, asked)
		}
		if err != nil {
			continue
		}
		o, err := s.Get(ctx, got)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, o)
		o.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// childPuts puts trees of files that other children put, too, and names the trees.
func childPuts(s *Store, seed int) error {
	w := &run{Store: s, w: newWorld()}
	for round := range 4 {
		var blobs [][]byte
		for i := range 6 {
			blobs = append(blobs, content(1000+(seed*3+round*5+i)%60))
		}
		if err := w.put(fmt.Sprintf("p%d/%d", seed, round), blobs...); err != nil {
			return err
		}
		if round%2 == 1 {
			if err := w.ref(fmt.Sprintf("p%d/%d", seed, round-1), cas.ID{}); err != nil {
				return err
			}
		}
	}
	w.w.drop()
	return w.w.readable(s) // to gc at work some of it may still count as missing
}

func childCollects(s *Store) error {
	for range 6 {
		if _, err := s.GC(context.Background(), GCOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// TestFiftyProcesses lets fifty processes put what overlaps, beside two that collect garbage without grace and one
// that checks the store all the while.
func TestFiftyProcesses(t *testing.T) {
	dir := ramDir(t)
	s, err := open(dir, Options{})
	must(t, err)
	defer s.Close()
	kinds := []string{"gc", "gc", "fsck"}
	for range 50 {
		kinds = append(kinds, "put")
	}
	var wg sync.WaitGroup
	for i, kind := range kinds {
		c, lines, stderr := start(t, kind, dir, i)
		wg.Go(func() {
			for lines.Scan() {
			}
			if err := c.Wait(); err != nil {
				t.Errorf("%s %d: %v: %s", kind, i, err, stderr)
			}
		})
	}
	wg.Wait()
	must(t, clean(s))
	refs, err := s.Refs()
	must(t, err)
	if len(refs) != 50*2 {
		t.Errorf("%d refs", len(refs))
	}
	for _, r := range refs {
		if err := cas.Walk(t.Context(), s, r.ID, func(string, cas.Entry) error { return nil }); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	_, err = s.GC(t.Context(), GCOptions{})
	must(t, err)
	must(t, swept(dir))
	must(t, clean(s))
}

// A process that is stopped still holds its lease; one that was killed does not.
func TestStoppedWriter(t *testing.T) {
	dir := ramDir(t)
	s, err := open(dir, Options{Wait: 50 * time.Millisecond})
	must(t, err)
	defer s.Close()
	_, err = s.Put(t.Context(), cas.Blob, strings.NewReader("garbage"))
	must(t, err)
	c, lines, _ := start(t, "hold", dir, 0)
	if !lines.Scan() || lines.Text() != "held" {
		t.Fatal("the child holds nothing")
	}
	must(t, stopProcess(c.Process))
	_, err = s.GC(t.Context(), GCOptions{})
	if busy, _ := fault.Find(err); busy == nil || busy.Code != fault.Busy || busy.Details["path"] != s.dir ||
		!strings.Contains(err.Error(), strconv.Itoa(c.Process.Pid)) {
		t.Errorf("gc beside a stopped writer: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	must(t, c.Process.Kill())
	c.Wait()
	r, err := s.GC(t.Context(), GCOptions{})
	if err != nil || r.Removed != 1 {
		t.Errorf("gc after a killed writer: %+v, %v", r, err)
	}
	must(t, swept(dir))
}
