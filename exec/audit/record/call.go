package record

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// A Call is the record of a call before it begins. It has no text that a tool or a model wrote.
type Call struct {
	ID        string           `json:"-"`                   // 1 to 128 letters, digits, '.', '_' and '-'
	Approval  string           `json:"approval,omitempty"`  // who allowed it, if approval was asked for
	Bundle    string           `json:"bundle,omitempty"`    // "acme/base@1.0.0", of an item that came from a registry
	Chain     []Link           `json:"chain,omitempty"`     // the links behind the item, to the primitive
	Deadline  time.Time        `json:"deadline,omitzero"`   // zero for none
	Digest    cas.Digest       `json:"digest"`              // of the item's file
	Grants    cas.Digest       `json:"grants,omitzero"`     // the grants hash
	Limits    map[string]int64 `json:"limits,omitempty"`    // as "wall_ms", "memory"
	Lock      cas.Digest       `json:"lock,omitzero"`       // of rye.lock; zero for none
	Packages  cas.Digest       `json:"packages,omitzero"`   // of the packages it runs with; zero for none
	Params    cas.Digest       `json:"params,omitzero"`     // of the parameters without secrets: see package redact
	Parent    string           `json:"parent,omitempty"`    // the call that made this one
	Policy    []cas.Digest     `json:"policy,omitempty"`    // the policies in force, the root's first
	Principal string           `json:"principal,omitempty"` // the user or agent that calls
	Ref       string           `json:"ref"`                 // of the item: "tool:rye/bash/bash"
	Registry  string           `json:"registry,omitempty"`  // the address of the registry that Bundle came from
	Risk      string           `json:"risk,omitempty"`
	Derived   string           `json:"risk_derived,omitempty"` // why a tool that declares no risk has this one
	Sandbox   string           `json:"sandbox,omitempty"`      // the level that it is to run at
	Set       cas.Digest       `json:"set,omitzero"`           // the set that the chain is from
	Signers   []string         `json:"signers,omitempty"`      // of the item: fingerprints, "builtin" or "dev"
	Tenant    string           `json:"tenant,omitempty"`       // the tenant that the call is for
	Toolchain []Program        `json:"toolchain,omitempty"`
	Tree      cas.Digest       `json:"tree,omitzero"` // of the item's other files; zero for none
}

// A Link is one item of a chain.
type Link struct {
	Bundle   string     `json:"bundle,omitempty"` // as Call's
	Digest   cas.Digest `json:"digest"`
	Ref      string     `json:"ref"`
	Registry string     `json:"registry,omitempty"`
	Signers  []string   `json:"signers,omitempty"`
	Tree     cas.Digest `json:"tree,omitzero"`
}

// A Program is a program of the machine that runs a call, such as an interpreter.
type Program struct {
	Digest  cas.Digest `json:"digest,omitzero"`
	Name    string     `json:"name"`
	Path    string     `json:"path,omitempty"`
	Pinned  bool       `json:"pinned,omitempty"` // the lock names its digest
	Version string     `json:"version,omitempty"`
}

// The ways that a call ends.
const (
	OK        = "ok"
	Failed    = "failed"    // it ran and failed
	Refused   = "refused"   // before any side effect
	Timeout   = "timeout"   // it didn't end in time
	Cancelled = "cancelled" // the caller cancelled it
)

// An End is what the log records of a call once it is over.
type End struct {
	Code     string           `json:"code,omitempty"`        // of the error: "TIMEOUT"
	Duration time.Duration    `json:"duration_ns,omitempty"` // by the monotonic clock
	Exit     int              `json:"exit,omitempty"`        // of the process, if there was one
	Receipt  cas.Digest       `json:"receipt,omitzero"`
	Result   cas.Digest       `json:"result,omitzero"`
	Sandbox  string           `json:"sandbox,omitempty"` // the level that was enforced
	Signal   string           `json:"signal,omitempty"`  // that ended the process
	Status   string           `json:"status"`            // one of the constants above
	Usage    map[string]int64 `json:"usage,omitempty"`   // such as "cpu_ms", "max_rss"
}

