package provider

import (
	"math"
	"math/big"
	"strings"

	"github.com/rye-build/rye/ai/value"
)

// prices are nano-dollars for a million tokens, by category. What is missing is unknown.
type prices map[string]int64

// The categories of prices.
const (
	inputPrice      = "input"
	outputPrice     = "output"
	cacheReadPrice  = "cache_read"
	cacheWritePrice = "cache_write"
	reasoningPrice  = "reasoning"
)

const maxDollars = 1_000_000 // for a million tokens

func (r *reader) pricing() map[string]prices {
	all := map[string]prices{}
	v := r.m.Fields.Get("pricing")
	for _, e := range r.object("pricing", v) {
		at := "pricing." + e.Key
		if e.Value.IsNull() {
			r.bad(e.Value, at, "must be an object")
		}
		of := prices{}
		for _, price := range r.object(at, e.Value, inputPrice, outputPrice, cacheReadPrice, cacheWritePrice,
			reasoningPrice) {
			nano, ok := dollars(price.Value)
			if !ok {
				r.bad(price.Value, at+"."+price.Key,
					"must be dollars for a million tokens, as in \"0.25\": at most %d, with at most 9 decimals",
					maxDollars)
				continue
			}
			of[price.Key] = nano
		}
		all[e.Key] = of
	}
	return all
}

// dollars reads a price exactly, in nano-dollars. A number without quotes is read as it is written.
func dollars(v *value.Value) (int64, bool) {
	if v == nil || v.Kind != value.Text && v.Kind != value.Int && v.Kind != value.Float {
		return 0, false
	}
	whole, part, point := strings.Cut(v.Text, ".")
	if whole == "" || len(whole) > 7 || point && part == "" || len(part) > 9 {
		return 0, false
	}
	n := int64(0)
	for _, c := range whole + part + strings.Repeat("0", 9-len(part)) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= maxDollars*1_000_000_000
}

func (p *Provider) pricesOf(model string) prices {
	if of, ok := p.prices[model]; ok {
		return of
	}
	return p.prices[anyModel]
}

// Cost returns what a call costs, in nano-dollars, rounded up. known is false without a usage, and if tokens of a
// category are counted whose price is unknown.
func (p *Provider) Cost(model string, u Usage) (nano int64, known bool) {
	if !u.Reported {
		return 0, false
	}
	of := p.pricesOf(model)
	var sum big.Int
	for _, part := range []struct {
		category string
		tokens   int64
	}{
		{inputPrice, u.Input}, {outputPrice, u.Output}, {cacheReadPrice, u.CacheRead}, {cacheWritePrice, u.CacheWrite},
		{reasoningPrice, u.Reasoning},
	} {
		price, ok := of[part.category]
		if !ok && part.category == reasoningPrice {
			price, ok = of[outputPrice]
		}
		if !ok && part.tokens > 0 {
			return 0, false
		}
		add(&sum, part.tokens, price)
	}
	// A model without any price isn't free.
	_, in := of[inputPrice]
	_, out := of[outputPrice]
	if !in || !out {
		return 0, false
	}
	return nanos(&sum), true
}

// Worst returns the most that a call can cost, in nano-dollars: each token of the input and of the answer at the
// dearest price that can apply to it. known is false if the price of input or output is unknown.
func (p *Provider) Worst(model string, input, output int64) (nano int64, known bool) {
	of := p.pricesOf(model)
	in, hasIn := of[inputPrice]
	out, hasOut := of[outputPrice]
	if !hasIn || !hasOut {
		return 0, false
	}
	var sum big.Int
	add(&sum, input, max(in, of[cacheReadPrice], of[cacheWritePrice]))
	add(&sum, output, max(out, of[reasoningPrice]))
	return nanos(&sum), true
}

// add adds the cost of tokens, in millionths of nano-dollars.
func add(sum *big.Int, tokens, price int64) {
	var n big.Int
	sum.Add(sum, n.Mul(big.NewInt(max(tokens, 0)), big.NewInt(price)))
}

// nanos rounds up. What is more than an int64 can hold is the largest.
func nanos(sum *big.Int) int64 {
	million := big.NewInt(1_000_000)
	var n, rest big.Int
	if n.DivMod(sum, million, &rest); rest.Sign() > 0 {
		n.Add(&n, big.NewInt(1))
	}
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}
