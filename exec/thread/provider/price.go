package provider

import (
	"math"
	"math/big"
	"strings"

	"github.com/rye-build/rye/ai/value"
)

// prices are nano-dollars per million tokens, by category. A missing price is unknown.
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
	for _, entry := range r.object("pricing", v) {
		at := "pricing." + entry.Key
		if entry.Value.IsNull() {
			r.bad(entry.Value, at, "must be an object")
		}
		byCategory := prices{}
		for _, price := range r.object(at, entry.Value, inputPrice, outputPrice, cacheReadPrice, cacheWritePrice,
			reasoningPrice) {
			nano, ok := dollars(price.Value)
			if !ok {
				r.bad(price.Value, at+"."+price.Key,
					"must be dollars for a million tokens, as in \"0.25\": at most %d, with at most 9 decimals",
					maxDollars)
				continue
			}
			byCategory[price.Key] = nano
		}
		all[entry.Key] = byCategory
	}
	return all
}

// dollars parses a price exactly, in nano-dollars. A number without quotes is parsed from its text.
func dollars(v *value.Value) (int64, bool) {
	if v == nil || v.Kind != value.Text && v.Kind != value.Int && v.Kind != value.Float {
		return 0, false
	}
	integer, fraction, point := strings.Cut(v.Text, ".")
	if integer == "" || len(integer) > 7 || point && fraction == "" || len(fraction) > 9 {
		return 0, false
	}
	n := int64(0)
	for _, c := range integer + fraction + strings.Repeat("0", 9-len(fraction)) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= maxDollars*1_000_000_000
}

func (p *Provider) pricesOf(model string) prices {
	if byCategory, ok := p.prices[model]; ok {
		return byCategory
	}
	return p.prices[anyModel]
}

// Cost returns the cost of a call in nano-dollars, rounded up. known is false without a usage, or if a used
// category has no known price.
func (p *Provider) Cost(model string, usage Usage) (nano int64, known bool) {
	if !usage.Reported {
		return 0, false
	}
	byCategory := p.pricesOf(model)
	var sum big.Int
	for _, used := range []struct {
		category string
		tokens   int64
	}{
		{inputPrice, usage.Input}, {outputPrice, usage.Output}, {cacheReadPrice, usage.CacheRead},
		{cacheWritePrice, usage.CacheWrite},
		{reasoningPrice, usage.Reasoning},
	} {
		price, ok := byCategory[used.category]
		if !ok && used.category == reasoningPrice {
			price, ok = byCategory[outputPrice]
		}
		if !ok && used.tokens > 0 {
			return 0, false
		}
		add(&sum, used.tokens, price)
	}
	// A model without any price isn't free.
	_, in := byCategory[inputPrice]
	_, out := byCategory[outputPrice]
	if !in || !out {
		return 0, false
	}
	return nanos(&sum), true
}

// Worst returns the highest cost of a call in nano-dollars: every token at the highest price that can apply to it.
// known is false if the price of input or output is unknown.
func (p *Provider) Worst(model string, input, output int64) (nano int64, known bool) {
	byCategory := p.pricesOf(model)
	in, hasIn := byCategory[inputPrice]
	out, hasOut := byCategory[outputPrice]
	if !hasIn || !hasOut {
		return 0, false
	}
	var sum big.Int
	add(&sum, input, max(in, byCategory[cacheReadPrice], byCategory[cacheWritePrice]))
	add(&sum, output, max(out, byCategory[reasoningPrice]))
	return nanos(&sum), true
}

// add adds the cost of tokens, in millionths of nano-dollars.
func add(sum *big.Int, tokens, price int64) {
	var n big.Int
	sum.Add(sum, n.Mul(big.NewInt(max(tokens, 0)), big.NewInt(price)))
}

// nanos converts to nano-dollars and rounds up. It returns the largest int64 for anything larger.
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
