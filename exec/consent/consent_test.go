package consent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/manifest/policy"
)

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCheck: what is refused, what is asked, and who answers.
func TestCheck(t *testing.T) {
	const asks = `ask: {pay: {names: ["tool:acme/pay"], when: "params.amount > 100 or flow.tags contains \"web\" or caller == \"bob\""}}`
	var asked *consent.Question
	dry := ""
	yes := func(_ context.Context, q *consent.Question) (*consent.Approval, error) {
		asked = q
		return &consent.Approval{By: "ann"}, nil
	}
	other := func(_ context.Context, q *consent.Question) (*consent.Approval, error) {
		asked = q
		return &consent.Approval{By: "eve", Separate: true}, nil
	}
	no := func(context.Context, *consent.Question) (*consent.Approval, error) { return nil, errors.New("no") }
	for _, c := range []struct {
		policy string
		change func(*consent.Call)
		door   *consent.Door
		by     string
		err    string // in the error
	}{
		{"", nil, nil, "", ""},
		{"", func(c *consent.Call) { c.Risk = "money" }, nil, "", `needs an approval`},
		{"", func(c *consent.Call) { c.Risk, c.Attended = "money", true }, nil, "", ""},
		{"", func(c *consent.Call) {
			c.Risk, c.Dry = "money", func(q *consent.Question) { dry = q.Why() }
		}, nil, "", ""},
		{"", func(c *consent.Call) { c.Risk, c.Chosen = "money", true }, nil, "", ""},
		{"", func(c *consent.Call) { c.Risk = "money" }, &consent.Door{Approve: yes}, "ann", ""},
		{"", func(c *consent.Call) { c.Risk = "money" }, &consent.Door{Approve: no}, "", "no"},
		{asks, nil, nil, "", ""},
		{asks, func(c *consent.Call) { c.Params["amount"] = 101.0 }, &consent.Door{Approve: yes}, "ann", ""},
		{asks, func(c *consent.Call) { c.Principal = "bob" }, &consent.Door{Approve: yes}, "ann", ""},
		{asks, nil, &consent.Door{Approve: yes, Flow: consent.Flow{Directive: "directive:a", Tags: []string{"web"},
			Tools: []string{"tool:x"}}}, "ann", ""},
		{"ask: {no: {answer: refuse}}", nil, &consent.Door{Approve: yes}, "", `is refused by "no" of your policy`},
		{"ask: {no: {answer: refuse}}", func(c *consent.Call) {
			c.Chosen, c.Dry, c.Attended = true, func(*consent.Question) {}, true
		}, nil, "", `is refused`},
		{"ask: {two: {separate: true}}", nil, &consent.Door{Approve: yes}, "", `needs an approval`},
		{"ask: {two: {separate: true}}", nil, &consent.Door{Approve: other}, "eve", ""},
		{`ask: {d: {when: "flow.directive == \"directive:a\""}}`, nil,
			&consent.Door{Approve: yes, Flow: consent.Flow{Directive: "directive:a"}}, "ann", ""},
		{`ask: {d: {when: "flow.directive == null", answer: refuse}}`, nil,
			&consent.Door{Approve: yes, Flow: consent.Flow{Directive: "directive:a"}}, "", ""},
		{`ask: {d: {when: "flow.directive == null", answer: refuse}}`, nil, nil, "", `is refused`},
	} {
		call := &consent.Call{Ref: model.Ref{Kind: "tool", ID: "acme/pay"}, Digest: cas.Sum(nil), Risk: "read",
			Params:    map[string]any{"amount": 5.0, "token": "abc", "to": map[string]any{"password": "def"}},
			Principal: "ann"}
		if c.change != nil {
			c.change(call)
		}
		asked = nil
		got, err := consent.Check(t.Context(), call, parse(t, c.policy), nil, c.door)
		by := ""
		if got != nil {
			by = got.By
		}
		switch {
		case by != c.by || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err):
			t.Errorf("%s, %+v: %q, %v", c.policy, call, by, err)
		case c.err == "needs an approval" && fault.CodeOf(err) != fault.Approval,
			strings.HasPrefix(c.err, "is refused") && fault.CodeOf(err) != fault.Policy:
			t.Errorf("%s: the code is %s", c.policy, fault.CodeOf(err))
		case by != "" && (asked.Params["token"] != "***REDACTED***" ||
			asked.Params["to"].(map[string]any)["password"] != "***REDACTED***" || call.Params["token"] != "abc"):
			t.Errorf("asked about %+v", asked)
		case by != "" && got.For != subject(t, call):
			t.Errorf("approved for %+v", got.For)
		case by != "" && (asked.Ref != call.Ref || asked.Digest != call.Digest || asked.Given["token"] != "abc" ||
			asked.Separate != strings.Contains(c.policy, "separate") || fault.Of(consent.Required(asked)).
			Details["lines"] == nil != (len(asked.Lines) == 0) ||
			asked.Principal != call.Principal || asked.Expires != time.Hour || asked.Why() == ""):
			t.Errorf("asked about %+v", asked)
		}
	}
	if dry != "its risk is money" {
		t.Errorf("would ask because %q", dry)
	}
	if by, err := consent.Check(t.Context(), &consent.Call{Ref: model.Ref{Kind: "tool", ID: "x"}, Risk: "infra"}, nil,
		parse(t, "ask: {a: {}}"), nil); fault.CodeOf(err) != fault.Approval {
		t.Errorf("without a root policy: %+v, %v", by, err)
	}
}

