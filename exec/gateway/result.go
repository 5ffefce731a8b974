package gateway

import (
	"errors"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
)

// A Result is the outcome of a call (RTP's ToolResult). Each member is there, with null for what isn't known.
type Result struct {
	OK             bool    `json:"ok"`
	Output         object  `json:"output"`
	Error          *Error  `json:"error"`
	Correlation    string  `json:"correlation_id"`
	Pack           *string `json:"pack"`
	PackVersion    *string `json:"pack_version"`
	PackSetVersion *string `json:"pack_set_version"`
	InterfaceHash  *string `json:"interface_hash"`
}

// An Error is RTP's ToolError.
type Error struct {
	Type        ErrorType `json:"type"`
	Message     string    `json:"message"`
	Retryable   bool      `json:"retryable"`
	Upstream    *string   `json:"upstream_code"` // the code of the error at every other door
	Hints       []string  `json:"remediation_hints"`
	Correlation string    `json:"correlation_id"`
}

// An ErrorType is one of RTP's twelve.
type ErrorType string

// The types of errors.
const (
	Invalid       ErrorType = "validation_error"
	Unidentified  ErrorType = "auth_error"
	Forbidden     ErrorType = "permission_error"
	NotFound      ErrorType = "not_found"
	Conflicting   ErrorType = "conflict"
	RateLimited   ErrorType = "rate_limited"
	Transient     ErrorType = "transient"
	TimedOut      ErrorType = "timeout"
	Upstream      ErrorType = "upstream_error"
	Blocked       ErrorType = "policy_blocked"
	NeedsApproval ErrorType = "approval_required"
	Internal      ErrorType = "internal_error"
)

// types has the type of each code; the others are internal_error.
var types = map[fault.Code]ErrorType{
	fault.Validation: Invalid, fault.Parsing: Invalid,
	fault.AuthRequired: Unidentified, fault.AuthFailed: Unidentified, fault.SessionExpired: Unidentified,
	fault.Denied:   Forbidden,
	fault.NotFound: NotFound, fault.ToolNotFound: NotFound,
	fault.Conflict: Conflicting, fault.Ambiguous: Conflicting,
	fault.RateLimited: RateLimited,
	fault.Busy:        Transient, fault.Unavailable: Transient, fault.Cancelled: Transient,
	fault.Timeout: TimedOut,
	fault.Failed:  Upstream, fault.Registry: Upstream, fault.Offline: Upstream,
	fault.Policy: Blocked, fault.Limit: Blocked, fault.Budget: Blocked, fault.Resource: Blocked,
	fault.NotLocked: Blocked, fault.LockMismatch: Blocked, fault.Integrity: Blocked, fault.Unsigned: Blocked,
	fault.SignatureInvalid: Blocked, fault.UntrustedKey: Blocked, fault.Revoked: Blocked, fault.Expired: Blocked,
	fault.BelowThreshold: Blocked, fault.Rollback: Blocked, fault.Sandbox: Blocked,
	fault.Approval: NeedsApproval,
}

// maxMessage is the longest message of RTP.
const maxMessage = 4096

// errorOf makes RTP's error of one of ours. Only its text and hints leave the server: details may name files.
func errorOf(err error, correlation string) *Error {
	f := fault.Of(err)
	kind, ok := types[f.Code]
	if !ok {
		kind = Internal
	}
	code, text := string(f.Code), f.Error()
	waits := errors.Is(err, approval.ErrWaits)
	switch {
	case f.Code == fault.Validation && f.Details["receipt"] != nil: // it ran
		kind, text = Internal, "output schema mismatch: "+text
	case f.Code == fault.Approval && !waits: // no answer would change that
		kind, text = Conflicting, text+": "+strings.Join(f.Why, "; ")
		if f.Details["state"] == string(approval.Denied) {
			kind = Blocked
		}
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "")
	}
	e := &Error{Type: kind, Message: text, Retryable: f.Object().Retryable, Upstream: &code, Hints: []string{},
		Correlation: correlation}
	if id, ok := f.Details["request"].(string); ok && waits {
		e.Hints = append(e.Hints, "approve token: "+id)
	}
	return e
}

// failed is the result of a call that wasn't made, or has failed.
func failed(err error, correlation string) *Result {
	return &Result{Error: errorOf(err, correlation), Correlation: correlation}
}
