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
		case by != "" && (asked.Ref != call.Ref || asked.Digest != call.Digest || asked.Given["token"] != "abc" ||
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
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := consent.Check(ctx, call, p, nil, wait); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
