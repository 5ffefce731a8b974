package models

import (
	"encoding/json"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/manifest/jcs"
)

// Digests makes the digests of a thread's requests. Each request has most messages of the one before: they are written down once,
// so that a turn of a long thread costs what one of a short thread does.
type Digests struct {
	text []byte // the messages of the last request in canonical form, each with a comma after it
	ends []int  // where each of them ends in text
}

// Of returns the digest of what a model is asked: the canonical form of messages, options, system and tools. The model and how
// much it may answer are not in it, so that another one can be asked the same. The first kept messages are those of the request
// before.
func (d *Digests) Of(q *provider.Request, kept int) (cas.Digest, error) {
	d.ends = d.ends[:min(kept, len(d.ends), len(q.Messages))]
	d.text = d.text[:d.end()]
	for _, m := range q.Messages[len(d.ends):] {
		text, err := canonical(d.text, m)
		if err != nil {
			return cas.Digest{}, err
		}
		d.text = append(text, ',')
		d.ends = append(d.ends, len(d.text))
	}
	whole := append([]byte(`{"messages":[`), d.text[:max(0, len(d.text)-1)]...)
	rest, err := canonical(nil, map[string]any{"options": q.Options, "system": q.System, "tools": append([]provider.Tool{}, q.Tools...)})
	if err != nil {
		return cas.Digest{}, err
	}
	return cas.Sum(append(append(whole, "],"...), rest[1:]...)), nil
}

// end is where the last message ends.
func (d *Digests) end() int {
	if len(d.ends) == 0 {
		return 0
	}
	return d.ends[len(d.ends)-1]
}

// canonical appends the canonical form of a value.
func canonical(to []byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return to, err
	}
	return jcs.Canonical(to, b)
}
