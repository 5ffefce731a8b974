package key_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

func word(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", ".ai", "keys")
	d := key.OpenDir(path).Cheap()
	if list, err := d.List(); err != nil || list != nil {
		t.Fatalf("nothing is %v, %v", list, err)
	}
	if name, err := d.Default(); name != "default" || err != nil {
		t.Errorf("default is %q, %v", name, err)
	}
	for _, err := range []error{d.Remove("a"), d.SetDefault("a"), second(d.Public("a")), second(d.Private("a", nil))} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of nothing: %v", err)
		}
	}
	p, q := private(t, 0), private(t, 1)
	if err := errors.Join(d.Add("default", p, ""), d.Add("ci-2_x", q, "secret")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default", "ci-2_x"} {
		if err := d.Add(name, private(t, 2), ""); !errors.Is(err, fs.ErrExist) {
			t.Errorf("added %q twice: %v", name, err)
		}
	}
	list, err := d.List()
	want := []key.Entry{{Name: "ci-2_x", Public: q.Public(), Locked: true}, {Name: "default", Public: p.Public()}}
	if err != nil || len(list) != 2 || list[0] != want[0] || list[1] != want[1] {
		t.Errorf("list is %v, %v", list, err)
	}
	if got, err := d.Private("default", nil); err != nil || got.Public() != p.Public() {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := d.Private("ci-2_x", word("secret")); err != nil || got.Public() != q.Public() {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := d.Private("ci-2_x", word("sekret")); fault.CodeOf(err) != fault.AuthFailed {
		t.Errorf("wrong passphrase: %v", err)
	}
	if _, err := d.Private("ci-2_x", nil); !errors.Is(err, key.ErrLocked) {
		t.Errorf("no passphrase: %v", err)
	}
	if pub, err := d.Public("ci-2_x"); err != nil || pub != q.Public() {
		t.Errorf("%v, %v", pub, err)
	}
	if err := d.SetDefault("ci-2_x"); err != nil {
		t.Error(err)
	}
	if name, err := d.Default(); name != "ci-2_x" || err != nil {
		t.Errorf("default is %q, %v", name, err)
	}
	if err := d.SetDefault("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := d.Remove("default"); err != nil {
		t.Error(err)
	}
	if list, err := d.List(); err != nil || len(list) != 1 || list[0] != want[0] {
		t.Errorf("list is %v, %v", list, err)
	}
	names, err := os.ReadDir(path)
	if err != nil || len(names) != 3 {
		t.Errorf("left %v, %v", names, err)
	}
}

func second[T any](_ T, err error) error { return err }

// What rye 1 left is a key, whether or not its public half is there.
func TestDirOfV1(t *testing.T) {
	path := t.TempDir()
	write(t, path, "", 0o700)
	c := load(t).Good[0]
	write(t, filepath.Join(path, "private_key.pem"), c.Private, 0o600)
	d := key.OpenDir(path)
	for range 2 {
		list, err := d.List()
		if err != nil || len(list) != 1 || list[0].Name != "default" || list[0].Public.String() != c.Text ||
			list[0].Err != nil {
			t.Errorf("%v, %v", list, err)
		}
		if pub, err := d.Public("default"); err != nil || pub.V1ID() != c.V1 {
			t.Errorf("%v, %v", pub, err)
		}
		write(t, filepath.Join(path, "public_key.pem"), c.Public, 0o644)
	}
}

// write makes a file, or a directory if there is no content, with exactly this mode.
func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	var err error
	if content != "" {
		os.Remove(path)
		err = os.WriteFile(path, []byte(content), mode)
	}
	if err = errors.Join(err, os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func TestDirNames(t *testing.T) {
	d := key.OpenDir(filepath.Join(t.TempDir(), "keys"))
	for _, bad := range []string{"", "A", "a.b", "a/b", "../a", ".", "-a", "_a", "a b", "ä", "con", "nul", "com1",
		"a\x00",
		"a123456789012345678901234567890123456789012345678901234567890123456789"} {
		for _, err := range []error{key.CheckName(bad), d.Add(bad, private(t, 0), ""), d.Remove(bad),
			d.SetDefault(bad),
			second(d.Public(bad)), second(d.Private(bad, nil))} {
			if err == nil || fault.CodeOf(err) != fault.Validation {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir("keys"), "keys")); err == nil {
		t.Error("a bad name made something")
	}
}

// What isn't a key in a directory of keys is shown as such, or not at all, and never used.
func TestDirDamaged(t *testing.T) {
	v := load(t)
	d, path := newDir(t)
	p, q := v.Good[0], v.Good[1]
	locked, err := private(t, 0).LockCheaply("x")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty.private.pem": " ", "huge.private.pem": string(make([]byte, 17<<10)), "public.private.pem": p.Public,
		"pair.private.pem": p.Private, "pair.public.pem": q.Public,
		"half.private.pem": p.Private, "half.public.pem": "rubbish",
		"locked.private.pem": string(locked), "locked.public.pem": q.Public,
		"lone.public.pem": p.Public, "Bad.private.pem": p.Private, "default.private.pem": p.Private,
		".new-XYZ": p.Private, "notes.txt": "hello",
	} {
		write(t, filepath.Join(path, name), content, 0o600)
	}
	list, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]bool{"empty": true, "huge": true, "public": true, "pair": true, "half": true, "locked": false}
	if len(list) != len(bad) {
		t.Errorf("list is %v", list)
	}
	for _, e := range list {
		if want, ok := bad[e.Name]; !ok || want != (e.Err != nil) || want && !e.Public.IsZero() {
			t.Errorf("%+v", e)
		}
		// That the halves of a locked key don't belong together shows when it is opened.
		if p, err := d.Private(e.Name, word("x")); err == nil {
			t.Errorf("%s opened as %v", e.Name, p)
		}
	}
	write(t, filepath.Join(path, "default"), "../../etc\n", 0o600)
	if name, err := d.Default(); err == nil {
		t.Errorf("default is %q", name)
	}
}

func newDir(t *testing.T) (key.Dir, string) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return key.OpenDir(path).Cheap(), path
}