// TestNoRisk: where a tool declares no risk, question and refusal say what was derived, and how to declare one.
func TestNoRisk(t *testing.T) {
	const derived = "it declares no risk, and this call counts as money: it pays"
	for text, want := range map[string]string{
		"": derived, "ask: {a: {risk: money}}": `asked by "a" of your policy; ` + derived,
	} {
		call := &consent.Call{Ref: model.Ref{Kind: "tool", ID: "acme/pay"}, Risk: "money", Derived: "it pays",
			Declare: "# risk: money"}
		var asked *consent.Question
		_, err := consent.Check(t.Context(), call, parse(t, text), nil, &consent.Door{
			Approve: func(_ context.Context, q *consent.Question) (*consent.Approval, error) {
				asked = q
				return nil, consent.Required(q)
			}})
		e := fault.Of(err)
		why := strings.Join(e.Why, "\n")
		if e.Code != fault.Approval || asked.Why() != want || e.Details["risk_derived"] != "it pays" ||
			why != want+"\nto declare its risk, add a line such as: # risk: money" {
			t.Errorf("%q: asked because %s; refused: %+v", text, asked.Why(), e)
		}
		call.Derived = ""
		_, err = consent.Check(t.Context(), call, parse(t, text), nil, nil)
		if e = fault.Of(err); strings.Contains(strings.Join(e.Why, " "), "declare") ||
			e.Details["risk_derived"] != nil {
			t.Errorf("%q: of a declared risk: %+v", text, e)
		}
	}
}

