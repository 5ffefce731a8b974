package approval

import "github.com/rye-build/rye/exec/thread/book"

// NewTotal returns what the records of a journal add up to.
func NewTotal() book.Total { return &rows{byID: map[string]*Request{}} }
