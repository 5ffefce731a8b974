package captoken

import (
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// A Use is the expected content of a chain.
type Use struct {
	Machine   key.Public // the key that must have signed the tokens
	Thread    string     // the thread that begins
	Parent    string     // the thread above it
	Directive string
	Set       cas.Digest
	Now       time.Time
}

// A Chain is the tokens of a process, beginning with the top thread's. A nil Chain, of a process without tokens,
// allows everything.
type Chain struct {
	texts []string
	all   []*Token
	taken time.Time
}

// Take verifies a chain and returns it.
func Take(texts []string, use Use) (*Chain, error) {
	if len(texts) == 0 {
		return nil, denied("there is no token")
	}
	if len(texts) > MaxChain {
		return nil, fault.New(fault.TooDeep, "a chain of %d tokens: at most %d are allowed", len(texts),
			MaxChain).Try(more)
	}
	chain := &Chain{texts: slices.Clone(texts), taken: use.Now}
	for i, text := range texts {
		token, err := Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		if err := token.signed(use.Machine); err != nil {
			return nil, err
		}
		if i == 0 && !token.Parent.IsZero() {
			return nil, denied("the first token of the chain has a parent")
		}
		if i > 0 {
			if err := token.below(chain.all[i-1]); err != nil {
				return nil, err
			}
		}
		chain.all = append(chain.all, token)
	}
	last := chain.Last()
	switch {
	case last.Audience != Audience:
		return nil, denied("the token is for %q, not for a thread", last.Audience)
	case last.Thread != use.Thread:
		return nil, denied("the token is for the thread %s, not for %s", last.Thread, use.Thread).On("thread",
			last.Thread)
	case last.Directive != use.Directive:
		return nil, denied("the token is for %q, not for %q", last.Directive, use.Directive)
	case len(chain.all) < 2 || chain.all[len(chain.all)-2].Thread != use.Parent:
		return nil, denied("the token was not given by the thread %q", use.Parent).On("thread", use.Parent)
	case last.Set != use.Set:
		return nil, fault.New(fault.LockMismatch, "the token is for another lock").On("set", last.Set.String()).
			Because("expected "+last.Set.String(), "found    "+use.Set.String()).Try("rye lock --check")
	case use.Now.Before(last.NotBefore):
		return nil, denied("the token doesn't count before %s", last.NotBefore.Format(timeForm))
	}
	return chain, chain.Check(use.Now)
}

// more is the documentation of tokens.
const more = "rye docs threads"

func denied(format string, args ...any) *fault.Error {
	return fault.New(fault.Denied, format, args...).Try(more)
}

// signed verifies the machine's signature.
func (t *Token) signed(machine key.Public) error {
	_, err := t.Document.Check(func(f key.Fingerprint) (key.Public, bool) {
		return machine, f == machine.Fingerprint()
	})
	if err != nil {
		return fault.Wrap(err, "the token of the thread %s: %v", t.Thread, err)
	}
	return nil
}

// below checks that a token allows no more than its parent.
func (t *Token) below(token *Token) error {
	switch {
	case t.Parent != token.ID:
		return denied("the tokens are no chain: the token of %s has another parent", t.Thread)
	case t.Set != token.Set || t.Audience != token.Audience:
		return denied("the token of %s is for another lock or audience than its parent", t.Thread)
	case t.Expires.After(token.Expires) || t.NotBefore.Before(token.NotBefore):
		return denied("the token of %s counts longer than its parent", t.Thread)
	case t.Depth >= token.Depth:
		return denied("the token of %s allows as many levels as its parent", t.Thread)
	}
	for _, c := range t.Grants.List() {
		if !token.Grants.Covers(c) {
			return denied("the token of %s grants %s, which its parent doesn't", t.Thread, c).On("permission",
				c.String())
		}
	}
	return nil
}

// Last returns the token of the thread that took the chain.
func (c *Chain) Last() *Token { return c.all[len(c.all)-1] }

// Texts returns the encoded tokens.
func (c *Chain) Texts() []string {
	if c == nil {
		return nil
	}
	return slices.Clone(c.texts)
}

// Check refuses an expired chain. It is called before each call.
func (c *Chain) Check(now time.Time) error {
	if c == nil {
		return nil
	}
	last := c.Last()
	if now.Sub(c.taken) < last.Expires.Sub(c.taken) {
		return nil
	}
	return fault.New(fault.Expired, "the token of the thread %s has expired: it counted until %s", last.Thread,
		last.Expires.Format(timeForm)).
		On("thread", last.Thread).Try(fault.Command("rye run", last.Directive))
}

// Give returns the chain for a thread that a thread of this process starts in another process. It appends a token for
// the starting thread, own, unless the chain ends with that thread's, and one for the new thread, child.
func (c *Chain) Give(machine key.Private, own, child *Token, now time.Time) ([]string, error) {
	texts, parent, more := c.Texts(), own, []*Token{own, child}
	if c != nil {
		if parent = c.Last(); parent.Thread == own.Thread {
			more = more[1:]
		}
	}
	for _, token := range more {
		if token != parent {
			token.Parent, token.Depth = parent.ID, min(token.Depth, parent.Depth-1)
			if token.Expires.After(parent.Expires) {
				token.Expires = parent.Expires
			}
		}
		text, err := token.Encode(machine, now)
		if err != nil {
			return nil, err
		}
		texts, parent = append(texts, text), token
	}
	return texts, nil
}
