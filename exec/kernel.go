package exec

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/key"
)

// A Kernel runs calls. It isn't changed once it is used, and is safe for concurrent use.
type Kernel struct {
	Primitives map[string]primitive.Primitive // by the ids of their items
	Copies     *materialise.Cache
	Host       env.Host
	Offline    bool // no call reaches another machine
	Now        func() time.Time

	// Confines reports whether the sandbox of this machine enforces grants. Optional: nil is a machine without one.
	Confines func() bool

	// Own reports whether the user of this machine holds the private half of a key.
	Own func(key.Fingerprint) bool

	Project string // the directory that calls are about
	User    string // that of the user's space; "" for none
	Data    string // where plugins have their data; "" for nowhere
	// Secret are files and directories that no call reads or writes whatever it was granted, and Forbidden those that
	// no program is taken from.
	Secret, Forbidden []string
	// DotEnv reads the project's variables if the policies allow it. Optional.
	DotEnv func() ([]env.Variable, error)
	// Secrets returns the value of a secret, as secret.Store does. Optional.
	Secrets func(ctx context.Context, name string) (string, error)

	Log     *audit.Log
	Machine key.Private // signs receipts
	Voucher []byte      // for the machine's key; optional

	pythons sync.Map // *packages.Python by digest and path
}

// A Base provides the items of a call, from a set of pins or from spaces, and the current policies.
type Base struct {
	chain.Policies
	Resolver ai.Resolver
	Admit    *ai.Admitter
	// Unlisted returns the files of a tool that no signature covers, as bundle.Listing does; nil: none.
	Unlisted func(*ai.Admission) []string
	Set      cas.Digest // of the lock; zero for spaces
	// Program returns the lock's line for a program on this machine: the one with the digest, else one with the name,
	// else nil. Names are those of lock.ProgramName.
	Program func(name string, digest cas.Digest) *file.Program
	// Artifacts returns the pinned artifacts of one version of a registry's package, as file.Lock.ArtifactsOf does,
	// and Objects has the bytes. Both are nil without a lock: then no tool has packages.
	Artifacts func(name, version string) []file.Artifact
	Objects   cas.Getter
	// Plugins returns the plugins whose files tools run with; nil: there are none.
	Plugins chain.Plugins
	// Allow returns the rights that the project gives a server of a plugin, as rye.yaml has them now; nil: none.
	Allow func(plugin, server string) ([]string, error)
	// Published returns the version of the bundle that an item of a space is from, by its label, as "acme/base@1.0.0",
	// and the registry that it came from; "" if it came from none. Optional.
	Published func(space, item string) (version, registry string)
	// Known keeps the chains that were admitted; nil: none. Everything else of the base stays the same for as long.
	Known *chain.Memory
	// Dev is a tool that needs no signature, because the caller means to run it from the working tree.
	Dev model.Ref
}

// A Call is a request to run a tool once.
type Call struct {
	Ref     model.Ref
	Params  func(*params.Schema) (map[string]any, error) // given once; nil for none
	Timeout time.Duration                                // 0: the chain's own
	// Project replaces the kernel's project directory, such as by an empty one for a test. Virtual environments are
	// still looked for in the kernel's.
	Project           string
	Principal, Tenant string            // who calls, and the tenant
	Approval          *consent.Approval // that it has; nil: none
	Door              *consent.Door     // what makes it
	Stranger          bool              // the user isn't present: own items and the library's run as another signer's
	Declared          bool              // own items get all that they declare even so, in the sandbox for strangers
	Within            *capability.Set   // narrows the permissions; nil: as declared
	// Keep receives the receipts of all calls below this one. Many goroutines call it. Optional.
	Keep func(receipt []byte)
	Dry  bool // Prepare starts nothing, and leaves open what can't be known so; such a plan isn't run
	// Build makes it a step of a build, which depends only on its action: the tool must be pure, gets no network and
	// no file of the project even if declared, has nothing of the machine or the user in its environment, and works in
	// Plan.Work.
	Build bool
}

// A Caller is a call that runs, for the calls that it makes.
type Caller struct {
	ID     string
	Grants chain.Grants

	stranger bool     // another signer's item takes part
	secrets  []string // values, which are removed from the output of its children too
	children *children
	keep     func(receipt []byte) // nil: they are not kept
	call     *Call
	above    *Caller // that made this call; nil if no call did
	foreign  bool    // an item of its chain is another signer's
	unbound  bool    // it doesn't limit the grants of its children
}

// children are the calls that a call has made.
type children struct {
	mu   sync.Mutex
	made []receipt.Child
}

// did notes calls that it has made, and returns all so far.
func (c *Caller) did(more ...receipt.Child) []receipt.Child {
	c.children.mu.Lock()
	defer c.children.mu.Unlock()
	c.children.made = append(c.children.made, more...)
	return slices.Clone(c.children.made)
}

// Pass returns a call of ref in the name of this call's caller, and the context to make it with. A tool that only
// forwards a request declares nothing itself, so the forwarded call is limited by the caller's grants instead of by
// this call's. In the receipt and the log it is a child of this call. If another signer's item is in the chain of this
// call, nothing is forwarded: the child is limited as any other.
func (c *Caller) Pass(ctx context.Context, ref model.Ref) (context.Context, *Call) {
	of := c.call
	call := &Call{Ref: ref, Project: of.Project, Principal: of.Principal, Tenant: of.Tenant, Door: of.Door,
		Stranger: of.Stranger,
		Declared: of.Declared, Within: of.Within}
	if c.foreign {
		call.Stranger, call.Declared = true, false
		return ctx, call
	}
	self := &Caller{ID: c.ID, secrets: c.secrets, children: c.children, keep: c.keep, call: of, unbound: true}
	if c.above != nil {
		self.Grants, self.stranger, self.unbound = c.above.Grants, c.above.stranger, c.above.unbound
	}
	return context.WithValue(ctx, callerKey{}, self), call
}

type callerKey struct{}

// CallerOf returns the call that a primitive runs for; nil outside of one. Calls made with its context are its
// children: they are allowed no more, end with it, and are in its receipt.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// Close closes the primitives that want it.
func (k *Kernel) Close() error {
	var errs []error
	for _, p := range k.Primitives {
		if c, ok := p.(primitive.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Input returns the schema of a tool's parameters.
func Input(t *model.Tool) (*params.Schema, error) { return params.Compile(t.Interface().Input) }

// Complete returns the parameters of a call, checked and completed by the declarations of its tool.
func Complete(t *model.Tool, call *Call) (map[string]any, error) {
	schema, err := Input(t)
	if err != nil {
		return nil, ConfigError(call.Ref, err)
	}
	given := map[string]any{}
	if call.Params != nil {
		if given, err = call.Params(schema); err != nil {
			return nil, err
		}
	}
	if given, err = schema.Complete(given); err != nil {
		return nil, inputError(call.Ref, err)
	}
	return given, nil
}
