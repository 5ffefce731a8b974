package remote

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/guard"
)

const (
	basic  = "basic"
	bearer = "bearer"
)

// known is how a host asks, and what it was answered with, by the scopes of tokens.
type known struct {
	scheme  string
	answers map[string]string // values of Authorization
}

// recall returns the answer for some scopes, if the host asks in the way of a scheme; of any, if that is empty.
func (r *Repository) recall(host, scheme, scopes string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch k := r.known[host]; {
	case k == nil || scheme != "" && scheme != k.scheme:
		return ""
	case k.scheme == basic:
		return k.answers[""]
	default:
		return k.answers[scopes]
	}
}

func (r *Repository) remember(host, scheme, scopes, answer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known[host]; k == nil || k.scheme != scheme {
		if r.known == nil {
			r.known = map[string]*known{}
		}
		r.known[host] = &known{scheme, map[string]string{}}
	}
	r.known[host].answers[scopes] = answer
}

// Do makes a request. One with a body has GetBody, since it may be sent again. actions are Pull or Push. An answer 401
// is the last one.
func (r *Repository) Do(req *http.Request, actions string) (*http.Response, error) {
	if req.Header.Get("Authorization") != "" {
		return r.send(req, "")
	}
	host, scopes := req.URL.Host, []string(nil)
	if host == r.Host {
		scopes = []string{"repository:" + r.Name + ":" + actions}
	}
	asked := strings.Join(scopes, " ")
	sent := r.recall(host, "", asked)
	resp, err := r.send(req, sent)
	if err != nil || resp.StatusCode != http.StatusUnauthorized ||
		guard.Origin(req.URL) != guard.Origin(resp.Request.URL) {
		return resp, err
	}
	scheme, params := parseChallenge(resp.Header.Get("WWW-Authenticate"))
	key := ""
	switch scheme {
	case basic:
	case bearer:
		scopes = merge(scopes, strings.Fields(params["scope"]))
		key = strings.Join(scopes, " ")
	default:
		return resp, nil
	}
	resp.Body.Close()
	if scheme == bearer && key != asked {
		if other := r.recall(host, scheme, key); other != "" {
			resp, err := r.send(req, other)
			if err != nil || resp.StatusCode != http.StatusUnauthorized {
				return resp, err
			}
			resp.Body.Close()
			sent = other
		}
	}
	answer, err := r.answer(req, scheme, params, scopes, key, sent)
	if err != nil {
		return nil, err
	}
	return r.send(req, answer)
}

// send sends a copy of a request.
func (r *Repository) send(req *http.Request, authorization string) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Header.Set("User-Agent", "rye")
	if authorization != "" {
		out.Header.Set("Authorization", authorization)
	}
	if out.GetBody != nil {
		var err error
		if out.Body, err = out.GetBody(); err != nil {
			return nil, err
		}
	}
	return r.HTTP.Do(out)
}

// answer is what a challenge is answered with. Of requests that are refused together, one asks for it.
func (r *Repository) answer(req *http.Request, scheme string, params map[string]string, scopes []string, key,
	refused string) (string, error) {
	ctx, host := req.Context(), req.URL.Host
	if scheme == bearer {
		if err := checkRealm(ctx, params["realm"], req.URL); err != nil {
			return "", err
		}
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	if got := r.recall(host, scheme, key); got != "" && got != refused {
		return got, nil
	}
	var c Credential
	var err error
	if r.Credential != nil && strings.EqualFold(host, r.Host) {
		c, err = r.Credential(ctx)
	}
	var answer string
	switch {
	case scheme == basic && err != nil:
		return "", fmt.Errorf("the credential can't be read: %w", err)
	case err != nil:
		return "", err
	case scheme == bearer:
		token, err := r.token(ctx, req.URL, params["realm"], params["service"], scopes, c)
		if err != nil {
			return "", err
		}
		answer = "Bearer " + token
	case c == Credential{}:
		return "", fault.New(fault.AuthRequired, "the registry wants a user and a password")
	case c.User == "" || c.Password == "":
		return "", errors.New("the user or the password is missing")
	default:
		answer = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.User+":"+c.Password))
	}
	r.remember(host, scheme, key, answer)
	return answer, nil
}
