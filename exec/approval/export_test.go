package approval

import "github.com/rye-build/rye/cas/journal"

// NewTotal returns what the records of a journal add up to.
func NewTotal() journal.Total { return &rows{byID: map[string]*Request{}} }
