package transcript

import (
	"errors"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// claimOf returns the claim of a thread's checkpoints.
func claimOf(thread string) sign.Claim {
	return sign.Claim{Domain: sign.Transcript, Name: "transcript:" + thread}
}

// open returns the digest of a checkpoint's line without its signature.
func (e *Event) open() (cas.Digest, error) {
	bare := *e
	var err error
	bare.Payload, err = jcs.Append(nil, map[string]any{"turn": e.value["turn"]})
	return cas.Sum(bare.appendLine(nil)), err
}

// signature returns the unchecked signature of a checkpoint, and the digest that it should sign.
func (e *Event) signature() (sign.Line, cas.Digest, error) {
	text, _ := e.value["sig"].(string)
	l, err := sign.ParseLine(text)
	if err != nil || e.Large != nil {
		return l, cas.Digest{}, errors.Join(err, errLine)
	}
	open, err := e.open()
	return l, open, err
}

// sign signs a checkpoint after its place is set.
func (e *Event) sign(k key.Private, now time.Time) error {
	open, err := e.open()
	if err != nil {
		return err
	}
	l, err := sign.New(open, claimOf(e.Thread), k, now)
	if err != nil {
		return err
	}
	e.value = map[string]any{"turn": e.value["turn"], "sig": l.String()}
	e.Payload, err = jcs.Append(nil, e.value)
	return err
}

// holds reports whether a checkpoint's signature is by a key.
func (e *Event) holds(k key.Public) bool {
	l, open, err := e.signature()
	return err == nil && l.Digest == open && l.Tree.IsZero() && claimOf(e.Thread).Holds(l, k)
}
