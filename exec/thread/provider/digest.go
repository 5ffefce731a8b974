package provider

import (
	"encoding/json"
	"reflect"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// Digests computes the digests of a thread's requests. Each request repeats most messages of the previous one, so
// these are hashed once: a turn of a long thread costs as much as one of a short thread.
type Digests struct {
	seen cas.Hasher // the canonical form up to the last message of the last request
	had  int        // number of hashed messages; 0: seen isn't used

	last *Request // without messages
	rest []byte   // its canonical form
}

// Of returns the digest of a request: the canonical form of messages, options, system and tools. The digest
// excludes the model and the answer's length, so that another model can get the same request. The first kept
// messages are those of the previous request.
func (d *Digests) Of(request *Request, kept int) (cas.Digest, error) {
	if kept < d.had || d.had > len(request.Messages) || d.had == 0 {
		d.seen, d.had = cas.NewHasher(), 0
		d.seen.Write([]byte(`{"messages":[`))
	}
	for _, m := range request.Messages[d.had:] {
		text, err := canonical(nil, m)
		if err != nil {
			d.had = 0
			return cas.Digest{}, err
		}
		if d.had > 0 {
			d.seen.Write([]byte{','})
		}
		d.seen.Write(text)
		d.had++
	}
	if d.last == nil || !reflect.DeepEqual(d.last.Tools, request.Tools) ||
		!reflect.DeepEqual(d.last.Options, request.Options) ||
		d.last.System != request.System {
		rest, err := canonical(nil, map[string]any{"options": request.Options, "system": request.System,
			"tools": append([]Tool{}, request.Tools...)})
		if err != nil {
			return cas.Digest{}, err
		}
		d.last, d.rest = &Request{Options: request.Options, System: request.System, Tools: request.Tools}, rest
	}
	all := d.seen.Clone()
	all.Write([]byte("],"))
	all.Write(d.rest[1:])
	return all.Digest(), nil
}

// canonical appends the canonical form of a value.
func canonical(to []byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return to, err
	}
	return jcs.Canonical(to, b)
}