func subject(t testing.TB, c *consent.Call) consent.Subject {
	t.Helper()
	s, err := c.Subject()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGiven: an approval that was given before allows the call that it was given for, and no other. Otherwise a tool,
// an amount or a caller could be exchanged after a person has looked at it.
func TestGiven(t *testing.T) {
	call := func() *consent.Call {
		return &consent.Call{Ref: model.Ref{Kind: "tool", ID: "acme/pay"}, Digest: cas.Sum(nil), Risk: "money",
			Params: map[string]any{"amount": 5.0}, Set: cas.Sum([]byte("lock")), Principal: "ann", Tenant: "acme"}
	}
	approved := consent.Approval{By: "eve", For: subject(t, call())}
	for name, c := range map[string]struct {
		change func(*consent.Call)
		code   fault.Code
	}{
		"the same": {func(*consent.Call) {}, ""},
		"tool":     {func(c *consent.Call) { c.Ref.ID = "acme/sell" }, fault.Conflict},
		"bytes":    {func(c *consent.Call) { c.Digest = cas.Sum([]byte("x")) }, fault.Conflict},
		"risk":     {func(c *consent.Call) { c.Risk = "destructive" }, fault.Conflict},
		"amount":   {func(c *consent.Call) { c.Params["amount"] = 500.0 }, fault.Conflict},
		"lock":     {func(c *consent.Call) { c.Set = cas.Digest{} }, fault.Conflict},
		"caller":   {func(c *consent.Call) { c.Principal = "bob" }, fault.Conflict},
		"tenant":   {func(c *consent.Call) { c.Tenant = "other" }, fault.Conflict},
		"no JSON":  {func(c *consent.Call) { c.Params["amount"] = make(chan int) }, "any"},
	} {
		call := call()
		c.change(call)
		call.Approval = &approved
		got, err := consent.Check(t.Context(), call, nil, nil, nil)
		if err == nil != (c.code == "") || c.code != "any" && err != nil && fault.CodeOf(err) != c.code ||
			got != &approved {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	two := parse(t, "ask: {two: {separate: true}}")
	for _, separate := range []bool{false, true} {
		call := call()
		call.Approval = &consent.Approval{For: approved.For, Separate: separate}
		if _, err := consent.Check(t.Context(), call, two, nil, nil); (err == nil) != separate ||
			err != nil && fault.CodeOf(err) != fault.Approval {
			t.Errorf("separate %t: %v", separate, err)
		}
		if _, err := consent.Check(t.Context(), call, parse(t, "ask: {one: {}}"), nil, nil); err != nil {
			t.Errorf("the policy asks for no other person: %v", err)
		}
		if _, err := consent.Check(t.Context(), call, parse(t, "ask: {two: {separate: true, answer: ask, "+
			`when: "params.amount > 9"}}`), nil, nil); err != nil {
			t.Errorf("the line is about other calls: %v", err)
		}
	}
	unsaid := call()
	unsaid.Params["amount"] = make(chan int)
	yes := &consent.Door{Approve: func(context.Context, *consent.Question) (*consent.Approval, error) {
		return &consent.Approval{By: "ann"}, nil
	}}
	if _, err := consent.Check(t.Context(), unsaid, nil, nil, yes); err == nil {
		t.Error("parameters that nothing can compare were approved")
	}
}

// TestWhy: a question says whose wish it is. A person who doesn't see it approves something else.
func TestWhy(t *testing.T) {
	for want, q := range map[string]consent.Question{
		"really?":           {Text: "really?", Risk: "money", Lines: []string{"a"}},
		"asked by \"a\", b": {Lines: []string{`"a"`, "b"}, Risk: "money"},
		"its risk is money": {Risk: "money"},
	} {
		if got := q.Why(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestExpired: a question that isn't answered in time is no approval; one whose caller goes away is the caller's end.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := &consent.Door{Approve: func(ctx context.Context, _ *consent.Question) (*consent.Approval, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		call := &consent.Call{Ref: model.Ref{Kind: "tool", ID: "x"}}
		p := parse(t, "ask: {a: {expires: 2h}}")
		began := time.Now()
		_, err := consent.Check(t.Context(), call, p, nil, wait)
		if fault.CodeOf(err) != fault.Approval || time.Since(began) != 2*time.Hour ||
			!strings.Contains(strings.Join(fault.Of(err).Why, " "), "no answer within 2h") {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		late := &consent.Door{Approve: func(ctx context.Context, _ *consent.Question) (*consent.Approval, error) {
			<-ctx.Done()
			return &consent.Approval{By: "ann"}, nil // given in the last moment
		}}
		if got, err := consent.Check(t.Context(), call, p, nil, late); err != nil || got.By != "ann" {
			t.Errorf("%+v, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := consent.Check(ctx, call, p, nil, wait); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
