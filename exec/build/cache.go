package build

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/checkedbolt"
	"github.com/rye-build/rye/cas/osfile"
)

// format is the format of the file. A file of another format is replaced.
const format = "rye build 1"

const macSize = sha256.Size

// A Cache has the results of actions. A damaged file is no error: the cache is then empty.
type Cache struct {
	kept *checkedbolt.Cache
	key  []byte
}

// OpenCache opens the cache in a file. The key authenticates its entries (see Key).
func OpenCache(path string, key []byte) *Cache {
	return &Cache{kept: checkedbolt.OpenCache(path, format, checkedbolt.CacheOptions{}), key: key}
}

// Close writes new entries.
func (c *Cache) Close(ctx context.Context) { c.kept.Close(ctx) }

// Stats returns the size of the cache on disk.
func (c *Cache) Stats(ctx context.Context) checkedbolt.CacheStats { return c.kept.Stats(ctx) }

// Clear removes all entries.
func (c *Cache) Clear() error { return c.kept.Clear() }

func (c *Cache) mac(key, value []byte) []byte {
	h := hmac.New(sha256.New, c.key)
	h.Write([]byte{byte(len(key))})
	h.Write(key)
	h.Write(value)
	return h.Sum(nil)
}

// get returns the value that this user has stored under a key.
func (c *Cache) get(ctx context.Context, key []byte) []byte {
	b := c.kept.Get(ctx, key)
	if len(b) < macSize+cas.Size || !hmac.Equal(b[:macSize], c.mac(key, b[macSize:])) {
		return nil
	}
	return b[macSize:]
}

func (c *Cache) put(ctx context.Context, key, value []byte) {
	c.kept.Put(ctx, key, append(c.mac(key, value), value...))
}

func actionKey(action cas.Digest) []byte { return append([]byte("action"), action[:]...) }

// Result returns the tree of an action's outputs.
func (c *Cache) Result(ctx context.Context, action cas.Digest) (outputs cas.Digest, ok bool) {
	b := c.get(ctx, actionKey(action))
	if len(b) != cas.Size {
		return outputs, false
	}
	return cas.Digest(b), true
}

// Keep stores the tree of an action's outputs.
func (c *Cache) Keep(ctx context.Context, action, outputs cas.Digest) {
	c.put(ctx, actionKey(action), outputs[:])
}

func lastKey(project, step string) []byte {
	d := cas.Sum([]byte(project + "\x00" + step))
	return append([]byte("last"), d[:]...)
}

// Last returns the action whose result was last placed in a project, and the tree of its outputs; nil if unknown.
func (c *Cache) Last(ctx context.Context, project, step string) (*Action, cas.Digest) {
	b := c.get(ctx, lastKey(project, step))
	if b == nil {
		return nil, cas.Digest{}
	}
	return parseAction(b[cas.Size:]), cas.Digest(b[:cas.Size])
}

// SetLast stores them if they have changed.
func (c *Cache) SetLast(ctx context.Context, project, step string, a *Action, outputs cas.Digest) {
	b, err := a.Append(outputs[:])
	if key := lastKey(project, step); err == nil && string(c.get(ctx, key)) != string(b) {
		c.put(ctx, key, b)
	}
}

// Key returns the key in a file that only its owner may read, creating it if necessary. It replaces a file that isn't
// such a key, or that others may read.
func Key(path string) ([]byte, error) {
	for range 3 { // another process may be creating or replacing it
		b, err := readKey(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
		if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%q is made and removed again all the time", path)
}

const keySize = 32

func readKey(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Size() == keySize &&
		(runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0) {
		b, err := os.ReadFile(path)
		if err != nil || len(b) == keySize {
			return b, err
		}
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return nil, fs.ErrNotExist
}

func makeKey(path string) error {
	key := make([]byte, keySize)
	rand.Read(key)
	return osfile.Hook(nil).WriteFile(path, 0o600, true, osfile.BytesOf(key))
}