// A Position is the place of a line in the log. Its sum fixes the line and all lines before it.
type Position struct {
	Segment string     `json:"segment"` // "" for the head
	Line    int64      `json:"line"`
	Sum     cas.Digest `json:"sum"`
}

// Invalid returns the error for a field of a call or an outcome that the log can't hold.
func Invalid(field, format string, args ...any) error {
	return fault.New(fault.Validation, "audit: %s %s", field, fmt.Sprintf(format, args...))
}

const (
	maxID      = 128
	maxText    = 1000
	maxList    = 256
	maxInteger = 1<<53 - 1 // the largest integer that every JSON reader holds exactly
)

// CheckID refuses an invalid call id.
func CheckID(id string) error {
	if !isID(id) {
		return Invalid("id", "%+q must be 1 to %d letters, digits, '.', '_' or '-'", id, maxID)
	}
	return nil
}

// CheckText refuses text that is empty or isn't one line of printable text.
func CheckText(field, s string) error {
	var k checker
	k.text(field, s, true)
	return k.err
}

func isID(s string) bool {
	return portable.Spelled(s, portable.Letters+portable.Digits+"._-", "", maxID)
}

// A checker remembers the first invalid field.
type checker struct{ err error }

func (c *checker) refuse(field, format string, args ...any) {
	if c.err == nil {
		c.err = Invalid(field, format, args...)
	}
}

// text checks a name or version: one line that a terminal prints unchanged.
func (c *checker) text(field, s string, must bool) {
	switch {
	case s == "" && must:
		c.refuse(field, "is missing")
	case len(s) > maxText:
		c.refuse(field, "has %d bytes, more than %d", len(s), maxText)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }):
		c.refuse(field, "%+q must be one line of printable text", s)
	}
}

func (c *checker) texts(field string, list []string) {
	c.length(field, len(list))
	for _, s := range list {
		c.text(field, s, true)
	}
}

func (c *checker) length(field string, n int) {
	if n > maxList {
		c.refuse(field, "has %d entries, more than %d", n, maxList)
	}
}

func (c *checker) digest(field string, d cas.Digest) {
	if d.IsZero() {
		c.refuse(field, "is missing")
	}
}

func (c *checker) time(field string, t time.Time) {
	if !t.IsZero() && (t.UTC().Year() < 0 || t.UTC().Year() > 9999) {
		c.refuse(field, "must be in a year from 0 to 9999")
	}
}

func (c *checker) numbers(field string, m map[string]int64) {
	c.length(field, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !isID(k) {
			c.refuse(field, "has the name %+q", k)
		}
		if m[k] < 0 || m[k] > maxInteger {
			c.refuse(field, "has %q: %d, must be between 0 and 2^53", k, m[k])
		}
	}
}

// Check returns an error if the log can't hold the call.
func (c *Call) Check() error {
	var k checker
	k.err = CheckID(c.ID)
	k.text("approval", c.Approval, false)
	k.text("bundle", c.Bundle, false)
	k.text("registry", c.Registry, false)
	k.length("chain", len(c.Chain))
	for _, l := range c.Chain {
		k.digest("chain digest", l.Digest)
		k.text("chain ref", l.Ref, true)
		k.text("chain bundle", l.Bundle, false)
		k.text("chain registry", l.Registry, false)
		k.texts("chain signers", l.Signers)
	}
	k.time("deadline", c.Deadline)
	k.digest("digest", c.Digest)
	k.numbers("limits", c.Limits)
	if c.Parent != "" && !isID(c.Parent) {
		k.refuse("parent", "%+q is not a valid call id", c.Parent)
	}
	k.length("policy", len(c.Policy))
	k.text("principal", c.Principal, false)
	k.text("ref", c.Ref, true)
	k.text("risk", c.Risk, false)
	k.text("risk_derived", c.Derived, false)
	k.text("sandbox", c.Sandbox, false)
	k.texts("signers", c.Signers)
	k.text("tenant", c.Tenant, false)
	k.length("toolchain", len(c.Toolchain))
	for _, p := range c.Toolchain {
		k.text("toolchain name", p.Name, true)
		k.text("toolchain path", p.Path, false)
		k.text("toolchain version", p.Version, false)
	}
	return k.err
}

