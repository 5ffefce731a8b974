package registry_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
)

func machine() registry.DeviceRequest {
	return registry.DeviceRequest{Label: "laptop", Scopes: registry.Scopes}
}

// A typedDevice is what the page shows for a code.
type typedDevice struct {
	*registry.Device
	ask *registry.Ask
}

// typed begins the login of a machine, and types its code.
func (w *world) typed(h *human) (*registry.DeviceGrant, typedDevice) {
	w.Helper()
	grant, err := w.RequestDevice(w.Context(), machine(), there)
	if err != nil {
		w.Fatal(err)
	}
	found, ask, err := w.FindDevice(w.Context(), h.person, grant.Code, there)
	if err != nil {
		w.Fatal(err)
	}
	return grant, typedDevice{found, ask}
}

// login returns a token that a person has allowed.
func (w *world) login(h *human) string {
	w.Helper()
	grant, found := w.typed(h)
	ceremony, answer := h.answers(found.ask, nil)
	if err := w.AllowDevice(w.Context(), h.person, found.ID, ceremony, answer); err != nil {
		w.Fatal(err)
	}
	token, _, err := w.Poll(w.Context(), grant.Secret)
	if err != nil {
		w.Fatal(err)
	}
	return token
}

// TestDevice: a machine gets a token once a person has allowed it, and not before, and once.
func TestDevice(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada := w.human("ada")
	grant, err := w.RequestDevice(ctx, registry.DeviceRequest{Label: "laptop", Names: []string{"acme/**"},
		Scopes: []registry.Scope{registry.ScopePublish}, Life: time.Hour}, there)
	if err != nil || grant.Interval != 5*time.Second || grant.Expires != 15*time.Minute {
		t.Fatalf("%+v, %v", grant, err)
	}
	poll := func(want error) {
		t.Helper()
		if _, _, err := w.Poll(ctx, grant.Secret); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	poll(registry.DevicePending)
	poll(registry.DeviceSlow) // now every 10 seconds
	w.now = noon.Add(9 * time.Second)
	poll(registry.DeviceSlow) // now every 15
	w.now = w.now.Add(15 * time.Second)
	poll(registry.DevicePending)
	lower := strings.ToLower(strings.Replace(grant.Code, "-", " ", 1))
	found, ask, err := w.FindDevice(ctx, ada.person, lower, there)
	if err != nil {
		t.Fatal(err)
	}
	if found.Address != there || found.Token.Label != "laptop" || !found.Asked.Equal(noon) ||
		!slices.Equal(found.Token.Names, []string{"acme/**"}) || !found.Token.Expires.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", found)
	}
	w.now = w.now.Add(15 * time.Second)
	poll(registry.DevicePending)
	ceremony, answer := ada.answers(ask, nil)
	if err := w.AllowDevice(ctx, ada.person, found.ID, ceremony, answer); err != nil {
		t.Fatal(err)
	}
	poll(registry.DeviceSlow)
	w.now = w.now.Add(20 * time.Second)
	token, made, err := w.Poll(ctx, grant.Secret)
	if err != nil || made.Account != "ada" || !made.Login || !made.Expires.Equal(noon.Add(time.Hour)) {
		t.Fatalf("%+v, %v", made, err)
	}
	if caller, err := w.Caller(ctx, token); err != nil || caller.Account != "ada" {
		t.Errorf("%+v, %v", caller, err)
	}
	poll(registry.DeviceUnknown)

	// Denied.
	w.now = noon
	denied, shown := w.typed(ada)
	if err := w.DenyDevice(ctx, ada.person, shown.ID); err != nil {
		t.Fatal(err)
	}
	wants(t, w.DenyDevice(ctx, ada.person, shown.ID), fault.AuthFailed, "no login waits")
	ceremony, answer = ada.answers(shown.ask, nil)
	wants(t, w.AllowDevice(ctx, ada.person, shown.ID, ceremony, answer), fault.AuthFailed, "no login waits")
	if _, _, err := w.Poll(ctx, denied.Secret); err != registry.DeviceDenied ||
		err.Error() != "device login: access_denied" {
		t.Error(err)
	}
	// Expired.
	expired, shown := w.typed(ada)
	w.now = noon.Add(15 * time.Minute)
	_, _, err = w.FindDevice(ctx, ada.person, expired.Code, there)
	wants(t, err, fault.AuthFailed, "no login waits")
	ceremony, answer = ada.answers(w.AskConfirm(ctx, ada.person, "the login of the device "+shown.ID))
	wants(t, w.AllowDevice(ctx, ada.person, shown.ID, ceremony, answer), fault.AuthFailed, "no login waits")
	if _, _, err := w.Poll(ctx, expired.Secret); err != registry.DeviceExpired {
		t.Error(err)
	}

	for _, bad := range []func(*registry.DeviceRequest){
		func(q *registry.DeviceRequest) { q.Label = "" }, func(q *registry.DeviceRequest) { q.Label = "a\u202eb" },
		func(q *registry.DeviceRequest) { q.Scopes = nil },
		func(q *registry.DeviceRequest) { q.Scopes = []registry.Scope{"root"} },
		func(q *registry.DeviceRequest) { q.Scopes = append(registry.Scopes, registry.ScopeOwner) },
		func(q *registry.DeviceRequest) { q.Names = []string{"***"} },
		func(q *registry.DeviceRequest) { q.Names = slices.Repeat([]string{"a/**"}, 101) },
		func(q *registry.DeviceRequest) { q.Life = -1 },
		func(q *registry.DeviceRequest) { q.Life = registry.MaxTokenLife + time.Second },
	} {
		q := machine()
		bad(&q)
		_, err := w.RequestDevice(ctx, q, there)
		wants(t, err, fault.Validation, "")
	}
}

