package vendor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// attributes is what .gitattributes says: no line end is changed, packs are merged by lines, and diffs leave both out.
const (
	attributesName = ".gitattributes"
	attributes     = "* -text -diff linguist-generated\n*.pack merge=union\n"
)

// unfinished begins the name of what is being written.
const unfinished = ".rye-tmp-"

// files are the files of a directory, below which everything stays.
type files struct{ osfile.In }

// openFiles opens a directory that is one itself.
func openFiles(dir string) (*files, error) {
	before, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// Only then is it known what was opened.
	if after, err := root.Stat("."); err != nil || !before.IsDir() || !os.SameFile(before, after) {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: dir, Err: errLink}, root.Close())
	}
	return &files{osfile.In{Root: root}}, nil
}

// A listing is what is in the directory. Names are sorted.
type listing struct {
	packs      []string
	large      []string
	unfinished []string
	others     []string // what isn't ours; directories with a "/" behind them
}

func (f *files) list() (*listing, error) {
	d, err := f.Root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	l := new(listing)
	for _, e := range entries {
		name := e.Name()
		_, isPack := packPrefix(name)
		_, isLarge := parseLarge(name)
		switch {
		case e.IsDir():
			l.others = append(l.others, name+"/")
		case !e.Type().IsRegular():
			l.others = append(l.others, name)
		case isPack:
			l.packs = append(l.packs, name)
		case isLarge:
			l.large = append(l.large, name)
		case strings.HasPrefix(name, unfinished):
			l.unfinished = append(l.unfinished, name)
		case name != attributesName:
			l.others = append(l.others, name)
		}
	}
	for _, names := range [][]string{l.packs, l.large, l.unfinished, l.others} {
		slices.Sort(names)
	}
	return l, nil
}

// open opens a regular file, and no link to one. It doesn't wait for the writer of a FIFO.
func (f *files) open(name string) (*os.File, fs.FileInfo, error) {
	for range tries {
		r, info, err := f.openOnce(name)
		if r != nil || err != nil {
			return r, info, err
		}
	}
	return nil, nil, &Error{name, 0, 0, errors.New("is replaced again and again")}
}

// tries is how often a file is opened that is another one each time.
const tries = 20

// openOnce returns no file and no error if another process has replaced it meanwhile.
func (f *files) openOnce(name string) (*os.File, fs.FileInfo, error) {
	before, err := f.Root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, &Error{name, 0, 0, errIrregular}
	}
	r, err := f.Root.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := r.Stat()
	// Only then is it known what was opened.
	if err != nil || !os.SameFile(before, info) {
		return nil, nil, errors.Join(err, r.Close())
	}
	return r, info, nil
}

// readPack reads a pack that was opened, into the memory of b if it fits.
func readPack(name string, r io.Reader, info fs.FileInfo, b []byte) ([]byte, error) {
	if info.Size() > maxPack {
		return nil, &Error{name, 0, 0, errLarge}
	}
	if int64(cap(b)) <= info.Size() {
		b = make([]byte, info.Size()+1)
	}
	b = b[:info.Size()+1]
	n, err := io.ReadFull(r, b)
	if err == nil {
		err = &Error{name, 0, 0, errors.New("the file grew while it was read")}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b[:n], err
}

// readFile returns the bytes of a pack, or of what is as short.
func (f *files) readFile(name string) ([]byte, error) {
	r, info, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readPack(name, r, info, nil)
}

// makeDirectory makes a directory, so that it lasts. What is above it is there.
func makeDirectory(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return osfile.SyncDirectory(filepath.Dir(dir))
}

// syncsAtOnce is how many files are worked on at once: a disk takes many syncs almost as fast as one.
const syncsAtOnce = 8

// isOurs reports whether an error is about what a file is or says, and not about reading it.
func isOurs(err error) bool {
	_, ours := errors.AsType[*Error](err)
	_, damaged := errors.AsType[*cas.DamagedError](err)
	return ours || damaged
}

// hasAttributes reports whether .gitattributes is as it should be.
func (f *files) hasAttributes() (bool, error) {
	b, err := f.readFile(attributesName)
	if isOurs(err) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return string(b) == attributes, err
}

// hashFile compares the file of a large object with its name.
func (f *files) hashFile(id cas.ID, name string) (int64, error) {
	r, info, err := f.open(name)
	if err != nil {
		return 0, err
	}
	o := cas.Verify(cas.Info{ID: id, Size: info.Size()}, r)
	defer o.Close()
	n, err := io.Copy(io.Discard, o)
	return n, err
}
