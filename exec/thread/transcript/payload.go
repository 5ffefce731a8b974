package transcript

import (
	"encoding/json"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
)

// A Type is the kind of an event.
type Type string

// The types of events.
const (
	TypeStarted     Type = "thread_started"
	TypeDriver      Type = "driver"
	TypeRequest     Type = "request"
	TypeAnswer      Type = "answer"
	TypeClassified  Type = "error_classified"
	TypeCallStarted Type = "call_started"
	TypeCallResult  Type = "call_result"
	TypeArtifact    Type = "artifact"
	TypeHook        Type = "hook"
	TypeLimit       Type = "limit"
	TypeWaiting     Type = "waiting"
	TypeContinued   Type = "continued"
	TypeCheckpoint  Type = "checkpoint"
	TypeCompleted   Type = "thread_completed"
	TypeFailed      Type = "thread_error"
	TypeCancelled   Type = "thread_cancelled"
	TypeHandedOff   Type = "thread_continued"
	TypeNodeStarted Type = "node_started"
	TypeNodeResult  Type = "node_result"
	TypeState       Type = "state"
	TypeReturned    Type = "returned"
)

// IsEnd reports whether an event of the type ends the thread.
func (t Type) IsEnd() bool {
	return t == TypeCompleted || t == TypeFailed || t == TypeCancelled || t == TypeHandedOff
}

// A Payload is the content of an event: one of the structs of this package. The schema also checks other
// implementations.
type Payload interface{ Type() Type }

// An Item is an item as pinned by the thread's set.
type Item struct {
	Ref    string     `json:"ref"`
	Digest cas.Digest `json:"digest,omitzero"`
}

// Limits bound a thread. A nil limit isn't set.
type Limits struct {
	Turns    *int64 `json:"turns,omitempty"`
	Tokens   *int64 `json:"tokens,omitempty"`
	Spend    *int64 `json:"spend,omitempty"` // nano-dollars
	Spawns   *int64 `json:"spawns,omitempty"`
	Duration *int64 `json:"duration,omitempty"`
}

// Usage is the usage that a provider reported for a model call.
type Usage struct {
	Input      int64 `json:"input,omitzero"`
	Output     int64 `json:"output,omitzero"`
	CacheRead  int64 `json:"cache_read,omitzero"`
	CacheWrite int64 `json:"cache_write,omitzero"`
	Reasoning  int64 `json:"reasoning,omitzero"`
	Reported   bool  `json:"reported,omitzero"` // the service reported the others
}

// A Cost is the use of a thread so far.
type Cost struct {
	Turns        int64         `json:"turns"`
	InputTokens  int64         `json:"input_tokens"`
	OutputTokens int64         `json:"output_tokens"`
	Spend        int64         `json:"spend"`            // nano-dollars, its own
	Below        int64         `json:"below,omitzero"`   // of all threads below it
	Elapsed      time.Duration `json:"elapsed,omitzero"` // over all resumes
}

// A Fault is an error for the model and for people.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Status  int    `json:"status,omitzero"` // of HTTP
}

// Format is the member format of thread_started.
const Format = "rye transcript/2"

// Started is the first event, with everything that the thread is bound to.
type Started struct {
	Format    string `json:"format"` // set by Create
	Kind      string `json:"kind"`   // "directive" or "graph"
	Directive Item   `json:"directive"`
	Loop      Item   `json:"loop,omitzero"`
	// The items that make messages: rye/agent/context, guard and continuation.
	Agents   []Item       `json:"agents,omitzero"`
	Provider Item         `json:"provider,omitzero"`
	Model    string       `json:"model,omitzero"`
	Set      cas.Digest   `json:"set,omitzero"`
	Lock     cas.Digest   `json:"lock,omitzero"`  // of rye.lock; zero without one
	Policy   []cas.Digest `json:"policy"`         // ids of the policies in force, the root's first
	Grants   []string     `json:"grants"`         // capabilities in canonical form
	Signs    bool         `json:"signs,omitzero"` // rye_sign is offered to the model
	Limits   Limits       `json:"limits"`
	Depth    int64        `json:"depth"`
	Inputs   cas.Digest   `json:"inputs,omitzero"` // of their canonical form, redacted
	// Given has the inputs themselves, completed and redacted, for a replay.
	Given     map[string]any `json:"given,omitzero"`
	Principal string         `json:"principal,omitzero"`
	Parent    string         `json:"parent,omitzero"`    // the thread that started this one
	Continues string         `json:"continues,omitzero"` // the thread that handed over to this one
}

// Driver records the process that drives the thread from here on. The Writer sets its Key.
type Driver struct {
	Epoch   int64           `json:"epoch"` // rises with each driver
	Host    string          `json:"host,omitzero"`
	Process int             `json:"process,omitzero"`
	Start   string          `json:"started,omitzero"` // of the process, as in the roster
	Program string          `json:"program,omitzero"`
	Key     key.Public      `json:"key"`
	Voucher json.RawMessage `json:"voucher,omitzero"`
}

