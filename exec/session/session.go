package session

import (
	"cmp"
	"context"
	"errors"
	"os/user"
	"slices"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
)

// Options configure a session. The zero value runs pinned items, without programs in PATH, secrets or functions, and
// only tools that need no sandbox.
type Options struct {
	Mode
	CI bool // items that aren't locked don't run

	Version string   // of this program, for the audit log and for servers; "" for "devel"
	Self    string   // the path of this program if its main function calls Inside; "": nothing can be confined
	Host    env.Host // what programs that calls start have of this machine
	Keys    Keys
	Keyring secret.Keyring // nil: the system has none
	// Plugins returns the plugins whose files tools run with, instead of those that the lock has. It is for what isn't
	// a bundle yet: see chain.ReadPlugin.
	Plugins chain.Plugins
	// Functions returns what tools may have this program do in a session, by name; nil: nothing.
	Functions func(*Session) function.Functions
}

// A Mode selects the items that run. The zero value runs pinned items and refuses a working tree that differs. Without
// a lock and without rye.yaml it runs the items of .ai.
type Mode struct {
	Pinned   bool // pinned items, even if the working tree differs
	Dev      bool // one tool of the working tree, unsigned and unlocked, in the sandbox for strangers
	Unlocked bool // items of the working tree, in a project without a lock
	Locked   bool // only with a lock that matches rye.yaml
}

// check refuses modes that exclude each other.
func (o *Options) check() error {
	both := func(x, y string) error {
		return fault.New(fault.Validation, "%s and %s exclude each other", x, y).Try("rye docs exec")
	}
	switch {
	case o.Dev && o.Pinned:
		return both("--dev", "--pinned")
	case o.Dev && o.Locked:
		return both("--dev", "--locked")
	case o.Unlocked && o.Locked:
		return both("--unlocked", "--locked")
	case o.Unlocked && o.Pinned:
		return both("--unlocked", "--pinned")
	case o.Dev && o.CI:
		return fault.New(fault.NotLocked, "--dev is refused in CI: only locked tools run there").Try("rye lock")
	}
	return nil
}

// A Session is a workspace that is ready for calls. It holds one set: a lock that is written after Open changes
// nothing for it. Policies, revocations and the working tree count for each call as they are then. It is safe for many
// goroutines.
type Session struct {
	w         *workspace.Workspace
	o         Options
	lock      *workspace.Lock
	set       *lock.Set // nil without a lock
	principal string
	clock     func() statcache.Moment
	done      []func() // run by Close, the last first

	mu     sync.Mutex // of what follows
	kernel *exec.Kernel
	rules  *classification.Rules
	known  *known    // nil: nothing yet
	last   model.Ref // that was called
	closed bool
}

// Open opens a session of workspace. Its calls run the items of the lock or, if there is no lock and that is allowed,
// of the spaces. The caller closes the session, and workspace after it.
func Open(ctx context.Context, workspace *workspace.Workspace, options Options) (_ *Session, err error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	go key.Ready() // each call is signed
	if options.Host.Files == nil {
		options.Host.Files = env.Disk{}
	}
	if keys := workspace.UserSpace().Below("keys"); options.Keys.Dir == "" && keys.Err == nil {
		options.Keys.Dir = keys.Path
	}
	session := &Session{w: workspace, o: options, principal: User(), clock: statcache.NewClock()}
	defer func() {
		if err != nil {
			session.Close()
		}
	}()
	if err := session.openLock(); err != nil {
		return nil, err
	}
	if session.lock.Old == nil {
		return session, session.mayUnlocked()
	}
	return session, session.hold(ctx)
}

// LockPath returns the path of the lock, which may not exist.
func (s *Session) LockPath() string { return s.lock.LockPath() }

// User returns the name of the current user for records; "" if the system has none.
func User() string {
	u, err := user.Current()
	if err != nil || record.CheckText("principal", u.Username) != nil {
		return ""
	}
	return u.Username
}

// Close ends the session. Prepared calls can't run after it. An error means that the end of a call could not be
// logged.
func (s *Session) Close() error {
	s.mu.Lock()
	kernel, last, closed := s.kernel, s.last, s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if kernel != nil {
		if logged := kernel.Log.Close(context.Background()); logged != nil {
			err = exec.NotLogged(last, true, logged)
		}
		err = errors.Join(err, kernel.Close())
		s.clean(kernel.Copies)
	}
	for _, f := range slices.Backward(s.done) {
		f()
	}
	return err
}

// Tool returns the tool that a call of ref would run, or why it would not.
func (s *Session) Tool(ctx context.Context, ref model.Ref) (*ai.Item, error) {
	from, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer from.close()
	return from.base.Resolver.Resolve(ctx, ref, nil)
}

// Config returns the configuration of a name as calls see it.
func (s *Session) Config(ctx context.Context, name string) (*ai.Merged, error) {
	from, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	defer from.close()
	return from.config(ctx, name)
}

