package paths

import (
	"fmt"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A Finding is the result of a check.
type Finding struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// A Status is the outcome of a check.
type Status string

const (
	StatusOK   Status = "ok"
	StatusWarn Status = "warn"
	StatusFail Status = "fail"
)

// Good returns the finding for a check that passed.
func Good(format string, args ...any) Finding {
	return Finding{Status: StatusOK, Detail: fmt.Sprintf(format, args...)}
}

// Bad returns the finding for an error.
func Bad(s Status, err error) Finding {
	f := fault.Of(err)
	out := Finding{Status: s, Detail: f.Text}
	for _, why := range f.Why {
		out.Detail += ": " + why
	}
	if len(f.Hint) > 0 && f.Hint[0] != "rye doctor" {
		out.Hint = f.Hint[0]
	}
	return out
}

// DigestText returns a digest for an answer, or "" for zero.
func DigestText(d cas.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}
