package roster

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// Pruned is what remains of a thread whose directory was removed on purpose. The row with it commits the removal:
// any files left belong to no thread.
type Pruned struct {
	At     time.Time  `json:"at"`
	Lines  int64      `json:"lines,omitzero"` // of the transcript
	Line   int64      `json:"line,omitzero"`  // the last signed line, or zero
	Digest cas.Digest `json:"digest,omitzero"`
	Signer string     `json:"signer,omitempty"` // the fingerprint of the machine that signed it
	Uses   []Use      `json:"uses,omitempty"`
	Spend  int64      `json:"spend,omitzero"`          // nano-dollars, its own
	Below  int64      `json:"spend_children,omitzero"` // nano-dollars, of all threads below it
}

// A Use adds up the calls of one model on one day, with money in nano-dollars.
type Use struct {
	Model  string `json:"model"`
	Day    string `json:"day"`
	Calls  int64  `json:"calls"`
	Input  int64  `json:"input_tokens"`
	Output int64  `json:"output_tokens"`
	Spend  int64  `json:"spend"`
}

// MaxUses bounds the uses in a row, which is one line of the roster.
const MaxUses = 128

// Gone returns the error for a pruned or lost thread, or nil if its directory exists.
func (t *Thread) Gone() error {
	if p := t.Pruned; p != nil {
		f := fault.New(fault.NotFound, "the thread %s was pruned on %s", t.ID, p.At.Format(time.DateOnly)).On("thread",
			t.ID).On("reason", "pruned")
		return f.Because("its transcript was removed; state, cost and the last signed digest remain").
			Try("rye thread show " + fault.Quote(t.ID))
	}
	if t.Lost {
		return t.lost()
	}
	return nil
}

// lost returns the error for a thread with a missing directory.
func (t *Thread) lost() *fault.Error {
	return fault.New(fault.NotFound, "the thread %s is lost: its directory %q is missing", t.ID, t.Dir()).On("thread",
		t.ID).
		Because("restore it from a backup").Try(fault.Command("rye run", t.Directive))
}

// Related groups the threads that need each other's records: a thread, its children, and the threads that continue
// its work.
func Related(rows []*Thread) (groups [][]*Thread) {
	root := map[string]string{}
	var find func(string) string
	find = func(id string) string {
		up, known := root[id]
		if !known || up == id {
			return id
		}
		root[id] = find(up)
		return root[id]
	}
	for _, t := range rows {
		for _, other := range []string{t.Parent, t.Continues, t.Next} {
			if other != "" {
				root[find(other)] = find(t.ID)
			}
		}
	}
	at := map[string]int{}
	for _, t := range rows {
		top := find(t.ID)
		i, known := at[top]
		if !known {
			i, at[top] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

// Blocks returns the first thread that hasn't ended. Until it ends, the group can't be pruned.
func Blocks(group []*Thread) *Thread {
	for _, t := range group {
		if !t.State.Ended() {
			return t
		}
	}
	return nil
}

// Prune implements Roster.
func (l *Local) Prune(ctx context.Context, threads map[string]Pruned) error {
	return l.book.Change(ctx, func(r *rows) ([]any, error) {
		var all []*Thread
		for _, id := range slices.Sorted(maps.Keys(r.byID)) {
			all = append(all, r.byID[id])
		}
		var records []any
		for _, group := range Related(all) {
			for _, thread := range group {
				pruned, selected := threads[thread.ID]
				if !selected || thread.Pruned != nil {
					continue
				}
				if b := Blocks(group); b != nil {
					return nil, fault.New(fault.Conflict, "the thread %s can't be pruned: %s is %s", thread.ID, b.ID,
						b.State).On("thread", b.ID)
				}
				if len(pruned.Uses) > MaxUses {
					return nil, fault.New(fault.Validation, "the thread %s has used more than %d models a day",
						thread.ID,
						MaxUses)
				}
				row := *thread
				row.Pruned = &pruned
				records = append(records, record{"prune", &row})
			}
		}
		return records, nil
	})
}
