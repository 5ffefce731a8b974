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

// attributes is the content of .gitattributes: git changes no line ends, merges packs by lines, and leaves both out
// of diffs.
const (
	attributesName = ".gitattributes"
	attributes     = "* -text -diff linguist-generated\n*.pack merge=union\n"
)

// unfinished is the prefix of names of files that are being written.
const unfinished = ".rye-tmp-"

// files is a directory whose files are accessed without leaving it.
type files struct{ osfile.In }

// openFiles opens a directory that isn't a symbolic link.
func openFiles(dir string) (*files, error) {
	before, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// Check after opening that it is the same directory.
	if after, err := root.Stat("."); err != nil || !before.IsDir() || !os.SameFile(before, after) {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: dir, Err: errLink}, root.Close())
	}
	return &files{osfile.In{Root: root}}, nil
}

// A listing holds the names in the directory, sorted.
type listing struct {
	packs      []string
	large      []string
	proofs     []string
	unfinished []string
	others     []string // files of others; directories end in "/"
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
	listing := new(listing)
	for _, e := range entries {
		name := e.Name()
		_, isPack := packPrefix(name)
		_, isLarge := parseLarge(name)
		switch {
		case e.IsDir():
			listing.others = append(listing.others, name+"/")
		case !e.Type().IsRegular():
			listing.others = append(listing.others, name)
		case isPack:
			listing.packs = append(listing.packs, name)
		case isLarge:
			listing.large = append(listing.large, name)
		case isProof(name):
			listing.proofs = append(listing.proofs, name)
		case strings.HasPrefix(name, unfinished):
			listing.unfinished = append(listing.unfinished, name)
		case name != attributesName:
			listing.others = append(listing.others, name)
		}
	}
	for _, names := range [][]string{listing.packs, listing.large, listing.proofs, listing.unfinished,
		listing.others} {
		slices.Sort(names)
	}
	return listing, nil
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

// tries is how often to open a file that is replaced each time.
const tries = 20

// openOnce opens a file, or returns neither a file nor an error if another process has replaced it meanwhile.
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
	// Check after opening that it is the same file.
	if err != nil || !os.SameFile(before, info) {
		return nil, nil, errors.Join(err, r.Close())
	}
	return r, info, nil
}

// readPack reads an opened pack, into the memory of data if it fits.
func readPack(name string, r io.Reader, info fs.FileInfo, data []byte) ([]byte, error) {
	if info.Size() > maxPack {
		return nil, &Error{name, 0, 0, errLarge}
	}
	if int64(cap(data)) <= info.Size() {
		data = make([]byte, info.Size()+1)
	}
	data = data[:info.Size()+1]
	n, err := io.ReadFull(r, data)
	if err == nil {
		err = &Error{name, 0, 0, errors.New("the file grew while it was read")}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return data[:n], err
}

// readFile returns the bytes of a pack, or of another file of at most that size.
func (f *files) readFile(name string) ([]byte, error) {
	r, info, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readPack(name, r, info, nil)
}

// makeDirectory makes a directory durably. Its parent must exist.
func makeDirectory(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return osfile.SyncDirectory(filepath.Dir(dir))
}

// syncsAtOnce is how many files are synced in parallel: a disk takes many syncs almost as fast as one.
const syncsAtOnce = 8

// isOurs reports whether an error concerns a file's type or content, and not reading it.
func isOurs(err error) bool {
	_, ours := errors.AsType[*Error](err)
	_, damaged := errors.AsType[*cas.DamagedError](err)
	return ours || damaged
}

// hasAttributes reports whether .gitattributes has the expected content.
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
