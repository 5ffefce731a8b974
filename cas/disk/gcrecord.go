package disk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// The records of gc. Each lists packs, and sorted lines about their entries: the number of packs (4), their IDs (16
// each), the lines, and the digest of all that. A line is a digest and a kind; in garbage a time follows (8,
// nanoseconds since 1970), and doomed has no lines. Numbers are big-endian.
const (
	garbageFile   = "garbage"
	condemnedFile = "condemned"
	doomedFile    = "doomed"
	garbageLine   = keyLine + 8
	keyLine       = cas.Size + 1
	mostRecord    = 4 << 30 // bytes of a record
)

// A gcRecord is one of gc's files. A nil pointer is an empty record.
type gcRecord struct {
	packs []string // names of their files
	lines []byte
	size  int  // of a line
	all   bool // unreadable: it covers every entry
}

// parseRecord reads a record whose lines are size bytes long.
func parseRecord(data []byte, size int) (*gcRecord, bool) {
	n := len(data) - cas.Size
	if n < 4 || cas.Sum(data[:n]) != cas.Digest(data[n:]) {
		return nil, false
	}
	packs, data := uint64(binary.BigEndian.Uint32(data)), data[4:n]
	if packs > uint64(len(data)/16) {
		return nil, false
	}
	r := &gcRecord{size: size, lines: data[16*packs:]}
	if len(r.lines)%size != 0 {
		return nil, false
	}
	for ; packs > 0; packs-- {
		r.packs = append(r.packs, packName([16]byte(data)))
		data = data[16:]
	}
	return r, true
}

// encodeRecord is the inverse of parseRecord.
func encodeRecord(ids [][16]byte, lines []byte) []byte {
	b := make([]byte, 0, 4+16*len(ids)+len(lines)+cas.Size)
	b = binary.BigEndian.AppendUint32(b, uint32(len(ids)))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	b = append(b, lines...)
	d := cas.Sum(b)
	return append(b, d[:]...)
}

// find returns the line about an entry of a pack, or nil.
func (r *gcRecord) find(p *pack, e *entry) []byte {
	if r == nil || !slices.Contains(r.packs, filepath.Base(p.path)) {
		return nil
	}
	var key [keyLine]byte
	copy(key[:], e.digest[:])
	key[cas.Size] = byte(e.kind)
	lo, hi := 0, len(r.lines)/r.size
	for lo < hi {
		h := int(uint(lo+hi) >> 1)
		if bytes.Compare(r.lines[h*r.size:h*r.size+keyLine], key[:]) < 0 {
			lo = h + 1
		} else {
			hi = h
		}
	}
	if at := lo * r.size; at < len(r.lines) && bytes.Equal(r.lines[at:at+keyLine], key[:]) {
		return r.lines[at : at+r.size]
	}
	return nil
}

func (r *gcRecord) has(p *pack, e *entry) bool { return r != nil && (r.all || r.find(p, e) != nil) }

func (r *gcRecord) equal(o *gcRecord) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.all == o.all && slices.Equal(r.packs, o.packs) && bytes.Equal(r.lines, o.lines)
}

// writeRecord replaces a record.
func (s *Store) writeRecord(name string, packs []*pack, lines []byte) error {
	var ids [][16]byte
	for _, p := range packs {
		ids = append(ids, p.foot.id)
	}
	tmp := filepath.Join(s.dir, "tmp", "janitor-"+name+randomName())
	return s.files.writeFile(filepath.Join(s.dir, name), tmp, encodeRecord(ids, lines))
}

// readGarbage reads the record of garbage. An unreadable record counts as missing: grace begins again.
func (s *Store) readGarbage() *gcRecord {
	b, err := readFile(filepath.Join(s.dir, garbageFile), mostRecord)
	if err != nil {
		return nil
	}
	r, _ := parseRecord(b, garbageLine)
	return r
}

