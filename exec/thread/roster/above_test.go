package roster_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/thread/roster"
)

// signers are items by their refs, and who has signed them.
type signers map[string]string

func (s signers) Item(_ context.Context, ref model.Ref) (*ai.Item, error) {
	if _, ok := s[ref.String()]; !ok {
		return nil, fs.ErrNotExist
	}
	return &ai.Item{File: ai.File{Ref: ref}}, nil
}

func (s signers) Owns(_ context.Context, it *ai.Item) (bool, error) {
	switch s[it.Ref.String()] {
	case "me":
		return true, nil
	case "broken":
		return true, fs.ErrPermission
	}
	return false, nil
}

// TestOwned: what leads to a thread is the user's own if every directive above it is; one that can't be read isn't.
func TestOwned(t *testing.T) {
	r, dir := driveOpen(t), threads(t)
	begun := 0
	begin := func(name, parent string) string {
		row := row(fmt.Sprintf("acme/%s-%d-a2b3c", name, 1795000000+begun))
		begun++
		row.Directive, row.Parent = "directive:acme/"+name, parent
		_, err := roster.BeginLease(t.Context(), r, dir, row, 9)
		driveMust(t, err)
		return row.ID
	}
	top := begin("top", "")
	items := signers{"directive:acme/top": "me", "directive:acme/mine": "me", "directive:acme/theirs": "eve",
		"directive:acme/bad": "broken"}
	for name, want := range map[string]bool{"mine": true, "theirs": false, "bad": false, "gone": false} {
		child := begin(name, top)
		if got := roster.Owned(t.Context(), r, items, child); got != want {
			t.Errorf("%s: %t", name, got)
		}
		if got := roster.Owned(t.Context(), r, items, begin("mine", child)); got != want {
			t.Errorf("below %s: %t", name, got)
		}
	}
	for thread, want := range map[string]bool{"": true, top: true, "acme/none-1795000000-a2b3c": false} {
		if got := roster.Owned(t.Context(), r, items, thread); got != want {
			t.Errorf("%q: %t", thread, got)
		}
	}
}