// Check returns an error if the log can't hold the outcome.
func (o *End) Check() error {
	var k checker
	k.text("code", o.Code, false)
	if o.Duration < 0 || o.Duration > maxInteger {
		k.refuse("duration_ns", "%d must be between 0 and 2^53", o.Duration)
	}
	if int64(o.Exit) < -maxInteger || int64(o.Exit) > maxInteger {
		k.refuse("exit", "%d is out of range", o.Exit)
	}
	k.text("sandbox", o.Sandbox, false)
	k.text("signal", o.Signal, false)
	if !slices.Contains([]string{OK, Failed, Refused, Timeout, Cancelled}, o.Status) {
		k.refuse("status", "%+q is not a valid status", o.Status)
	}
	k.numbers("usage", o.Usage)
	return k.err
}

func (c *Call) members(to codec) {
	to.open()
	to.text("approval", &c.Approval)
	to.text("bundle", &c.Bundle)
	list(to, "chain", &c.Chain, (*Link).members)
	to.time("deadline", &c.Deadline)
	to.digest("digest", &c.Digest)
	to.digest("grants", &c.Grants)
	to.numbers("limits", &c.Limits)
	to.digest("lock", &c.Lock)
	to.digest("packages", &c.Packages)
	to.digest("params", &c.Params)
	to.text("parent", &c.Parent)
	list(to, "policy", &c.Policy, func(d *cas.Digest, m codec) { m.digestElement(d) })
	to.text("principal", &c.Principal)
	to.text("ref", &c.Ref)
	to.text("registry", &c.Registry)
	to.text("risk", &c.Risk)
	to.text("risk_derived", &c.Derived)
	to.text("sandbox", &c.Sandbox)
	to.digest("set", &c.Set)
	texts(to, "signers", &c.Signers)
	to.text("tenant", &c.Tenant)
	list(to, "toolchain", &c.Toolchain, (*Program).members)
	to.digest("tree", &c.Tree)
	to.close()
}

func (l *Link) members(m codec) {
	m.open()
	m.text("bundle", &l.Bundle)
	m.digest("digest", &l.Digest)
	m.text("ref", &l.Ref)
	m.text("registry", &l.Registry)
	texts(m, "signers", &l.Signers)
	m.digest("tree", &l.Tree)
	m.close()
}

func (p *Program) members(m codec) {
	m.open()
	m.digest("digest", &p.Digest)
	m.text("name", &p.Name)
	m.text("path", &p.Path)
	m.flag("pinned", &p.Pinned)
	m.text("version", &p.Version)
	m.close()
}

func (o *End) members(codec codec) {
	duration, exit := int64(o.Duration), int64(o.Exit)
	codec.open()
	codec.text("code", &o.Code)
	codec.number("duration_ns", &duration)
	codec.number("exit", &exit)
	codec.digest("receipt", &o.Receipt)
	codec.digest("result", &o.Result)
	codec.text("sandbox", &o.Sandbox)
	codec.text("signal", &o.Signal)
	codec.text("status", &o.Status)
	codec.numbers("usage", &o.Usage)
	codec.close()
	o.Duration, o.Exit = time.Duration(duration), int(exit)
}

// Append appends the call as JCS, without its id. Check has to accept it.
func (c *Call) Append(b []byte) []byte { return write(b, c.members) }

// Append appends the outcome as JCS. Check has to accept it.
func (o *End) Append(b []byte) []byte {
	again := *o // which may be shared, and is only read
	return write(b, again.members)
}

// An Approval is a step of a request for an approval. Package approval describes its states.
type Approval struct {
	By        string     `json:"by,omitempty"`        // the user who answered
	Code      string     `json:"code,omitempty"`      // of the error, if an approved call failed
	Params    cas.Digest `json:"params,omitzero"`     // of the parameters without secrets
	Principal string     `json:"principal,omitempty"` // the user or agent that asked
	Ref       string     `json:"ref"`
	Request   string     `json:"request"` // its id
	State     string     `json:"state"`   // after the step
	Tenant    string     `json:"tenant,omitempty"`
	Thread    string     `json:"thread,omitempty"`
	Through   string     `json:"through,omitempty"` // the command that answered: "rye approve"
}

