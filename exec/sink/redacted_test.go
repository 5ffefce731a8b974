package sink

import (
	"testing"

	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/exec/primitive"
)

// gatherer is a sink that joins its pieces.
type gatherer struct {
	hide *redact.Redactor
	all  string
}

func (g *gatherer) Hide(r *redact.Redactor) { g.hide = r }

func (g *gatherer) Emit(_ primitive.Stream, b []byte) error { g.all += string(b); return nil }

// TestGatherer: what joins pieces can remove secrets from the whole, which nothing before it can find.
func TestGatherer(t *testing.T) {
	g := &gatherer{}
	to := NewRedacted(redact.New("s3cr3t-value"), g)
	for s, piece := range map[primitive.Stream]string{primitive.Stdout: "s3cr3t-value s3cr3t",
		primitive.Stderr: "-value"} {
		if err := to.Emit(s, []byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Flush(); err != nil || g.hide == nil || g.hide.Text("a s3cr3t-value") != "a "+redact.Mask {
		t.Errorf("%v, %+v", err, g)
	}
}
