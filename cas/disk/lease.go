package disk

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// The two directories of leases. A writer's lease protects the snapshot that the writer took when it began: gc removes
// nothing that the writer may rely on. A pin's lease names objects, which are roots as refs are.
const (
	writers = "writers"
	pins    = "pins"
)

// randomSalt returns a number that no other pack has.
func randomSalt() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// acquire takes one of the store's locks. Closing the file releases it.
func (s *Store) acquire(ctx context.Context, name string) (*os.File, error) {
	return osfile.OpenLocked(ctx, filepath.Join(s.dir, name), osfile.Exclusive, s.wait)
}

// A lease is a locked file: it lives exactly as long as its process keeps it open, however the process ends. A process
// number alone would not do: after a restart, or in a container, it means another process.
type lease struct {
	s     *Store
	name  string
	path  string
	f     *os.File
	temps int
}

// errSwept means that a janitor removed an unfinished lease because it looked abandoned.
var errSwept = errors.New("the lease was swept away")

// newLease makes a lease of a kind that holds lines of text.
func (s *Store) newLease(ctx context.Context, kind string, lines ...string) (*lease, error) {
	text := fmt.Sprintf("pid %d boot %s since %s\n%s", os.Getpid(), bootID(), s.now().UTC().Format(time.RFC3339),
		strings.Join(lines, ""))
	for range 100 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l, err := s.tryLease(kind, text)
		if !errors.Is(err, errSwept) {
			return l, err
		}
	}
	return nil, fault.Wrap(osfile.Busy(s.dir, 0),
		"the store %q is busy: its leases are removed as soon as they are created", s.dir)
}

// tryLease creates the file under a temporary name and locks it before it renames it to a lease's name, so that no
// process sees an unlocked lease.
func (s *Store) tryLease(kind, text string) (*lease, error) {
	name := randomName()
	lease := &lease{s: s, name: name, path: filepath.Join(s.dir, kind, name)}
	tmp := filepath.Join(s.dir, "tmp", "lease-"+name)
	file, err := s.files.create(tmp)
	if err != nil {
		return nil, err
	}
	lease.f = file.File
	ok, err := osfile.TryLock(file.File, osfile.Exclusive)
	if err == nil && !ok {
		err = errSwept
	}
	if err == nil {
		err = file.writeAt([]byte(text), 0)
	}
	if err == nil {
		if err = s.files.rename(tmp, lease.path); errors.Is(err, fs.ErrNotExist) {
			if _, gone := os.Lstat(tmp); errors.Is(gone, fs.ErrNotExist) {
				err = errSwept
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), s.files.remove(tmp))
	}
	return lease, nil
}

// temp returns a new path for a temporary file. A janitor sweeps the file after the lease has ended.
func (l *lease) temp() string {
	l.temps++
	return filepath.Join(l.s.dir, "tmp", fmt.Sprintf("%s-%d", l.name, l.temps))
}

// release ends the lease. It removes the name first; a name that stays without a lock is a dead lease.
func (l *lease) release() error {
	err := l.s.files.remove(l.path)
	return errors.Join(err, l.f.Close())
}

// bootID identifies the machine's current start, for people who read a lease.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// leases returns the names of the live leases of a kind with their texts, and removes dead ones if sweep is true. The
// caller is the janitor: two processes that probe one lease at the same time would each take the other's lock for the
// owner's.
func (s *Store) leases(kind string, sweep bool) (map[string]string, error) {
	dir := filepath.Join(s.dir, kind)
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	how := os.O_RDONLY | osfile.Nonblock // a FIFO in the place of a lease has no owner
	if sweep {
		how = os.O_RDWR
	}
	live := make(map[string]string)
	for _, n := range names {
		path := filepath.Join(dir, n.Name())
		file, err := os.OpenFile(path, how, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		dead, err := osfile.TryLock(file, osfile.Exclusive)
		if err == nil && dead && sweep {
			err = s.files.remove(path)
		}
		if err == nil && !dead {
			var b []byte
			if b, err = readFile(path, 64<<20); errors.Is(err, fs.ErrNotExist) {
				err = nil // released just now
			} else if err == nil {
				live[n.Name()] = string(b)
			}
		}
		file.Close()
		if err != nil {
			return nil, err
		}
	}
	return live, nil
}

// Pin protects objects, and everything that trees among them refer to, from gc until release is called or the process
// ends. For a missing object it returns fs.ErrNotExist.
func (s *Store) Pin(ctx context.Context, ids ...cas.ID) (release func() error, err error) {
	if s.readOnly { // this process can't write
		return func() error { return nil }, nil
	}
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = id.String() + "\n"
	}
	// gc holds this lock from its last check of the roots to its end, as in changeRef.
	lock, err := s.lockRefs(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	snap, err := s.load()
	if err != nil {
		return nil, err
	}
	defer snap.release()
	for _, id := range ids {
		if !s.holds(snap, id) {
			return nil, cas.NotFound(id)
		}
	}
	l, err := s.newLease(ctx, pins, lines...)
	if err != nil {
		return nil, err
	}
	return l.release, nil
}
