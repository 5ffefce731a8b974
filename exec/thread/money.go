package thread

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// money is what a thread may use, and what it has used. Amounts are nano-dollars.
type money struct {
	account ledger.Account
	limits  limits.Set      // in force
	last    limits.Set      // that the thread was given last
	tokens  transcript.Cost // InputTokens and OutputTokens
	record  *record         // that counts turns and time
}

// spent is what the thread and those below it have spent.
func (m *money) spent() int64 {
	own, below := m.account.Spent()
	return own + below
}

// used is what limits are compared with.
func (m *money) used() limits.Usage {
	return limits.Usage{Turns: m.record.turn, Tokens: m.tokens.InputTokens + m.tokens.OutputTokens,
		Elapsed: m.record.Elapsed()}
}

// cost is what the record has of the thread's use at its end.
func (m *money) cost() transcript.Cost {
	own, below := m.account.Spent()
	return transcript.Cost{Turns: m.record.turn, InputTokens: m.tokens.InputTokens,
		OutputTokens: m.tokens.OutputTokens, Spend: own, Below: below,
		Elapsed: m.record.Elapsed()}
}

// doc is the usage as a loop sees it. share is how much of the context window is used.
func (m *money) doc(share float64) object {
	u := m.used()
	return object{"turns": u.Turns, "tokens": u.Tokens, "spend": float64(m.spent()) / limits.Nano,
		"elapsed_seconds": u.Elapsed.Seconds(), "share": share}
}

// conditions is the usage as conditions of hooks see it. current and limit are in dollars.
func (m *money) conditions(share float64) object {
	cost := m.doc(share)
	cost["current"], cost["input_tokens"], cost["output_tokens"] = cost["spend"], m.tokens.InputTokens,
		m.tokens.OutputTokens
	if m.limits.Spend != limits.Unlimited {
		cost["limit"] = float64(m.limits.Spend) / limits.Nano
	}
	return cost
}

// over is the limit that a thread reaches which spends so much more.
func (m *money) over(more int64) *transcript.Limit {
	return &transcript.Limit{Code: replay.Spend, Current: float64(m.spent()+more) / limits.Nano,
		Max: float64(m.limits.Spend) / limits.Nano}
}

// reserve sets the worst case of a model call aside. short says that less is left: the record knows for as long as it
// has events.
func (m *money) reserve(ctx context.Context, call string, worst int64) (short, err error) {
	switch noMoney, known, err := m.record.Short(); {
	case err != nil:
		return nil, err
	case noMoney:
		return fault.New(fault.Budget, "the next model call may cost $%.6f, more than the budget has left",
			float64(worst)/limits.Nano), nil
	case known:
		return nil, nil
	}
	if err = m.account.Reserve(ctx, call, worst); ledger.IsShort(err) {
		return err, nil
	}
	return nil, err
}

// settle puts what a model call has used in the place of its reservation.
func (m *money) settle(call string, cost, input, output int64) {
	m.tokens.InputTokens += input
	m.tokens.OutputTokens += output
	m.account.Settle(call, cost)
}