func (a *Approval) members(codec codec) {
	codec.open()
	codec.text("by", &a.By)
	codec.text("code", &a.Code)
	codec.digest("params", &a.Params)
	codec.text("principal", &a.Principal)
	codec.text("ref", &a.Ref)
	codec.text("request", &a.Request)
	codec.text("state", &a.State)
	codec.text("tenant", &a.Tenant)
	codec.text("thread", &a.Thread)
	codec.text("through", &a.Through)
	codec.close()
}

// Check returns an error if the log can't hold the step.
func (a *Approval) Check() error {
	var k checker
	k.err = CheckID(a.Request)
	for _, f := range []struct{ name, text string }{
		{"by", a.By}, {"code", a.Code}, {"principal", a.Principal}, {"tenant", a.Tenant}, {"thread", a.Thread},
		{"through", a.Through},
	} {
		k.text(f.name, f.text, false)
	}
	k.text("ref", a.Ref, true)
	k.text("state", a.State, true)
	return k.err
}

// Append appends the step as JCS. Check has to accept it.
func (a *Approval) Append(b []byte) []byte {
	again := *a
	return write(b, again.members)
}

// ParseApproval reads exactly the bytes that Append writes.
func ParseApproval(b []byte) (Approval, error) {
	var a Approval
	err := parse(b, a.members, a.Check)
	return a, err
}

// A Query is a question of an agent to a registry.
type Query struct {
	Principal string `json:"principal,omitempty"` // the user or agent that asks
	Registry  string `json:"registry"`            // its address
	Tenant    string `json:"tenant,omitempty"`
	Thread    string `json:"thread,omitempty"`
	Verb      string `json:"verb"`  // "search", or "load" of a bundle that isn't locked
	Words     string `json:"words"` // as they are sent
}

func (q *Query) members(codec codec) {
	codec.open()
	codec.text("principal", &q.Principal)
	codec.text("registry", &q.Registry)
	codec.text("tenant", &q.Tenant)
	codec.text("thread", &q.Thread)
	codec.text("verb", &q.Verb)
	codec.text("words", &q.Words)
	codec.close()
}

// Check returns an error if the log can't hold the question.
func (q *Query) Check() error {
	var k checker
	k.text("principal", q.Principal, false)
	k.text("registry", q.Registry, true)
	k.text("tenant", q.Tenant, false)
	k.text("thread", q.Thread, false)
	k.text("verb", q.Verb, true)
	k.text("words", q.Words, true)
	return k.err
}

// Append appends the question as JCS. Check has to accept it.
func (q *Query) Append(b []byte) []byte {
	again := *q
	return write(b, again.members)
}

// ParseQuery reads exactly the bytes that Append writes.
func ParseQuery(b []byte) (Query, error) {
	var q Query
	err := parse(b, q.members, q.Check)
	return q, err
}

func write(b []byte, members func(codec)) []byte {
	w := &writer{slices.Grow(b, 1<<10)}
	members(w)
	return w.b
}

// ParseCall reads exactly the bytes that Append writes.
func ParseCall(id string, b []byte) (Call, error) {
	c := Call{ID: id}
	err := parse(b, c.members, c.Check)
	return c, err
}

// ParseEnd reads what Append writes, and no other bytes.
func ParseEnd(b []byte) (End, error) {
	var o End
	err := parse(b, o.members, o.Check)
	return o, err
}

// parse reads exactly the bytes that Append writes.
func parse(b []byte, members func(codec), check func() error) error {
	other := func() error { return fault.New(fault.Integrity, "not in canonical form") }
	r := &reader{b: b}
	if members(r); r.bad || len(r.b) > 0 {
		return other()
	}
	if err := check(); err != nil {
		return err
	}
	// The reader may skip some deviations, so compare the bytes with their canonical form.
	if !bytes.Equal(write(make([]byte, 0, len(b)), members), b) {
		return other()
	}
	return nil
}
