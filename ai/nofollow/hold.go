package nofollow

import (
	"os"
	"sync"
)

// maxHeld is the number of directories that stay open. Reads mostly go directory by directory.
const maxHeld = 32

// A holder keeps recently used directories open, so that many files of one directory need only one path resolution.
type holder struct {
	mu    sync.Mutex
	users int // running operations that called Hold
	at    map[string]*held
}

type held struct {
	root  *folder
	users int
}

// A folder is an open directory.
type folder struct {
	*os.Root
	kept bool // it pays to read many files without a Root for each

	once sync.Once
	self *os.File // the directory itself, if kept; nil if it can't be opened
}

func (f *folder) Close() error {
	f.once.Do(func() {})
	if f.self != nil {
		f.self.Close()
	}
	return f.Root.Close()
}

// Hold keeps directories open from their first use until release, for an operation that reads many files. Replacing a
// directory meanwhile has no effect, as if its files had been read a moment earlier.
func (d *FS) Hold() (release func()) {
	h := &d.holder
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users++
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.users--; h.users == 0 {
			for dir := range h.at {
				h.drop(dir)
			}
		}
	})
}

// drop closes a directory, or leaves that to its last user.
func (h *holder) drop(dir string) {
	if x := h.at[dir]; x.users == 0 {
		x.root.Close()
	}
	delete(h.at, dir)
}

// take returns a held directory, or nil.
func (h *holder) take(dir string) (*folder, func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.at[dir]
	if x == nil {
		return nil, nil
	}
	return x.root, h.use(dir, x)
}

// keep takes over an opened directory, if an operation has called Hold.
func (h *holder) keep(dir string, folder *folder) (*folder, func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == 0 || h.at[dir] != nil {
		return folder, folder.Close
	}
	for other, x := range h.at {
		if len(h.at) < maxHeld {
			break
		}
		if x.users == 0 {
			h.drop(other)
		}
	}
	if h.at == nil {
		h.at = map[string]*held{}
	}
	folder.kept = true
	x := &held{root: folder}
	h.at[dir] = x
	return folder, h.use(dir, x)
}

// use counts a user of x until the returned function is called.
func (h *holder) use(dir string, x *held) func() error {
	x.users++
	return func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if x.users--; x.users == 0 && h.at[dir] != x {
			return x.root.Close()
		}
		return nil
	}
}