// TestBadCodes: codes and devices that are guessed, or were typed by another account, open nothing. The fifth wrong
// code ends the session, and the account waits, however often it signs in.
func TestBadCodes(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada, eve := w.human("ada"), w.human("eve")
	grant, found := w.typed(ada)

	_, _, err := w.FindDevice(ctx, eve.person, grant.Code, there)
	wants(t, err, fault.AuthFailed, "no login waits")
	ceremony, answer := eve.answers(w.AskConfirm(ctx, eve.person, "the login of the device "+found.ID))
	wants(t, w.AllowDevice(ctx, eve.person, found.ID, ceremony, answer), fault.AuthFailed, "no login waits")
	wants(t, w.DenyDevice(ctx, eve.person, found.ID), fault.AuthFailed, "no login waits")
	wants(t, w.DenyDevice(ctx, ada.person, "../ada"), fault.AuthFailed, "no login waits")
	wants(t, w.DenyDevice(ctx, nil, found.ID), fault.SessionExpired, "")
	_, other := w.typed(ada)
	ceremony, answer = ada.answers(other.ask, nil)
	wants(t, w.AllowDevice(ctx, ada.person, found.ID, ceremony, answer), fault.SessionExpired, "")
	for _, guess := range []string{"", grant.Secret + "x", found.ID, grant.Code} {
		if _, _, err := w.Poll(ctx, guess); err != registry.DeviceUnknown {
			t.Errorf("%q: %v", guess, err)
		}
	}
	for i := range 4 {
		_, _, err := w.FindDevice(ctx, eve.person, fmt.Sprint("BCDF-GHJ", i), there)
		wants(t, err, fault.AuthFailed, "no login waits")
	}
	_, err = w.Person(ctx, eve.secret)
	wants(t, err, fault.SessionExpired, "")
	_, _, err = w.FindDevice(ctx, eve.person, grant.Code, there)
	wants(t, err, fault.SessionExpired, "")
	if eve.secret, err = eve.signIn(); err != nil {
		t.Fatal(err)
	}
	eve.person = w.personOf(eve.secret)
	_, _, err = w.FindDevice(ctx, eve.person, grant.Code, "another")
	wants(t, err, fault.RateLimited, "too many wrong codes: wait until 12:15 UTC")
	if _, _, err := w.FindDevice(ctx, ada.person, grant.Code, there); err != nil {
		t.Error(err)
	}
	w.now = noon.Add(15 * time.Minute)
	_, _, err = w.FindDevice(ctx, eve.person, "BCDF-GHJK", there)
	wants(t, err, fault.AuthFailed, "no login waits")
}

// TestGuessingPlace: an address types a bounded number of wrong codes, and several people share them.
func TestGuessingPlace(t *testing.T) {
	w := newWorld(t)
	for n := range 11 {
		h := w.human(fmt.Sprint("person", n))
		for i := range 5 {
			_, _, err := w.FindDevice(t.Context(), h.person, "BCDF-GHJK", fmt.Sprintf("2001:db8::%x:%x", n+1, i))
			if n == 10 {
				wants(t, err, fault.RateLimited, "too many wrong codes")
			} else {
				wants(t, err, fault.AuthFailed, "no login waits")
			}
		}
	}
}

