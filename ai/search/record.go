package search

import (
	"context"
	"fmt"
	"math"

	"github.com/rye-build/rye/cas"
)

// A Record is what can be found: an item of some space.
type Record struct {
	Kind, ID string
	Space    string // its label, as "project" or "system:rye/std"
	Rank     int    // of the space; of equally good records the one of the higher rank comes first
	Path     string // in the space
	Fields   []Field
}

// A Field is one text of a record. No two of a record have the same name.
type Field struct {
	Name string // as queries have it: lower case, a letter first, then letters, digits, "_", "-", "."
	Text string
	// Weight says how much a word in this field counts. What isn't above zero is DefaultWeight(Name).
	Weight float64
}

// DefaultWeight is the weight of a field without one of its own.
func DefaultWeight(name string) float64 {
	switch name {
	case "title", "name":
		return 3
	case "description":
		return 2
	case "category":
		return 1.5
	}
	return 1
}

func (f *Field) weight() float64 {
	if f.Weight > 0 && !math.IsInf(f.Weight, 0) {
		return f.Weight
	}
	return DefaultWeight(f.Name)
}

const (
	// MaxText is how long the fields of one file's records may be together.
	MaxText = 16 << 20
	// MaxFields is how many fields a record may have.
	MaxFields = 64
)

// check says why records can't be indexed.
func check(records []Record) error {
	size := 0
	for i := range records {
		r := &records[i]
		if len(r.Fields) > MaxFields {
			return fmt.Errorf("%q has %d fields; at most %d are possible", r.Kind+":"+r.ID, len(r.Fields), MaxFields)
		}
		for j := range r.Fields {
			size += len(r.Fields[j].Text)
			for k := range j {
				if r.Fields[k].Name == r.Fields[j].Name {
					return fmt.Errorf("%q has the field %q twice", r.Kind+":"+r.ID, r.Fields[j].Name)
				}
			}
		}
	}
	if size > MaxText {
		return fmt.Errorf("its text has %d bytes; at most %d can be indexed", size, MaxText)
	}
	return nil
}

// A Stat is what a file looked like. Two equal ones that are Sure mean the same bytes, under the conditions that
// the package comment names.
type Stat struct {
	Size         int64
	Mtime, Ctime int64 // nanoseconds since 1970
	Dev, Inode   uint64
	Mode         uint32
	// Sure says that every change gives the file another Ctime, by this machine's clock. Where it isn't set the
	// file is read each time.
	Sure bool
}

// A File is a file of a space that may hold records.
type File struct {
	Space, Path string
	Stat        Stat
	// Digest, unless it is zero, names the bytes of a file that has no Stat, as one embedded in the program.
	Digest cas.Digest
	// Key is whatever the catalog knows it by; Load gets it back.
	Key int
}

// A Catalog knows the files that are to be searched. Its methods are called from several goroutines.
type Catalog interface {
	// Schema names what Load makes of a file: which kinds there are, what they extract, with which weights. When it
	// changes everything is loaded again.
	Schema() string
	// Files returns the files there are now, in any order, no two of the same space and path.
	Files(ctx context.Context) ([]File, error)
	// Load reads a file. One without records is remembered as such. fs.ErrNotExist says that it is gone.
	Load(ctx context.Context, f File) ([]Record, error)
}
