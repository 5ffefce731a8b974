package wire

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// Codes of failures, independent of the service.
const (
	ContextLength = "context_length_exceeded"
	Refused       = "content_refused"
	NoQuota       = "insufficient_quota"
	Overloaded    = "overloaded"
)

// A Failure is the error of a model call without an answer.
type Failure struct {
	Provider string // the id of the item
	Status   int    // HTTP status, or that of an error in a stream; 0 without one
	// Type is the service's, such as rate_limit_error, or one of ConnectionError, CertificateError, TimeoutError,
	// CancelledError, AnswerError (unusable), LimitError (too large).
	Type      string
	Code      string // of the service or of this package
	Message   string
	After     time.Duration // the wait that the service asks for, or 0
	RequestID string        // the service's id of the request
}

func (f *Failure) Error() string {
	return f.Head() + cmp.Or(f.Message, f.Code, f.Type, "no reason given")
}

// Head returns the beginning of Error, before the message.
func (f *Failure) Head() string {
	var what string
	if f.Status != 0 {
		what = fmt.Sprintf(" (HTTP %d)", f.Status)
	}
	return fmt.Sprintf("the model call to %q failed%s: ", f.Provider, what)
}

// Doc returns the failure as a document for package classification.
func (f *Failure) Doc() map[string]any {
	details := map[string]any{}
	for name, s := range map[string]string{"type": f.Type, "code": f.Code, "message": f.Message} {
		if s != "" {
			details[name] = s
		}
	}
	doc := map[string]any{"error": details, "provider": f.Provider}
	if f.Status != 0 {
		doc["status_code"] = int64(f.Status)
	}
	if f.Type == "CancelledError" {
		doc["cancelled"] = true
	}
	return doc
}

// Fault returns the error with a code, for package fault.
func (f *Failure) Fault() *fault.Error {
	code := fault.Failed
	switch {
	case f.Type == "CancelledError":
		code = fault.Cancelled
	case f.Type == "TimeoutError":
		code = fault.Timeout
	case f.Code == ContextLength, f.Type == "LimitError":
		code = fault.Limit
	case f.Status == 401 || f.Status == 403:
		code = fault.AuthFailed
	case f.Status == 429 && f.Code != NoQuota:
		code = fault.RateLimited
	case f.Type == "ConnectionError", f.Status >= 500:
		code = fault.Unavailable
	}
	e := fault.New(code, "%s", f.Error()).On("provider", f.Provider).From(f)
	for name, s := range map[string]string{"type": f.Type, "error_code": f.Code, "request_id": f.RequestID} {
		if s != "" {
			e.On(name, s)
		}
	}
	if f.Status != 0 {
		e.On("status", f.Status)
	}
	return e
}

// statuses returns the HTTP statuses for types of errors, because an error in a stream has no status.
func statuses() map[string]int {
	return map[string]int{
		"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
		"not_found_error":   404,
		"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
		"overloaded_error": 529,
		"server_error":     500, "rate_limit_exceeded": 429, "insufficient_quota": 429,
		"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403,
		"NOT_FOUND":          404,
		"RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
	}
}

// Reported reads the error in a body or an event. All formats have an object under "error", each with some of these
// members. Services compatible with OpenAI may have a text there.
func Reported(m map[string]any) *Failure {
	fields := object(m["error"])
	if fields == nil {
		return &Failure{Message: cmp.Or(text(m["error"]), text(m["message"]), text(m["detail"])),
			Type: text(m["type"])}
	}
	failure := &Failure{Type: cmp.Or(text(fields["type"]), text(fields["status"])),
		Message: text(fields["message"]), Code: text(fields["code"])}
	if n, ok := number(fields["code"]); ok && n >= 400 && n < 600 {
		failure.Status = int(n)
	}
	if failure.Type == "" && failure.Code != "" {
		failure.Type = failure.Code
	}
	for _, detail := range list(fields["details"]) {
		// Google sends the wait as a text like "34.5s".
		if d, err := time.ParseDuration(text(object(detail)["retryDelay"])); err == nil && d > 0 {
			failure.After = d
		}
	}
	return failure
}

var (
	lengthPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`(?i)prompt is too long|context[ _](length|window|size)|maximum context|exceed\w* the maximum number of tokens|input (is too long|length)`)
	})
	refusePattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)content[ _](policy|filter|management)|usage polic|safety system`)
	})
)

// Limits for the texts of a failure, in bytes: a proxy may answer with a whole page.
const (
	maxMessage = 4096
	maxWord    = 200
)

// Settle adds the status for the type and the package's own code, if known, and shortens long texts.
func (f *Failure) Settle() {
	for field, most := range map[*string]int{&f.Message: maxMessage, &f.Type: maxWord, &f.Code: maxWord,
		&f.RequestID: maxWord} {
		if len(*field) > most {
			*field = strings.ToValidUTF8((*field)[:most], "") + "…"
		}
	}
	if f.Status == 0 {
		f.Status = statuses()[f.Type]
	}
	if code := f.canonical(); code != "" {
		f.Code = code
	}
}

// canonical returns the package's code for a failure, or "".
func (f *Failure) canonical() string {
	is := func(words ...string) bool {
		for _, w := range words {
			if f.Code == w || f.Type == w {
				return true
			}
		}
		return false
	}
	refusable := f.Status == 0 || f.Status == 400 || f.Status == 413 || f.Status == 422 || f.Status == 500
	switch {
	case is("context_length_exceeded", "request_too_large", "string_above_max_length"), refusable &&
		lengthPattern().MatchString(f.Message):
		return ContextLength
	case is("content_filter", "content_policy_violation", "moderation_blocked", "cyber_policy", Refused),
		f.Status == 400 && refusePattern().MatchString(f.Message):
		return Refused
	case is("insufficient_quota", "billing_hard_limit_reached", "billing_error"),
		strings.Contains(f.Message, "credit balance is too low"):
		return NoQuota
	case f.Status == 529, is("overloaded_error", "engine_overloaded", "slow_down"):
		return Overloaded
	}
	return ""
}
