package control

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A Node is a thread in a tree or a chain.
type Node struct {
	Thread    string    `json:"thread"`
	Directive string    `json:"directive"`
	Status    string    `json:"status"`
	Parent    string    `json:"parent,omitempty"`    // the thread that started it
	Continues string    `json:"continues,omitempty"` // the thread before it in its chain
	Next      string    `json:"next,omitempty"`      // the thread after it
	Spend     float64   `json:"spend"`               // dollars, with those of its children
	Started   time.Time `json:"started"`
	Depth     int       `json:"depth"` // below the first
}

func directiveOf(row *roster.Thread) string { return strings.TrimPrefix(row.Directive, "directive:") }

// all returns the rows of the project, with the oldest first, and the accounts.
func (c *Controller) all(ctx context.Context) ([]*roster.Thread, map[string]*ledger.Balance, error) {
	rows, err := Tidy(ctx, c.Roster, c.Ledger, roster.Filter{Root: c.Root}, c.Now())
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(rows, func(a, b *roster.Thread) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	money, err := c.Ledger.Accounts(ctx)
	return rows, money, err
}

func nodeOf(row *roster.Thread, money *ledger.Balance) *Node {
	n := &Node{Thread: row.ID, Directive: directiveOf(row), Status: string(row.State), Parent: row.Parent,
		Continues: row.Continues, Next: row.Next, Started: row.Created}
	if row.Lost {
		n.Status = Lost
	}
	if money != nil {
		n.Spend = float64(money.Own+money.Below) / limits.Nano
	}
	return n
}

// Tree returns a thread and the threads below it, each behind its parent; for "" all threads of the project.
func (c *Controller) Tree(ctx context.Context, name string) ([]*Node, error) {
	top := ""
	if name != "" {
		row, err := c.Find(ctx, name)
		if err != nil {
			return nil, err
		}
		top = row.ID
		c = c.in(row)
	}
	rows, money, err := c.all(ctx)
	if err != nil {
		return nil, err
	}
	known, children := map[string]*roster.Thread{}, map[string][]*roster.Thread{}
	for _, row := range rows {
		known[row.ID] = row
	}
	for _, row := range rows {
		above := row.Parent
		if known[above] == nil { // it is of another project, or there is none
			above = ""
		}
		children[above] = append(children[above], row)
	}
	nodes := []*Node{}
	var add func(row *roster.Thread, depth int)
	add = func(row *roster.Thread, depth int) {
		n := nodeOf(row, money[row.ID])
		n.Depth = depth
		nodes = append(nodes, n)
		below := children[row.ID]
		delete(children, row.ID) // whatever the rows say, each is listed once
		for _, child := range below {
			add(child, depth+1)
		}
	}
	if top != "" {
		add(known[top], 0)
		return nodes, nil
	}
	for _, row := range children[""] {
		add(row, 0)
	}
	return nodes, nil
}

// in returns a controller for the project of a thread.
func (c *Controller) in(row *roster.Thread) *Controller {
	other := *c
	other.Root = ""
	if row.Gone() == nil {
		other.Root = row.Project.Root
	}
	return &other
}

// Chain returns the threads that do the work of one, the first first.
func (c *Controller) Chain(ctx context.Context, name string) ([]*Node, error) {
	rows, err := c.chain(ctx, name)
	if err != nil {
		return nil, err
	}
	money, err := c.Ledger.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	nodes := []*Node{}
	for _, row := range rows {
		nodes = append(nodes, nodeOf(row, money[row.ID]))
	}
	return nodes, nil
}

// Last returns the row of the last thread of a chain.
func (c *Controller) Last(ctx context.Context, name string) (*roster.Thread, error) {
	rows, err := c.chain(ctx, name)
	if err != nil {
		return nil, err
	}
	return FindRow(ctx, c.Roster, rows[len(rows)-1].ID)
}

func (c *Controller) chain(ctx context.Context, name string) ([]*roster.Thread, error) {
	row, err := c.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := c.Roster.Threads(ctx, roster.Filter{})
	if err != nil {
		return nil, err
	}
	byID, after := map[string]*roster.Thread{}, map[string]*roster.Thread{}
	for _, t := range all { // the newest first: of several that continue one thread, the first counts
		byID[t.ID] = t
		if t.Continues != "" && Follows(t) {
			after[t.Continues] = t
		}
	}
	seen := map[string]bool{row.ID: true}
	rows := []*roster.Thread{row}
	for t := byID[row.Continues]; t != nil && !seen[t.ID]; t = byID[t.Continues] {
		seen[t.ID] = true
		rows = append([]*roster.Thread{t}, rows...)
	}
	for t := cmp.Or(byID[row.Next], after[row.ID]); t != nil && !seen[t.ID]; t = cmp.Or(byID[t.Next], after[t.ID]) {
		seen[t.ID] = true
		rows = append(rows, t)
	}
	return rows, nil
}

// Below refuses a thread that isn't one of those below another one, which asks for it.
func (c *Controller) Below(ctx context.Context, above, id string) error {
	rows, err := c.Roster.Threads(ctx, roster.Filter{})
	if err != nil {
		return err
	}
	parents := map[string]string{}
	for _, row := range rows {
		parents[row.ID] = row.Parent
	}
	at := parents[id]
	for range len(rows) { // no cycle ends this
		if at == "" || at == above {
			break
		}
		at = parents[at]
	}
	if at == above && above != "" {
		return nil
	}
	return fault.New(fault.Denied, "the thread %s is not one that %s started", id, above).On("thread", id)
}
