package catalog

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// MaxAnnouncement is the largest kept announcement, in bytes.
const MaxAnnouncement = 8 << 20

// A Memory keeps what servers announced when they were last asked, below the state directory: of each space a
// directory, and in it a file NAME.json of each server.
type Memory struct {
	Dir string // of one space
}

// MemoryIn returns the memory for the servers of a space, which lies in a directory.
func MemoryIn(state, space string) Memory {
	return Memory{filepath.Join(state, "mcp", cas.Sum([]byte(space)).String()[len("blake3:"):][:24])}
}

// A Known server is what was announced, by which item, and when.
type Known struct {
	Space        string        `json:"space"`  // the directory
	Server       cas.Digest    `json:"server"` // of the item's bytes without signatures
	At           time.Time     `json:"at"`
	Announcement *Announcement `json:"announcement"`
}

func (m Memory) file(name string) string {
	return filepath.Join(m.Dir, filepath.FromSlash(name)+".json")
}

// Put stores a server's announcement.
func (m Memory) Put(name string, known *Known) error {
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if len(text) > MaxAnnouncement {
		return fault.New(fault.Limit, "the announcement of the server %q has %d bytes, more than the limit of %d",
			name, len(text), MaxAnnouncement)
	}
	if err := os.MkdirAll(filepath.Dir(m.file(name)), 0o700); err != nil {
		return err
	}
	return osfile.WriteFile(m.file(name), 0o600, false, osfile.BytesOf(text))
}

// Get returns a server's last announcement; nil for none.
func (m Memory) Get(name string) (*Known, error) {
	path := m.file(name)
	b, err := osfile.ReadSmall(path, MaxAnnouncement)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k := new(Known)
	if err := json.Unmarshal(b, k); err != nil || k.Announcement == nil {
		return nil, fault.New(fault.Parsing, "%q is corrupt",
			path).From(err).Try(fault.Command("rye mcp refresh", name)).On("path", path)
	}
	return k, nil
}

// Forget removes a server's announcement.
func (m Memory) Forget(name string) error {
	err := os.Remove(m.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
