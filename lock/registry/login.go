package registry

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
)

// A Login is a token that a machine asks for: a person allows it on the registry's page (the device flow, RFC 8628).
type Login struct {
	Label  string
	Scopes []string
	Names  []string      // globs; none for all
	Life   time.Duration // 0 is the registry's default
}

// A NewToken is a token that an account makes with another one.
type NewToken struct {
	Label   string    `json:"label"`
	Scopes  []string  `json:"scopes"`
	Names   []string  `json:"names,omitempty"` // globs; none for those of the token that makes it
	Expires time.Time `json:"expires,omitzero"`
}

// A Code is what the person types, where, and until when. All of it is the registry's word.
type Code struct {
	User string
	Page string
	Life time.Duration

	secret   string
	interval time.Duration
}

// The bounds of a device flow, whatever the registry says.
const (
	minInterval = time.Second
	maxInterval = time.Minute
	slower      = 5 * time.Second // after each slow_down
	maxLogin    = 30 * time.Minute
	maxOAuth    = 64 << 10 // bytes of an answer
)

// RequestLogin begins a login.
func (s *Session) RequestLogin(ctx context.Context, l Login) (*Code, error) {
	form := url.Values{"client_id": {"rye"}, "label": {l.Label}, "scope": {strings.Join(l.Scopes, " ")}}
	if len(l.Names) > 0 {
		form.Set("names", strings.Join(l.Names, " "))
	}
	if l.Life > 0 {
		form.Set("life", strconv.FormatInt(int64(l.Life.Seconds()), 10))
	}
	var answer struct {
		Device   string `json:"device_code"`
		User     string `json:"user_code"`
		Page     string `json:"verification_uri"`
		Life     int64  `json:"expires_in"`
		Interval *int64 `json:"interval"`
	}
	if _, err := s.oauth(ctx, "device", form, &answer); err != nil {
		return nil, err
	}
	page, err := url.Parse(answer.Page)
	if err != nil || page.Host == "" || page.Scheme != "https" && page.Scheme != "http" || len(answer.Page) > 500 ||
		!isUserCode(answer.User) || answer.Device == "" || answer.Life <= 0 {
		return nil, s.noLogin(200)
	}
	c := &Code{User: answer.User, Page: answer.Page, secret: answer.Device, interval: 5 * time.Second,
		Life: seconds(answer.Life, time.Second, maxLogin)}
	if answer.Interval != nil {
		c.interval = seconds(*answer.Interval, minInterval, maxInterval)
	}
	return c, nil
}

// seconds returns a duration within bounds.
func seconds(n int64, least, most time.Duration) time.Duration {
	if n > int64(most/time.Second) {
		return most
	}
	return max(time.Duration(n)*time.Second, least)
}

// isUserCode reports whether a code is one that a person can type.
func isUserCode(code string) bool {
	return len(code) > 0 && len(code) <= 20 &&
		strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// AwaitLogin asks the registry, with pauses, until the person has answered, and returns the token.
func (s *Session) AwaitLogin(ctx context.Context, c *Code, pause func(context.Context, time.Duration) error) (string,
	error) {
	form := url.Values{"client_id": {"rye"}, "grant_type": {"urn:ietf:params:oauth:grant-type:device_code"},
		"device_code": {c.secret}}
	interval := c.interval
	for waited := time.Duration(0); waited < c.Life; waited += interval {
		token, why, err := s.fetchLogin(ctx, form)
		code := fault.CodeOf(err)
		switch {
		case err == nil:
			return token, nil
		case why == "access_denied":
			return "", fault.New(fault.Denied, "the login was denied on the registry's page").On("registry", s.URL)
		case why == "expired_token", why == "invalid_grant":
			return "", s.tooLate()
		case why == "slow_down", code == fault.Unavailable, code == fault.Busy, code == fault.RateLimited:
			interval = min(interval+slower, maxInterval)
		case why != "authorization_pending":
			return "", err
		}
		if err := pause(ctx, interval); err != nil {
			return "", err
		}
	}
	return "", s.tooLate()
}

// fetchLogin asks once. why is the registry's reason in RFC 8628's words.
func (s *Session) fetchLogin(ctx context.Context, form url.Values) (token, why string, err error) {
	var answer struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	why, err = s.oauth(ctx, "token", form, &answer)
	if err == nil && (answer.Token == "" || !strings.EqualFold(answer.Type, "bearer")) {
		err = s.noLogin(200)
	}
	return answer.Token, why, err
}

func (s *Session) tooLate() error {
	return fault.New(fault.SessionExpired, "the code has expired before it was typed and allowed").
		On("registry", s.URL).Try("rye login " + fault.Quote(s.URL))
}

// noLogin is the error for a registry without this flow.
func (s *Session) noLogin(status int) error {
	return fault.New(fault.Registry, "%q doesn't answer as a registry with logins does (HTTP %d)", s.URL, status).
		On("url", s.URL).On("status", status).Try("rye login " + fault.Quote(s.URL) + " < token.txt")
}

// oauth sends a form, and reads the answer as OAuth has it. why is the error that the answer names.
func (s *Session) oauth(ctx context.Context, route string, form url.Values, into any) (why string, err error) {
	body := form.Encode()
	status, text, err := s.Client.Send(ctx, web.Request{Method: "POST", Address: s.URL + "/v1/" + route,
		Type: "application/x-www-form-urlencoded", Body: strings.NewReader(body), Size: int64(len(body))}, maxOAuth)
	if err != nil {
		return "", err
	}
	if status == 200 {
		if err := json.Unmarshal(text, into); err != nil {
			return "", s.noLogin(status)
		}
		return "", nil
	}
	var refusal struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	if err := json.Unmarshal(text, &refusal); err != nil {
		return "", s.noLogin(status)
	}
	if json.Unmarshal(refusal.Error, &why) == nil && why != "" {
		return why, fault.New(fault.AuthFailed, "the registry: %s", fault.Clip(strings.TrimSpace(why+" "+
			refusal.Description), 300)).On("registry", s.URL)
	}
	var o fault.Object
	if err := json.Unmarshal(refusal.Error, &o); err != nil {
		return "", s.noLogin(status)
	}
	return "", s.refusal(status, &o)
}
