// Package rows keeps small values under names, and changes them in transactions. The registry keeps in rows what it
// must not lose: accounts, namespaces, versions and the leaves of its log.
//
// A name has 1 to 500 bytes of visible ASCII. A value is a JSON object, kept in its compact form (Compact), which has
// at most 256 KiB. Change applies both rules for every store.
//
// How an update goes through here: the store begins a transaction and calls Change with a Reader over its state.
// Change calls the caller's function with a Writer that keeps all writes in memory and shows them over that state.
// The store then makes the writes that Change returns durable, all or none.
//
// # The local store
//
// OpenLocal keeps all rows in memory and in a book (package journal), the file rows of its directory. A record is one
// write:
//
//	{"put":"account/alice","value":{"created":"2026-11-20T12:00:00Z"}}
//	{"delete":"account/bob"}
//
// The records of an update with several writes are numbered. A value that doesn't fit in a line is cut into pieces,
// in base64:
//
//	{"put":"page/large","piece":"eyJ0ZXh0Ijoi…","part":1,"of":3}
//	{"put":"page/large","piece":"YWFhYWFh…","part":2,"of":3}
//	{"put":"page/small","value":{},"part":3,"of":3}
//
// A reader takes the parts of an update together, when it has read the last one. If the process or the machine dies
// while it writes them, the first parts may remain. Part 1 of the next update then replaces them.
package rows

import (
	"context"
	"iter"
)

// A Store keeps rows: small values under names, changed in transactions. It is safe for concurrent use, also by
// several processes. The functions that it calls must not call it again.
type Store interface {
	// View calls look with one consistent state.
	View(ctx context.Context, look func(Reader) error) error
	// Update calls change and makes what it wrote durable, all or none, before it returns. Concurrent updates, also
	// of other processes, have the result of some order of them; change may be called again for that. An error of
	// change ends the update without a trace and is returned unchanged.
	Update(ctx context.Context, change func(Writer) error) error
	Close() error
}

// A Locker is a Store of one machine, where the system says whether the process that holds a lock is still there.
type Locker interface {
	// TryLock takes the lock of a name if it is free. It ends with unlock, or with the process.
	TryLock(name string) (unlock func(), free bool, err error)
}

// A Reader reads rows. It is valid until the function returns that was called with it.
type Reader interface {
	// Get returns a value, or nil without an error if there is no such row. The caller doesn't change the value.
	Get(name string) ([]byte, error)
	// Scan returns the rows whose names begin with prefix and are greater than after, sorted by the bytes of their
	// names. It ends with the first error. It shows what was written before it began.
	Scan(prefix, after string) iter.Seq2[Row, error]
}

// A Writer also changes rows. Update returns the error for an invalid name or value.
type Writer interface {
	Reader // shows its own writes
	Put(name string, value []byte)
	Delete(name string)
}

// A Row is a name and its value.
type Row struct {
	Name  string
	Value []byte
}
