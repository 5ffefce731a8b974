// Package settle finds threads whose process died, and the money that ended or lost threads still hold.
//
//	changed, err := settle.All(ctx, registry, ledger, now)
//
// rye has no daemon: commands that run or list threads call it first. It takes no thread from a process that runs, and two
// processes that settle the same thread do no harm: each write names the epoch that was seen.
package settle

import (
	"context"
	"os"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/registry"
	"github.com/rye-build/rye/exec/thread/results"
)

// Keep is how long the money of a thread that was interrupted stays reserved.
const Keep = time.Hour

// All gives threads whose driver has died on this machine the state that their record has: interrupted, unless it has an end.
// It closes the accounts of threads that have ended, that are lost, or that were interrupted an hour ago; resuming opens one again.
// It returns the threads whose state it changed.
func All(ctx context.Context, r registry.Registry, l ledger.Ledger, now time.Time) (changed []*registry.Thread, err error) {
	rows, err := r.Threads(ctx, registry.Filter{Live: true})
	if err != nil {
		return nil, err
	}
	live := map[string]*registry.Thread{}
	host, _ := os.Hostname()
	for _, t := range rows {
		state := died(t, host, now)
		if state == "" {
			live[t.ID] = t
			continue
		}
		switch err := r.Set(ctx, t.ID, t.Epoch, state, ""); {
		case err == nil:
			t.State, t.Updated = state, now
			changed = append(changed, t)
		case !outrun(err):
			return changed, err
		}
		if !state.Ended() {
			live[t.ID] = t
		}
	}
	accounts, err := l.Accounts(ctx)
	if err != nil {
		return changed, err
	}
	for id, a := range accounts {
		if t := live[id]; a.Closed || t != nil && !released(t, now) {
			continue
		}
		if live[id] == nil { // it may have begun since
			t, err := registry.Get(ctx, r, id)
			if err == nil && !t.State.Ended() || err != nil && fault.CodeOf(err) != fault.NotFound {
				continue
			}
		}
		if err := l.Do(ctx, ledger.Close(id, a.Epoch, now)); err != nil && !outrun(err) {
			return changed, err
		}
	}
	return changed, nil
}

// died returns the state of a thread whose driver has died, "" if it hasn't. What runs on another host isn't known.
func died(t *registry.Thread, host string, now time.Time) registry.State {
	switch {
	case t.State == registry.Created && now.Sub(t.Updated) > Keep: // its process died before it was the driver
		return registry.Failed
	case !t.Dead || t.Driver.Host != host:
		return ""
	}
	if r, err := results.Of(t.Dir()); err == nil && registry.State(r.Status).Ended() && r.Status != results.Continued {
		return registry.State(r.Status)
	}
	return registry.Interrupted
}

// released reports whether the money of a thread isn't kept for it any longer.
func released(t *registry.Thread, now time.Time) bool {
	switch {
	case t.Alive && (t.State == registry.Running || t.State == registry.Waiting):
		return false
	case t.Lost:
		return true
	}
	return t.State == registry.Interrupted && now.Sub(t.Updated) >= Keep
}

// outrun reports whether another process was faster.
func outrun(err error) bool { return fault.CodeOf(err) == fault.Conflict }