// Prepare decides everything about a call and starts nothing: see exec.Kernel. It refuses a tool whose files in the
// working tree differ from the lock, and gets the approval that the policies ask for. The caller closes the plan.
func (s *Session) Prepare(ctx context.Context, c *exec.Call) (*exec.Plan, error) {
	from, err := s.resolve(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	return s.prepare(ctx, from, c, false)
}

// prepare prepares a call from a source, which it closes: the plan has copies. rye itself has chosen the tool of a
// chosen call.
func (s *Session) prepare(ctx context.Context, from source, c *exec.Call, chosen bool) (*exec.Plan, error) {
	defer from.close()
	k, err := s.ready(c.Ref)
	if err != nil {
		return nil, err
	}
	call := *c
	call.Principal = cmp.Or(c.Principal, s.principal)
	target, err := k.Resolve(ctx, &from.base, &call)
	if err != nil {
		return nil, err
	}
	asked, why := target.Asked(), ""
	if asked.Chosen = chosen; call.Dry {
		asked.Dry = func(q *consent.Question) { why = q.Why() }
	}
	got, err := consent.Check(ctx, asked, from.base.Root, from.base.Project, call.Door)
	if err != nil {
		return nil, err
	}
	if got != nil && call.Approval == nil {
		call.Approval, call.Params = got, params.Values(asked.Params)
		return s.prepareApproved(ctx, &call)
	}
	p, err := target.Prepare(ctx)
	if err == nil {
		p.Asks = why
	}
	return p, err
}

// prepareApproved prepares a call that has just been approved. The answer took its time: what counts are the policies
// and the files as they are now. If the call can't be made any more, its approval is dropped.
func (s *Session) prepareApproved(ctx context.Context, c *exec.Call) (*exec.Plan, error) {
	p, err := s.Prepare(ctx, c)
	return p, dropped(ctx, c.Approval, err)
}

// dropped drops the approval of a call that isn't made after all because of err.
func dropped(ctx context.Context, a *consent.Approval, err error) error {
	if err == nil || a.Drop == nil || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, a.Drop(ctx, err))
}

// Consent gets the approval for a graph, which runs as a thread instead of as a call, and returns its complete
// parameters. Like Prepare, it refuses a graph that has changed since it was approved.
func (s *Session) Consent(ctx context.Context, call *exec.Call, it *ai.Item) (given map[string]any,
	got *consent.Approval, err error) {
	if given, err = exec.Complete(it.Model.Tool, call); err != nil {
		return nil, nil, err
	}
	asked := &consent.Call{Ref: call.Ref, Params: given, Set: s.Set(),
		Principal: cmp.Or(call.Principal, s.principal), Tenant: call.Tenant, Attended: !call.Stranger}
	if got, err = s.check(ctx, asked, it, call.Door); err != nil || got == nil {
		return given, nil, err
	}
	now, err := s.Item(ctx, call.Ref)
	if err == nil {
		asked.Approval = got
		_, err = s.check(ctx, asked, now, call.Door)
	}
	return given, got, dropped(ctx, got, err)
}

// check asks the policies, as they are now, about a call of a graph.
func (s *Session) check(ctx context.Context, c *consent.Call, graph *ai.Item,
	door *consent.Door) (*consent.Approval, error) {
	from, err := s.resolve(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	defer from.close()
	grants, err := from.base.Allowed(graph.Model.Tool, c.Ref, false, nil)
	if err != nil {
		return nil, err
	}
	risk, why := grants.Risk(graph.Model.Tool, true) // a graph itself only calls items, which run in sandboxes
	c.Digest, c.Risk, c.Derived, c.Declare = graph.Raw, risk.String(), why, graph.Model.RiskLine(risk)
	return consent.Check(ctx, c, from.base.Root, from.base.Project, door)
}

// Call prepares a call and runs it. The tool's output goes to the sink while it runs; a nil sink drops it. A tool that
// fails has a result and no error: see exec.Plan.Run.
func (s *Session) Call(ctx context.Context, c *exec.Call, to primitive.Sink) (*exec.Result, error) {
	from, err := s.resolve(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, from, c, to, false)
}

// CallChosen is Call for a tool that rye itself selects: see Chosen. It needs no approval.
func (s *Session) CallChosen(ctx context.Context, c *exec.Call, to primitive.Sink) (*exec.Result, error) {
	from, err := s.chosen(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, from, c, to, true)
}

func (s *Session) call(ctx context.Context, from source, c *exec.Call, to primitive.Sink, chosen bool) (*exec.Result,
	error) {
	p, err := s.prepare(ctx, from, c, chosen)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Run(ctx, to)
}

// Scratch returns a private directory, which is removed when it is closed.
func (s *Session) Scratch(ctx context.Context) (*materialise.Scratch, error) {
	k, err := s.ready(model.Ref{})
	if err != nil {
		return nil, err
	}
	return k.Copies.Scratch(ctx)
}

// ready returns the kernel, which the first call creates, and notes ref as the last call.
func (s *Session) ready(ref model.Ref) (*exec.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Unavailable, "%q was not run: the session is closed", ref)
	}
	if s.kernel == nil {
		k, err := s.newKernel()
		if err != nil {
			return nil, err
		}
		s.kernel = k
	}
	if ref != (model.Ref{}) {
		s.last = ref
	}
	return s.kernel, nil
}
