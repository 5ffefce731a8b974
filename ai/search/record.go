package search

import (
	"context"
	"fmt"
	"math"

	"github.com/rye-build/rye/cas"
)

// A Record is a searchable item of some space.
type Record struct {
	Kind, ID string
	Space    string // its label, as "project" or "system:rye/std"
	Rank     int    // of the space; a tie-breaker, higher first
	Path     string // in the space
	Fields   []Field
}

// A Field is one text of a record. A record's fields have different names.
type Field struct {
	Name string // as in queries: lower case, a letter first, then letters, digits, "_", "-", "."
	Text string
	// Weight is how much a word in this field counts. Zero and less mean DefaultWeight(Name).
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
	// MaxText bounds the fields of one file's records together, in bytes.
	MaxText = 16 << 20
	// MaxFields bounds the fields of a record.
	MaxFields = 64
)

// check returns why records can't be indexed.
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

// A Stat identifies a state of a file. Two equal Stats that are Sure mean the same bytes, under the conditions in the
// package comment.
type Stat struct {
	Size         int64
	Mtime, Ctime int64 // nanoseconds since 1970
	Dev, Inode   uint64
	Mode         uint32
	// Sure means that every change gives the file another Ctime, by this machine's clock. Other files are read each
	// time.
	Sure bool
}

// A File is a file of a space that may hold records.
type File struct {
	Space, Path string
	Stat        Stat
	// Digest, unless zero, identifies the bytes of a file without a Stat, such as one embedded in the program.
	Digest cas.Digest
	// Key belongs to the catalog; Load gets it back.
	Key int
}

// A Catalog lists and loads the files to search. It must be safe for concurrent use.
type Catalog interface {
	// Schema identifies how Load turns files into records: the kinds, their fields and weights. A change of it
	// reloads everything.
	Schema() string
	// Files returns the current files, in any order, with unique pairs of space and path.
	Files(ctx context.Context) ([]File, error)
	// Load reads a file. A file without records is cached as such. fs.ErrNotExist means that it was removed.
	Load(ctx context.Context, f File) ([]Record, error)
}
