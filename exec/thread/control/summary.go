package control

import (
	"encoding/json"
	"io"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A summary is what thread.json has, for people and other programs. Nothing trusts it: it can be made again from the
// transcript.
type summary struct {
	Thread    string                `json:"thread_id"`
	Directive string                `json:"directive"`
	Kind      string                `json:"kind"`
	Status    string                `json:"status"`
	Created   time.Time             `json:"created_at"`
	Updated   time.Time             `json:"updated_at"`
	Model     string                `json:"model,omitempty"`
	Limits    transcript.Limits     `json:"limits"`
	Grants    []string              `json:"capabilities"`
	Turns     int64                 `json:"turns"`
	Models    []transcript.ModelUse `json:"models"`
	End       json.RawMessage       `json:"end,omitempty"`
	Last      transcript.Position   `json:"last"`
}

// Summarise writes thread.json beside a transcript whose report r is.
func Summarise(dir string, r *transcript.Report, status string) error {
	return osfile.WriteFile(filepath.Join(dir, transcript.SummaryFile), 0o600, false, func(w io.Writer) error {
		to := json.NewEncoder(w)
		to.SetIndent("", "  ")
		return to.Encode(summary{r.Thread, r.Started.Directive.Ref, r.Started.Kind, status, r.Began, r.Ended,
			r.Started.Model, r.Started.Limits,
			r.Started.Grants, r.Turns, r.Models, r.End, r.Last})
	})
}
