package env

import (
	"io/fs"
	"os"
	"sync"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// Known caches the digests of programs while their files look unchanged, by the rules of package statcache. It is for
// digests that are only recorded: a program that is admitted by its digest is read each time. A nil Known is empty.
type Known struct {
	clock func() statcache.Moment

	mu sync.Mutex
	of map[statcache.Stamp]knownProgram
}

type knownProgram struct {
	digest cas.Digest
	head   []byte
	began  statcache.Moment
}

// maxKnown bounds the cached programs.
const maxKnown = 64

// NewKnown returns an empty Known.
func NewKnown() *Known { return &Known{clock: statcache.NewClock()} }

// now returns the current moment, before a program is read.
func (k *Known) now() (m statcache.Moment) {
	if k != nil {
		m = k.clock()
	}
	return m
}

// recall returns the digest and the first bytes of a known program.
func (k *Known) recall(p *Program, info fs.FileInfo, now statcache.Moment) []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	was, ok := k.of[statcache.StampOf(info)]
	if !ok || now.SetBackSince(was.began) {
		return nil
	}
	p.Digest, p.Size = was.digest, info.Size()
	return was.head
}

// remember caches the digest of a program. info is from the opened file, before it was read.
func (k *Known) remember(program *Program, head []byte, f fs.File, info fs.FileInfo, began statcache.Moment) {
	file, disk := f.(*os.File)
	stamp := statcache.StampOf(info)
	if k == nil || !disk || !statcache.OwnStamps(file.Fd()) || !began.Settled(stamp.Mtime, stamp.Ctime) ||
		program.Size != info.Size() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= maxKnown {
		k.of = map[statcache.Stamp]knownProgram{}
	}
	k.of[stamp] = knownProgram{digest: program.Digest, head: head, began: began}
}
