package door

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/serve"
)

// deviceGrantType is the type of the grant in RFC 8628.
const deviceGrantType = "urn:ietf:params:oauth:grant-type:device_code"

// oauth returns the handler of a route that answers as OAuth does (RFC 8628: forms, and answers of OAuth).
func (d *Door) oauth(route func(*http.Request) (map[string]any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &patient{http.MaxBytesReader(w, r.Body, maxBody), http.NewResponseController(w)}
		answer, err := func() (map[string]any, error) {
			if err := r.ParseForm(); err != nil {
				return nil, fault.New(fault.Validation, "the form has not arrived, or has more than %d bytes",
					maxBody)
			}
			return route(r)
		}()
		if err == nil {
			serve.Answer(w, http.StatusOK, answer)
			return
		}
		if why, ok := errors.AsType[registry.DeviceError](err); ok {
			serve.Answer(w, http.StatusBadRequest, map[string]any{"error": string(why)})
			return
		}
		if fault.CodeOf(err) == fault.Validation {
			serve.Answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_request",
				"error_description": err.Error()})
			return
		}
		d.fail(w, err)
	})
}

// deviceCode begins a login.
func (d *Door) deviceCode(r *http.Request) (map[string]any, error) {
	q := registry.DeviceRequest{Label: r.PostForm.Get("label"), Names: strings.Fields(r.PostForm.Get("names"))}
	for _, scope := range strings.Fields(r.PostForm.Get("scope")) {
		q.Scopes = append(q.Scopes, registry.Scope(scope))
	}
	if life := r.PostForm.Get("life"); life != "" {
		seconds, err := strconv.ParseUint(life, 10, 31)
		if err != nil {
			return nil, fault.New(fault.Validation, "life is a number of seconds")
		}
		q.Life = time.Duration(seconds) * time.Second
	}
	grant, err := d.Registry.RequestDevice(r.Context(), q, d.address(r))
	if err != nil {
		return nil, err
	}
	return map[string]any{"device_code": grant.Secret, "user_code": grant.Code,
		"verification_uri": d.Registry.Site() + "/device", "expires_in": int(grant.Expires.Seconds()),
		"interval": int(grant.Interval.Seconds())}, nil
}

// deviceToken answers a machine that asks for its token.
func (d *Door) deviceToken(r *http.Request) (map[string]any, error) {
	if r.PostForm.Get("grant_type") != deviceGrantType {
		return nil, registry.DeviceError("unsupported_grant_type")
	}
	secret, made, err := d.Registry.Poll(r.Context(), r.PostForm.Get("device_code"))
	if err != nil {
		return nil, err
	}
	var scopes []string
	for _, scope := range made.Scopes {
		scopes = append(scopes, string(scope))
	}
	return map[string]any{"access_token": secret, "token_type": "Bearer", "scope": strings.Join(scopes, " "),
		"expires_in": int(made.Expires.Sub(made.Created).Seconds())}, nil
}

func (d *Door) devicePage(*visit) (*view, error) {
	return &view{name: "device", title: "Log a machine in"}, nil
}

// findDevice shows the machine whose code was typed.
func (d *Door) findDevice(v *visit) (*view, error) {
	found, ask, err := d.Registry.FindDevice(v.ctx, v.person, v.PostForm.Get("code"), d.address(v.Request))
	if err != nil {
		return nil, err
	}
	return &view{name: "allow", title: "Log a machine in", data: map[string]any{"Device": found, "Ask": ask}}, nil
}

func (d *Door) allowDevice(v *visit) (*view, error) {
	return answered("The machine gets its token."), d.Registry.AllowDevice(v.ctx, v.person, v.PostForm.Get("id"),
		v.PostForm.Get("ceremony"), v.answer())
}

func (d *Door) denyDevice(v *visit) (*view, error) {
	return answered("The machine gets no token."), d.Registry.DenyDevice(v.ctx, v.person, v.PostForm.Get("id"))
}

func answered(text string) *view {
	return &view{name: "answered", title: "Answered", data: map[string]any{"Text": text}}
}