// readCondemned reads the list of objects that a gc is about to remove. It returns nil when no gc is running.
func (s *Store) readCondemned() (*gcRecord, error) {
	path := filepath.Join(s.dir, condemnedFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	// A killed gc may have left the file. A gc that begins after this check waits for the writer that checks.
	if s.noJanitor() {
		return nil, nil
	}
	return s.readRecord(condemnedFile)
}

// readRecord reads a record whose lines have no time. It returns nil for a missing file, and a record that covers
// everything for an unreadable one.
func (s *Store) readRecord(name string) (*gcRecord, error) {
	b, err := readFile(filepath.Join(s.dir, name), mostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		if r, ok := parseRecord(b, keyLine); ok {
			return r, nil
		}
	}
	if err == nil || errors.Is(err, ErrFormat) {
		return &gcRecord{all: true}, nil
	}
	return nil, err
}

// removeDoomed removes the packs that this gc, or an earlier one that did not finish, has doomed.
func (s *Store) removeDoomed() error {
	doomed, err := s.readRecord(doomedFile)
	if err != nil || doomed == nil {
		return err
	}
	if doomed.all {
		// Packs may be half removed. Only a gc finds them again, and only before a new object refers to their parts.
		path := filepath.Join(s.dir, doomedFile)
		return fault.New(fault.Integrity,
			"%q, the list of packs that a gc was removing, is damaged: remove it and run gc before you put anything",
			path).
			Try(fault.Command("rm", path), "rye store gc --grace 0s")
	}
	defer s.forget()
	dir := filepath.Join(s.dir, "packs")
	for _, name := range doomed.packs {
		if err := s.files.remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := s.files.syncDir(dir); err != nil {
		return err
	}
	return s.files.remove(filepath.Join(s.dir, doomedFile))
}

// garbage is the unreachable entries that one gc found.
type garbage struct {
	packs []*pack       // all packs
	lines []byte        // all garbage, for the record
	young []unreachable // entries in their grace period, and the entries that spare has kept
	piles []*pile       // entries to remove
}

// An unreachable is an unreachable entry, and the time since which gc has seen it unreachable.
type unreachable struct {
	e     entry
	since int64
}

// moved records that pack from was replaced by pack to, or removed if to is nil.
func (g *garbage) moved(from, to *pack) {
	i := slices.Index(g.packs, from)
	if to == nil {
		g.packs = slices.Delete(g.packs, i, i+1)
	} else {
		g.packs[i] = to
	}
}

func (s *Store) writeGarbage(g *garbage) error { return s.writeRecord(garbageFile, g.packs, g.lines) }

// findGarbage splits the unmarked entries: those that gc saw at least options.Grace ago go into piles, the others are
// recorded with the current time. If the clock went backwards, no time has passed. An entry counts as seen only in the
// pack in which gc saw it, because writers put recorded garbage again, and the new copy has the whole grace period.
func (s *Store) findGarbage(ctx context.Context, marks *marks, options GCOptions, result *GCResult) (*garbage, error) {
	seen := s.readGarbage()
	garbage := &garbage{packs: slices.Clone(marks.snap.packs)}
	now := s.now().UnixNano()
	var all []unreachable
	var young []cas.ID
	for _, pack := range marks.snap.packs {
		pile := &pile{p: pack, dead: newBitset(int(pack.foot.entries))}
		for placed, err := range pack.all() {
			if err != nil {
				return nil, err
			}
			if marks.live[pack].has(placed.n) {
				result.Reachable++
				continue
			}
			u := unreachable{placed.entry, now}
			if l := seen.find(pack, &placed.entry); l != nil {
				u.since = min(int64(binary.BigEndian.Uint64(l[keyLine:])), now)
			}
			all = append(all, u)
			if now-u.since >= int64(options.Grace) {
				pile.dead.set(placed.n)
				result.Removed++
			} else {
				garbage.young = append(garbage.young, u)
				young = placed.appendObject(young)
			}
		}
		garbage.piles = append(garbage.piles, pile)
	}
	result.Unreachable = int64(len(all))
	garbage.lines = linesOf(all)
	return garbage, garbage.spare(ctx, marks, now, young, result)
}

// appendObject appends the entry's object, unless the entry is a part of a long object.
func (e *entry) appendObject(to []cas.ID) []cas.ID {
	if kind := e.kind &^ large; isObject(kind) {
		to = append(to, cas.ID{Kind: kind, Digest: e.digest})
	}
	return to
}

// spareNew spares the garbage that objects in new packs need. Their writers may have begun before gc wrote the
// record of garbage, and so have relied on it.
func (g *garbage) spareNew(ctx context.Context, marks *marks, now int64, result *GCResult) error {
	var ids []cas.ID
	for _, p := range marks.snap.packs {
		if slices.Contains(g.packs, p) {
			continue
		}
		for e, err := range p.all() {
			if err != nil {
				return err
			}
			ids = e.appendObject(ids)
		}
	}
	return g.spare(ctx, marks, now, ids, result)
}

// spare takes the entries that ids need out of the piles, unless a copy of the record stays elsewhere, and adds
// them to young with the time now. Then it drops the empty piles.
func (g *garbage) spare(ctx context.Context, marked *marks, now int64, ids []cas.ID, result *GCResult) error {
	if result.Removed > 0 && len(ids) > 0 {
		need := &marks{s: marked.s, snap: marked.snap, live: make(map[*pack]bitset), k: marked.k}
		for _, p := range marked.snap.packs {
			need.live[p] = slices.Clone(marked.live[p]) // a marked object has everything it needs
		}
		for len(ids) > 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			id := ids[len(ids)-1]
			ids, _ = need.object(ctx, id, ids[:len(ids)-1]) // an unreadable object has no known references
		}
		for _, pile := range g.piles {
			for placed, err := range pile.p.all() {
				if err != nil {
					return err
				}
				if !pile.dead.has(placed.n) || !need.live[pile.p].has(placed.n) {
					continue
				}
				stays, err := g.stays(marked.snap.packs, &placed.entry)
				if err != nil {
					return err
				}
				if !stays {
					pile.dead.clear(placed.n)
					g.young = append(g.young, unreachable{placed.entry, now})
					result.Removed--
				}
			}
		}
	}
	g.piles = slices.DeleteFunc(g.piles, func(p *pile) bool { return p.dead.none() })
	return nil
}

// stays reports whether at least one copy of a record is in no pile.
func (g *garbage) stays(packs []*pack, e *entry) (bool, error) {
	for _, p := range packs {
		_, n, err := p.place(e.kind&^large, &e.digest)
		if err != nil {
			return false, err
		}
		if n >= 0 && !slices.ContainsFunc(g.piles, func(pile *pile) bool { return pile.p == p && pile.dead.has(n) }) {
			return true, nil
		}
	}
	return false, nil
}

// linesOf returns the lines of a record of garbage. Of several copies the youngest counts.
func linesOf(us []unreachable) []byte {
	slices.SortFunc(us, func(a, b unreachable) int {
		return cmp.Or(a.e.compare(&b.e), cmp.Compare(b.since, a.since))
	})
	us = slices.CompactFunc(us, func(a, b unreachable) bool { return a.e.compare(&b.e) == 0 })
	lines := make([]byte, 0, len(us)*garbageLine)
	for i := range us {
		lines = append(lines, us[i].e.digest[:]...)
		lines = append(lines, byte(us[i].e.kind))
		lines = binary.BigEndian.AppendUint64(lines, uint64(us[i].since))
	}
	return lines
}
