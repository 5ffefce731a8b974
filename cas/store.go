package cas

import (
	"context"
	"fmt"
	"io"
	"iter"
)

// A Kind is the type of an object. It is part of the object's name, so that no reader takes the bytes of a file for
// a tree.
type Kind byte

// The kinds. Their numbers are written to disk.
const (
	Blob     Kind = 1 // the bytes of a file
	TreeKind Kind = 2 // one directory; see Tree
	Document Kind = 3 // a canonical document without its signature lines
)

// String returns "blob", "tree" or "document".
func (k Kind) String() string {
	if Blob <= k && k <= Document {
		return [...]string{Blob: "blob", TreeKind: "tree", Document: "document"}[k]
	}
	return fmt.Sprintf("kind(%d)", byte(k))
}

// ParseKind reads what String writes.
func ParseKind(s string) (Kind, bool) {
	for k := Blob; k <= Document; k++ {
		if k.String() == s {
			return k, true
		}
	}
	return 0, false
}

// An ID names an object.
type ID struct {
	Kind   Kind
	Digest Digest
}

// String returns the kind and the digest, as refs write them.
func (id ID) String() string { return id.Kind.String() + " " + id.Digest.String() }

// Info is an object's name and its length in bytes.
type Info struct {
	ID
	Size int64
}

// An Object is an open object. It is hashed while it is read, and only io.EOF means that the bytes were right: act on
// them only then.
type Object struct {
	Info
	io.ReadCloser
}

// WriteTo implements io.WriterTo, so that a reader in memory writes its bytes without a copy.
func (o Object) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, o.ReadCloser) }

// A Getter opens objects. A missing object is an fs.ErrNotExist. Safe for concurrent use.
type Getter interface {
	Get(ctx context.Context, id ID) (Object, error)
}

// A Putter stores objects. Put reads r to its end and stores the bytes under their digest. If it fails, or r does,
// nothing is stored. Putting an object that exists changes nothing. Safe for concurrent use.
type Putter interface {
	Put(ctx context.Context, kind Kind, r io.Reader) (Info, error)
}

// A Misser returns those of ids that a store lacks, in the same order. A damaged object may count as missing; a
// missing object never counts as present.
type Misser interface {
	Missing(ctx context.Context, ids []ID) ([]ID, error)
}

// A Store stores objects under their names.
type Store interface {
	Getter
	Putter
	Misser
}

// A Batcher is a store that can make many puts durable at once.
type Batcher interface {
	Batch(ctx context.Context) (Batch, error)
}

// A Batch is a group of puts that become visible and durable together, at Commit, with one sync. Missing counts the
// batch's own objects as present. Close without Commit drops everything; after Commit it only frees memory. Put,
// PutBytes and Missing are safe for concurrent use, Commit and Close are not.
type Batch interface {
	Putter
	Misser
	// PutBytes is Put for bytes in memory. The caller may reuse b.
	PutBytes(ctx context.Context, kind Kind, b []byte) (Digest, error)
	Commit(ctx context.Context) error
	Close() error
}

// A Visitor is a store that can read many objects in the order that is cheapest for it. It calls visit once for each
// of ids, with its index, from several goroutines, and closes the object when visit returns. The first error ends the
// visit and is returned.
type Visitor interface {
	Visit(ctx context.Context, ids []ID, visit func(i int, o Object) error) error
}

// A Lister lists all its objects, in no particular order.
type Lister interface {
	List(ctx context.Context) iter.Seq2[Info, error]
}

// A Deleter deletes objects. Deleting a missing object is not an error.
type Deleter interface {
	Delete(ctx context.Context, ids ...ID) error
}
