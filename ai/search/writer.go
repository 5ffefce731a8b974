package search

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rye-build/rye/cas/osfile"
)

// fullSegment is the size of a full segment. 32 of them reach the limit of an index.
const fullSegment = 16 << 20

// A writer makes segments of records. Its add is safe for concurrent use. Its memory doesn't grow with the number of
// records: it ends full segments, which wait in unnamed files until they are written to the index.
type writer struct {
	full  int // the size of a segment
	parts []part

	mu   sync.Mutex
	made []*segment
}

// A part of a writer builds one segment after the other.
type part struct {
	mu    sync.Mutex
	b     *builder // nil before the first record of a segment
	seg   int      // its number in made
	spill spill
}

// newWriter returns a writer with its files in dir; with "" it keeps everything in memory.
func newWriter(dir string, full, parts int) *writer {
	w := &writer{full: full, parts: make([]part, parts)}
	for i := range w.parts {
		w.parts[i].spill = spill{osfile.Scratch{Dir: dir}, full / 16}
	}
	return w
}

// add indexes the records of a file, and returns their segment and the number of the first. encoded is their written
// form.
func (w *writer) add(i int, records []Record, encoded [][]byte) (seg, first int, err error) {
	part := &w.parts[i%len(w.parts)]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.b == nil {
		part.b = newBuilder(&part.spill)
		w.mu.Lock()
		part.seg, w.made = len(w.made), append(w.made, nil)
		w.mu.Unlock()
	}
	seg, first = part.seg, part.b.count
	for j := range records {
		if err := part.b.add(&records[j], encoded[j]); err != nil {
			return 0, 0, err
		}
	}
	if part.b.size() >= w.full {
		err = w.end(part)
	}
	return seg, first, err
}

// end completes a part's current segment.
func (w *writer) end(p *part) error {
	if p.b == nil {
		return nil
	}
	g, err := p.b.segment()
	p.b = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made[p.seg] = g
	return err
}

// finish returns the segments. They are readable until the writer is closed.
func (w *writer) finish() ([]*segment, error) {
	errs := make([]error, len(w.parts))
	var wg sync.WaitGroup
	for i := range w.parts {
		wg.Go(func() { errs[i] = w.end(&w.parts[i]) })
	}
	wg.Wait()
	return w.made, errors.Join(errs...)
}

func (w *writer) close() {
	for i := range w.parts {
		w.parts[i].spill.Close()
	}
}

// errSpill reports that the unnamed file can't be written. The data then fits into memory, or the update fails.
var errSpill = errors.New("can't be written beside the index")

// A spill stores the data of a part outside of memory.
type spill struct {
	osfile.Scratch     // disabled without a directory
	least          int // the fewest bytes of records to write at once
}

func (s *spill) write(b []byte) error {
	if err := s.Append(b); err != nil {
		return fmt.Errorf("%w: %w", errSpill, err)
	}
	return nil
}
