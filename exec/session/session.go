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
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
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

// Options say what calls run from and what they have. The zero value runs what the lock pins, without programs in
// PATH, secrets or functions, and only tools that need no sandbox.
type Options struct {
	Mode
	CI bool // items that aren't locked don't run

	Version string   // of this program, for the audit log and for servers; "" for "devel"
	Self    string   // the path of this program if its main function calls Inside; "": nothing can be confined
	Host    env.Host // what programs that calls start have of this machine
	Keys    Keys
	Keyring secret.Keyring // nil: the system has none
	// Functions returns what tools may have this program do in a session, by name; nil: nothing.
	Functions func(*Session) function.Functions
}

// A Mode says which items run. The zero value runs what the lock pins and refuses a working tree that differs, or,
// without a lock and without rye.yaml, what .ai has.
type Mode struct {
	Pinned   bool // what the lock pins, whatever the working tree has
	Dev      bool // one tool of the working tree, unsigned and unlocked, in the sandbox for strangers
	Unlocked bool // what the working tree has, in a project without a lock
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
	known  *known    // what the policies made of the set; nil: nothing yet
	last   model.Ref // that was called
	closed bool
}

// Open makes w ready for calls, which are made of what its lock pins or, where there is no lock and that is allowed,
// of what its spaces have. The caller closes the session, and w after it.
func Open(ctx context.Context, w *workspace.Workspace, o Options) (_ *Session, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	go key.Ready() // each call is signed
	if o.Host.Files == nil {
		o.Host.Files = env.Disk{}
	}
	if keys := w.UserSpace().Below("keys"); o.Keys.Dir == "" && keys.Err == nil {
		o.Keys.Dir = keys.Path
	}
	s := &Session{w: w, o: o, principal: User(), clock: statcache.NewClock()}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.openLock(); err != nil {
		return nil, err
	}
	if s.lock.Old == nil {
		return s, s.mayUnlocked()
	}
	return s, s.hold(ctx)
}

// LockPath is the file of the lock, whether there is one or not.
func (s *Session) LockPath() string { return s.lock.LockPath() }

// User is who calls, for the record; "" if the system doesn't say.
func User() string {
	u, err := user.Current()
	if err != nil || record.CheckText("principal", u.Username) != nil {
		return ""
	}
	return u.Username
}

// Close ends the session: calls that were prepared aren't run any more. An error says that the end of a call can't be
// logged.
func (s *Session) Close() error {
	s.mu.Lock()
	k, last, closed := s.kernel, s.last, s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if k != nil {
		if logged := k.Log.Close(context.Background()); logged != nil {
			err = exec.NotLogged(last, true, logged)
		}
		err = errors.Join(err, k.Close())
		s.clean(k.Copies)
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

func (s *Session) prepare(ctx context.Context, from source, c *exec.Call, chosen bool) (*exec.Plan, error) {
	defer from.close() // the plan has copies
	k, err := s.ready(c.Ref)
	if err != nil {
		return nil, err
	}
	call := *c
	if call.Principal == "" {
		call.Principal = s.principal
	}
	p, err := k.Prepare(ctx, &from.base, &call)
	if err != nil {
		return nil, err
	}
	tool := p.Chain[0].Item
	about := &consent.Call{
		Ref: call.Ref, Digest: tool.Raw, Risk: tool.Model.Tool.Risk.String(), Params: p.Params,
		Principal: call.Principal, Tenant: call.Tenant,
		Attended: !call.Stranger, Chosen: chosen,
	}
	if call.Dry {
		about.Dry = func(q *consent.Question) { p.Asks = q.Why() }
	}
	got, err := consent.Check(ctx, about, from.base.Root, from.base.Project, call.Door)
	if err == nil && got != nil && c.Approval == nil {
		given := p.Params
		p.Close()
		return s.approved(ctx, c, given, got, tool.Raw)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	if call.Approval = got; got == nil {
		call.Approval = c.Approval // no policy asks any more, and it is used all the same
	}
	return p, nil
}

// Consent asks the policies about the call of a tool that isn't run as one, but as a thread, and returns its
// parameters.
func (s *Session) Consent(ctx context.Context, c *exec.Call, it *ai.Item) (given map[string]any, got *consent.Approval,
	err error) {
	if given, err = exec.Complete(it.Model.Tool, c); err != nil {
		return nil, nil, err
	}
	from, err := s.resolve(ctx, c.Ref)
	if err != nil {
		return nil, nil, err
	}
	defer from.close()
	about := &consent.Call{Ref: c.Ref, Digest: it.Raw, Risk: it.Model.Tool.Risk.String(), Params: given,
		Principal: cmp.Or(c.Principal, s.principal), Tenant: c.Tenant,
		Attended: !c.Stranger}
	got, err = consent.Check(ctx, about, from.base.Root, from.base.Project, c.Door)
	return given, got, err
}

// approved prepares a call again whose parameters were approved: the answer took its time, and what counts are the
// policies and the working tree as they are now.
func (s *Session) approved(ctx context.Context, c *exec.Call, given map[string]any, got *consent.Approval,
	digest cas.Digest) (*exec.Plan, error) {
	call := *c
	call.Approval, call.Params = got, params.Values(given)
	call.Door = &consent.Door{Thread: c.Door.Thread, Flow: c.Door.Flow,
		Approve: func(_ context.Context, q *consent.Question) (*consent.Approval, error) {
			if q.Digest != digest {
				return nil, fault.New(fault.Conflict, "%q has changed since its call was approved", c.Ref).On("ref",
					c.Ref.String())
			}
			return got, nil
		}}
	from, err := s.resolve(ctx, c.Ref)
	var p *exec.Plan
	if err == nil {
		p, err = s.prepare(ctx, from, &call, false)
	}
	if err != nil && got.Drop != nil && ctx.Err() == nil {
		return nil, errors.Join(err, got.Drop(ctx, err))
	}
	return p, err
}

// Call prepares a call and runs it. What the tool writes meanwhile goes to the sink, nil for nowhere. A tool that
// fails has a result and no error: see exec.Plan.Run.
func (s *Session) Call(ctx context.Context, c *exec.Call, to primitive.Sink) (*exec.Result, error) {
	from, err := s.resolve(ctx, c.Ref)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, from, c, to, false)
}

// CallChosen is Call for a tool that rye itself chooses: see Chosen. No policy asks about it.
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

// ready returns the kernel, made at the first call, and remembers what is called.
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
