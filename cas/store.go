package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A Kind says what an object's bytes are. It is part of the object's name: a store never hands out the
// bytes of a file as a tree, whatever their digest.
type Kind byte

// The kinds. Their numbers are written to disk.
const (
	Blob     Kind = 1 // the bytes of a file
	TreeKind Kind = 2 // one directory; see Tree
	Document Kind = 3 // a canonical document without its signature lines
)

// String returns "blob", "tree" or "document".
func (k Kind) String() string {
	switch k {
	case Blob:
		return "blob"
	case TreeKind:
		return "tree"
	case Document:
		return "document"
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

// An Object is an open object. Its bytes are hashed as they are read: io.EOF means that all of them were
// the object's, anything else that they were not, so whoever acts on the bytes waits for io.EOF first.
type Object struct {
	Info
	io.ReadCloser
}

// A Getter opens objects. A missing one is fs.ErrNotExist. Safe for concurrent use.
type Getter interface {
	Get(ctx context.Context, id ID) (Object, error)
}

// A Putter keeps objects. Put reads r to its end, and when it returns without error the object is kept and
// named by the digest of what was read; on any error, r's own included, nothing new can be seen. Putting
// what is there already changes nothing. Safe for concurrent use.
type Putter interface {
	Put(ctx context.Context, kind Kind, r io.Reader) (Info, error)
}

// A Misser says which of many objects a store lacks, in the order asked and in one exchange. An object that
// the store could not read back intact may count as missing, never the other way round.
type Misser interface {
	Missing(ctx context.Context, ids []ID) ([]ID, error)
}

// A Store keeps objects under their names.
type Store interface {
	Getter
	Putter
	Misser
}

// A Batcher is a store that can make many puts durable at once.
type Batcher interface {
	Batch(ctx context.Context) (Batch, error)
}

// A Batch is a group of puts that become visible and durable together, at Commit, behind one sync barrier.
// Missing counts what the batch has been given as present. Close without Commit drops everything; after
// Commit it only frees. Put, PutBytes and Missing are safe for concurrent use, Commit and Close are not.
type Batch interface {
	Putter
	Misser
	// PutBytes is Put of bytes that are in memory; b may be used again when it returns.
	PutBytes(ctx context.Context, kind Kind, b []byte) (Digest, error)
	Commit(ctx context.Context) error
	Close() error
}

// A Visitor is a store that can read many objects in the order that is cheapest for it, several at a time.
// It calls visit once for each of ids, with its place in ids, from several goroutines; the object is closed
// when visit returns. The first error ends the visit and is returned.
type Visitor interface {
	Visit(ctx context.Context, ids []ID, visit func(i int, o Object) error) error
}

// A Lister can name everything it holds, in no particular order.
type Lister interface {
	List(ctx context.Context) iter.Seq2[Info, error]
}

// A Deleter can forget objects. Forgetting what isn't there is no error.
type Deleter interface {
	Delete(ctx context.Context, ids ...ID) error
}

// A DamagedError says that the bytes a store holds under a name are not the object's.
type DamagedError struct {
	ID    ID
	Found Digest // of the bytes that were there; zero where there was nothing to hash
	Err   error  // what went wrong before there was anything to hash, or nil
}

func (e *DamagedError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("%s is damaged: %v", e.ID, e.Err)
	case e.Found.IsZero():
		return fmt.Sprintf("%s is damaged", e.ID)
	}
	return fmt.Sprintf("%s is damaged: its bytes have the digest %s", e.ID, e.Found)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// ErrTooLong is what a verifying reader wraps when there are more bytes than the declared size.
var ErrTooLong = errors.New("more bytes than the declared size")