// A locked key without its public half is listed as such and mended when it is opened.
func TestDirMends(t *testing.T) {
	d, path := newDir(t)
	p := private(t, 0)
	if err := d.Add("a", p, "x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, "a.public.pem")); err != nil {
		t.Fatal(err)
	}
	if list, err := d.List(); err != nil || len(list) != 1 || list[0] != (key.Entry{Name: "a", Locked: true}) {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := d.Public("a"); !errors.Is(err, key.ErrLocked) {
		t.Error(err)
	}
	if _, err := d.Private("a", word("x")); err != nil {
		t.Error(err)
	}
	if pub, err := d.Public("a"); err != nil || pub != p.Public() {
		t.Errorf("%v, %v", pub, err)
	}
}

// Of many who make one key at once, one wins, and what is there is that one's.
func TestDirRace(t *testing.T) {
	d, _ := newDir(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []key.Public
	for i := range 12 {
		wg.Go(func() {
			p := private(t, i%3)
			if err := d.Add("default", p, ""); err == nil {
				mu.Lock()
				won = append(won, p.Public())
				mu.Unlock()
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if p, err := d.Private("default", nil); len(won) != 1 || err != nil || p.Public() != won[0] {
		t.Errorf("%v won, there is %v, %v", won, p, err)
	}
}

// A key that is removed while the keys are listed is one of them, or isn't.
func TestDirRemovedMeanwhile(t *testing.T) {
	path := t.TempDir()
	kept := key.OpenDir(path)
	if err := errors.Join(os.Chmod(path, 0o700), kept.Add("kept", private(t, 0), "")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "kept.private.pem")
	gone := filepath.Join(path, "gone.private.pem")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(os.Link(file, gone), os.Remove(gone)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 2000 {
		list, err := kept.List()
		if err == nil && len(list) > 0 {
			err = list[0].Err
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	<-stopped
}
