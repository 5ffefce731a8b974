package plan

import (
	"context"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
)

// An After is what a new thread has of one that has ended, whose work it goes on with. A nil one has nothing.
type After struct {
	Thread  string         // "" if the new thread only takes its place below the same parent
	Under   string         // the thread above, which this process doesn't drive
	Foreign bool           // a directive above isn't the user's own
	Chosen  bool           // rye itself chooses the directive
	Caps    capability.Set // what it may do at most
	Limits  limits.Set     // the rest of them
	// Messages returns those that it begins with, for a model with a context window of so many tokens, 0 if that isn't
	// known.
	Messages func(ctx context.Context, window int64) ([]any, error)
}

// Bound returns the limits of the new thread, whose directive has these.
func (a *After) Bound(l limits.Set) limits.Set {
	if a == nil {
		return l
	}
	return a.Limits
}

// Permit bounds what the new thread may do: by the policies, and by what the old one could.
func (a *After) Permit(ctx context.Context, p *Plan) error {
	if err := p.Permit(ctx); err != nil || a == nil {
		return err
	}
	return p.Narrow(a.Caps)
}

// First returns the messages that the new thread begins with, nil for those of its directive.
func (a *After) First(ctx context.Context, m provider.Model) ([]any, error) {
	if a == nil || a.Messages == nil {
		return nil, nil
	}
	window := int64(0)
	if p := m.Provider(); p != nil {
		window = p.Window(m.Name())
	}
	return a.Messages(ctx, window)
}