// TestManyDevices: a place has a bounded number of machines that wait.
func TestManyDevices(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		if _, err := w.RequestDevice(t.Context(), machine(), there); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.RequestDevice(t.Context(), machine(), there)
	wants(t, err, fault.RateLimited, "too many logins")
	if _, err := w.RequestDevice(t.Context(), machine(), "198.51.100.1"); err != nil {
		t.Error(err)
	}
	w.now = noon.Add(15 * time.Minute)
	if _, err := w.RequestDevice(t.Context(), machine(), there); err != nil {
		t.Error(err)
	}
}

// TestMakeToken: a token makes others if a person has confirmed it, and none that does or lasts more.
func TestMakeToken(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	by := func(token registry.Token) *registry.Caller {
		token.Account, token.Label = "ada", "by"
		return w.callerFor(token)
	}
	login := by(registry.Token{Login: true, Scopes: []registry.Scope{registry.ScopeOwner, registry.ScopePublish},
		Names: []string{"acme/**", "one/two", "x/*"}, Expires: noon.Add(time.Hour)})
	good := registry.Token{Label: "ci", Scopes: []registry.Scope{registry.ScopePublish}}
	secret, made, err := w.MakeToken(ctx, login, good)
	if err != nil || made.Login || made.Account != "ada" || !made.Expires.Equal(noon.Add(time.Hour)) ||
		!slices.Equal(made.Names, login.Token.Names) {
		t.Fatalf("%+v, %v", made, err)
	}
	child, err := w.Caller(ctx, secret)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = w.MakeToken(ctx, child, good)
	wants(t, err, fault.Denied, "makes no others")
	wants(t, w.EndToken(ctx, child, login.Token.ID), fault.Denied, "ends no others")
	eve := w.callerFor(registry.Token{Account: "eve", Label: "e", Scopes: registry.Scopes})
	wants(t, w.EndToken(ctx, eve, child.Token.ID), fault.NotFound, child.Token.ID)
	if err := w.EndToken(ctx, child, child.Token.ID); err != nil {
		t.Error(err)
	}
	_, _, err = w.MakeToken(ctx, nil, good)
	wants(t, err, fault.AuthRequired, "")
	publisher := by(registry.Token{Login: true, Scopes: []registry.Scope{registry.ScopePublish}})
	_, _, err = w.MakeToken(ctx, publisher, good)
	wants(t, err, fault.Denied, "makes no others")
	_, _, err = w.MakeToken(ctx, by(registry.Token{Scopes: registry.Scopes}), good)
	wants(t, err, fault.Denied, "makes no others")
	for _, bad := range []func(*registry.Token){
		func(x *registry.Token) { x.Scopes = []registry.Scope{registry.ScopeStage} },
		func(x *registry.Token) { x.Names = []string{"**"} }, func(x *registry.Token) { x.Names = []string{"acme"} },
		func(x *registry.Token) { x.Names = []string{"acmetools/**"} },
		func(x *registry.Token) { x.Names = []string{"x/**"} },
		func(x *registry.Token) { x.Names = []string{"one/**"} },
		func(x *registry.Token) { x.Names = []string{"tool:acme/x"} },
		func(x *registry.Token) { x.Expires = noon.Add(time.Hour + time.Second) },
		func(x *registry.Token) { x.Scopes, x.Names = login.Token.Scopes, []string{"acme/x/**"} },
		func(x *registry.Token) { x.Scopes, x.Names = login.Token.Scopes, []string{"x/y"} },
	} {
		x := good
		bad(&x)
		_, _, err := w.MakeToken(ctx, login, x)
		wants(t, err, fault.Denied, "your token")
	}
	for _, names := range [][]string{{"acme/**"}, {"acme/base"}, {"acme/*"}, {"one/two"}, {"x/*", "x/y"}} {
		x := good
		x.Names, x.Account, x.Login = names, "eve", true
		if _, made, err := w.MakeToken(ctx, login, x); err != nil || made.Account != "ada" || made.Login {
			t.Errorf("%v: %+v, %v", names, made, err)
		}
	}
	all := by(registry.Token{Login: true, Scopes: registry.Scopes, Expires: noon.Add(300 * 24 * time.Hour)})
	if _, made, err := w.MakeToken(ctx, all, good); err != nil || !made.Expires.Equal(noon.Add(90*24*time.Hour)) {
		t.Errorf("%+v, %v", made, err)
	}
	bad := good
	bad.Label = ""
	_, _, err = w.MakeToken(ctx, all, bad)
	wants(t, err, fault.Validation, "")
}
