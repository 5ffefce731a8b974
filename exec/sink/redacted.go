package sink

import (
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/primitive"
)

// Redacted passes output on with secrets removed.
type Redacted struct{ out, err *redact.Stream }

// A Gatherer is a sink that joins pieces of output, such as the text of a streamed answer. Pieces may cut secrets, so
// the Gatherer needs the Redactor itself.
type Gatherer interface {
	Hide(*redact.Redactor)
}

// NewRedacted returns a sink that passes the redacted output on to another sink. A Gatherer gets r as well.
func NewRedacted(r *redact.Redactor, to primitive.Sink) *Redacted {
	if g, ok := to.(Gatherer); ok {
		g.Hide(r)
	}
	over := func(s primitive.Stream) *redact.Stream {
		return r.Stream(func(b []byte) error { return to.Emit(s, b) })
	}
	return &Redacted{over(primitive.Stdout), over(primitive.Stderr)}
}

// Emit implements primitive.Sink.
func (v *Redacted) Emit(s primitive.Stream, b []byte) error {
	to := v.out
	if s == primitive.Stderr {
		to = v.err
	}
	_, err := to.Write(b)
	return err
}

// Flush passes on output that was held back as a possible beginning of a secret.
func (v *Redacted) Flush() error {
	if err := v.out.Flush(); err != nil {
		return err
	}
	return v.err.Flush()
}