// A Request is recorded before each model call.
type Request struct {
	Turn     int64          `json:"turn"`
	Attempt  int64          `json:"attempt"`        // from 1, within the turn
	Digest   cas.Digest     `json:"digest"`         // of the whole request, redacted, in canonical form
	Kept     int64          `json:"kept"`           // number of first messages from the previous request
	Messages []any          `json:"messages"`       // JSON values, or values encoded like a Message
	Tools    []any          `json:"tools,omitzero"` // if they differ from the previous request
	Provider Item           `json:"provider"`
	Model    string         `json:"model"`
	Params   map[string]any `json:"params,omitzero"`
	Reserved int64          `json:"reserved,omitzero"` // nano-dollars
}

// A Message is the form in which readers decode a member of Request.Messages, which may have other members.
type Message struct {
	Role   string     `json:"role"` // system, user, assistant or tool
	Text   string     `json:"text,omitzero"`
	Calls  []ToolCall `json:"calls,omitzero"`
	CallID string     `json:"call_id,omitzero"` // the call of a tool's message
	Failed bool       `json:"failed,omitzero"`
}

// A ToolCall is a model's request for a call.
type ToolCall struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Input map[string]any `json:"input,omitzero"`
	Raw   string         `json:"raw,omitzero"` // the model's text instead of an object
}

// An Answer is the model's answer to the last request.
type Answer struct {
	Turn      int64         `json:"turn"`
	Attempt   int64         `json:"attempt"`
	Text      string        `json:"text,omitzero"`
	Reasoning string        `json:"reasoning,omitzero"`
	Calls     []ToolCall    `json:"calls,omitzero"`
	Stop      string        `json:"stop,omitzero"`
	Model     string        `json:"model,omitzero"` // the provider's name for it
	Usage     *Usage        `json:"usage,omitzero"`
	Cost      int64         `json:"cost,omitzero"` // nano-dollars, settled
	Kept      bool          `json:"kept,omitzero"` // the cost is the reservation
	Duration  time.Duration `json:"duration,omitzero"`
	Opaque    any           `json:"opaque,omitzero"` // to be sent back with the next request
}

// Classified is a failed model call.
type Classified struct {
	Turn      int64         `json:"turn"`
	Attempt   int64         `json:"attempt"`
	Error     Fault         `json:"error"`
	Class     string        `json:"type,omitzero"` // type of the failure, from the service or rye
	Said      string        `json:"said,omitzero"` // the service's code
	Category  string        `json:"category"`
	ID        string        `json:"id,omitzero"` // of the pattern that matched
	Retryable bool          `json:"retryable"`
	Action    string        `json:"action"` // retry, fallback, fail or abort
	Delay     time.Duration `json:"delay,omitzero"`
	Usage     *Usage        `json:"usage,omitzero"` // counts despite the failure: the most that was possible
	Cost      int64         `json:"cost,omitzero"`  // nano-dollars, settled despite the failure
}

// CallStarted is recorded before a tool call can have an effect.
type CallStarted struct {
	Call   string     `json:"call"`        // unique in the thread
	ID     string     `json:"id,omitzero"` // the model's
	Turn   int64      `json:"turn"`
	Name   string     `json:"name"` // from the model
	Ref    string     `json:"ref,omitzero"`
	Digest cas.Digest `json:"digest,omitzero"`
	Risk   string     `json:"risk,omitzero"`
	Input  any        `json:"input"`
	Key    string     `json:"key,omitzero"`   // of idempotency
	Child  string     `json:"child,omitzero"` // the thread that it starts
}

// The results of calls.
const (
	CallOK        = "ok"
	CallFailed    = "failed"
	CallRefused   = "refused" // before any effect
	CallTimeout   = "timeout"
	CallCancelled = "cancelled"
	CallUnknown   = "unknown" // the process died while it ran
)

// CallResult is the result of a call.
type CallResult struct {
	Call     string        `json:"call"`
	Status   string        `json:"status"`
	Output   any           `json:"output,omitzero"` // for the model
	Error    *Fault        `json:"error,omitzero"`
	Result   cas.Digest    `json:"result,omitzero"`   // of the whole result
	Artifact cas.Digest    `json:"artifact,omitzero"` // of an artifact of this thread
	Exec     string        `json:"exec,omitzero"`     // the call in the audit log
	Receipt  cas.Digest    `json:"receipt,omitzero"`
	Duration time.Duration `json:"duration,omitzero"`
	Cost     int64         `json:"cost,omitzero"` // nano-dollars, of a child
}

// An Artifact is a large result.
type Artifact struct {
	Call    string     `json:"call"`
	Digest  cas.Digest `json:"digest"` // of the content's bytes
	Media   string     `json:"type"`
	Content string     `json:"content"`
}

// A Hook is a hook that ran.
type Hook struct {
	ID     string `json:"id"`
	Event  string `json:"event"`
	Layer  int64  `json:"layer,omitzero"`
	Ref    string `json:"ref,omitzero"`
	Action string `json:"action,omitzero"`
	Result any    `json:"result,omitzero"`
	Error  *Fault `json:"error,omitzero"`
}

// A Limit is a limit that was reached.
type Limit struct {
	Code    string  `json:"code"` // such as "turns_exceeded" or "context"
	Current float64 `json:"current"`
	Max     float64 `json:"max"`
	Action  string  `json:"action,omitzero"`
}

// Waiting records that the thread stops without an end.
type Waiting struct {
	State  string `json:"state"`  // waiting or interrupted
	Reason string `json:"reason"` // limit, error, budget, approval, child, gate or signal
	On     string `json:"on,omitzero"`
	Call   string `json:"call,omitzero"`
	Until  string `json:"until,omitzero"`
	Error  *Fault `json:"error,omitzero"`
}

// Continued records that a waiting, interrupted or abandoned thread continues.
type Continued struct {
	Principal string  `json:"principal,omitzero"`
	Message   string  `json:"message,omitzero"`
	Limits    *Limits `json:"limits,omitzero"` // from here on
}

// Completed ends a thread that has reached its goal.
type Completed struct {
	Result  string         `json:"result,omitzero"`
	Outputs map[string]any `json:"outputs,omitzero"`
	Cost    Cost           `json:"cost"`
}

// Failed ends a thread with an error.
type Failed struct {
	Error Fault `json:"error"`
	Cost  Cost  `json:"cost"`
}

// Cancelled ends a thread that its user cancelled.
type Cancelled struct {
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
	Killed bool   `json:"killed,omitzero"`
	Cost   Cost   `json:"cost"`
}

// HandedOff ends a thread that another thread continues.
type HandedOff struct {
	Next   string `json:"next"`
	Reason string `json:"reason,omitzero"`
	Cost   Cost   `json:"cost"`
}

// NodeStarted records that a node of a graph begins, or begins again.
type NodeStarted struct {
	Step    int64  `json:"step"` // from 1
	Node    string `json:"node"`
	Kind    string `json:"kind"`             // action, foreach, gate or return
	Attempt int64  `json:"attempt,omitzero"` // of a retry, from 2
}

// NodeResult is the result of a node.
type NodeResult struct {
	Step   int64  `json:"step"`
	Node   string `json:"node"`
	Status string `json:"status"`         // ok or error
	Next   string `json:"next,omitzero"`  // the next node; "" at the end
	Calls  int64  `json:"calls,omitzero"` // of the node
	Error  *Fault `json:"error,omitzero"`
	Cause  string `json:"cause,omitzero"` // reason for a gate's decision: condition, answer or expired
}

// State is the state of a graph after a step.
type State struct {
	Step   int64          `json:"step"`
	Next   string         `json:"next,omitzero"` // the next node; "" at the end
	Digest cas.Digest     `json:"digest"`        // of the canonical form
	State  map[string]any `json:"state,omitzero"`
	Same   bool           `json:"same,omitzero"` // same as in the previous step, so State is left out
}

// Returned records the end of a graph.
type Returned struct {
	Step   int64      `json:"step"`
	Node   string     `json:"node"`
	Digest cas.Digest `json:"digest"` // of the state
}

// A Checkpoint signs everything before it. The Writer makes it.
type Checkpoint struct {
	Turn int64  `json:"turn"`
	Sig  string `json:"sig,omitzero"`
}

func (Started) Type() Type     { return TypeStarted }
func (Driver) Type() Type      { return TypeDriver }
func (Request) Type() Type     { return TypeRequest }
func (Answer) Type() Type      { return TypeAnswer }
func (Classified) Type() Type  { return TypeClassified }
func (CallStarted) Type() Type { return TypeCallStarted }
func (CallResult) Type() Type  { return TypeCallResult }
func (Artifact) Type() Type    { return TypeArtifact }
func (Hook) Type() Type        { return TypeHook }
func (Limit) Type() Type       { return TypeLimit }
func (Waiting) Type() Type     { return TypeWaiting }
func (Continued) Type() Type   { return TypeContinued }
func (Checkpoint) Type() Type  { return TypeCheckpoint }
func (Completed) Type() Type   { return TypeCompleted }
func (Failed) Type() Type      { return TypeFailed }
func (Cancelled) Type() Type   { return TypeCancelled }
func (HandedOff) Type() Type   { return TypeHandedOff }
func (NodeStarted) Type() Type { return TypeNodeStarted }
func (NodeResult) Type() Type  { return TypeNodeResult }
func (State) Type() Type       { return TypeState }
func (Returned) Type() Type    { return TypeReturned }
