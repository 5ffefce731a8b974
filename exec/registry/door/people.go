package door

import (
	"slices"

	"github.com/rye-build/rye/exec/registry"
)

func (d *Door) enrolPage(*visit) (*view, error) {
	return &view{name: "enrol", title: "Make a passkey"}, nil
}

// openLink shows what a link is for.
func (d *Door) openLink(v *visit) (*view, error) {
	secret := v.PostForm.Get("link")
	link, ask, err := d.Registry.OpenLink(v.ctx, secret)
	if err != nil {
		return nil, err
	}
	v.person = nil // the passkey is not for who is signed in here
	return &view{name: "create", title: "Make a passkey", data: map[string]any{"Person": nil, "Ask": ask,
		"Account": link.Account, "By": link.By, "Action": "/enrol/passkey", "Link": secret}}, nil
}

func (d *Door) enrol(v *visit) (*view, error) {
	secret, err := d.Registry.Enrol(v.ctx, v.PostForm.Get("link"), v.PostForm.Get("ceremony"),
		v.PostForm.Get("label"), v.answer())
	if err != nil {
		return nil, err
	}
	return &view{goes: "/account", cookie: d.cookie(secret)}, nil
}

// nextPages are where a person can go from the page on which they sign in.
var nextPages = []string{"account", "device"}

func next(name string) string {
	if slices.Contains(nextPages, name) {
		return name
	}
	return nextPages[0]
}

func (d *Door) signInPage(v *visit) (*view, error) {
	ask, err := d.Registry.AskSignIn(v.ctx)
	if err != nil {
		return nil, err
	}
	return &view{name: "signin", title: "Sign in", data: map[string]any{"Ask": ask,
		"Next": next(v.URL.Query().Get("next"))}}, nil
}

func (d *Door) signIn(v *visit) (*view, error) {
	secret, err := d.Registry.SignIn(v.ctx, v.PostForm.Get("ceremony"), v.answer())
	if err != nil {
		return nil, err
	}
	return &view{goes: "/" + next(v.PostForm.Get("next")), cookie: d.cookie(secret)}, nil
}

func (d *Door) signOut(v *visit) (*view, error) {
	return &view{goes: "/", cookie: d.cookie("")}, d.Registry.SignOut(v.ctx, v.person)
}

func (d *Door) signUpPage(*visit) (*view, error) {
	if err := d.Registry.MaySignUp(); err != nil {
		return nil, err
	}
	return &view{name: "signup", title: "Make an account"}, nil
}

func (d *Door) askSignUp(v *visit) (*view, error) {
	name := v.PostForm.Get("account")
	ask, err := d.Registry.AskSignUp(v.ctx, name)
	if err != nil {
		return nil, err
	}
	v.person = nil
	return &view{name: "create", title: "Make an account", data: map[string]any{"Person": nil, "Ask": ask,
		"Account": name, "Action": "/signup/passkey"}}, nil
}

func (d *Door) signUp(v *visit) (*view, error) {
	secret, err := d.Registry.SignUp(v.ctx, v.PostForm.Get("ceremony"), v.PostForm.Get("label"), v.answer(),
		d.address(v.Request))
	if err != nil {
		return nil, err
	}
	return &view{goes: "/account", cookie: d.cookie(secret)}, nil
}

// A removable passkey can be removed with an answer to Ask.
type removable struct {
	*registry.Passkey
	Ask *registry.Ask
}

func (d *Door) accountPage(v *visit) (*view, error) {
	all, err := d.Registry.Passkeys(v.ctx, v.person.Account)
	if err != nil {
		return nil, err
	}
	passkeys := make([]removable, len(all))
	for i, k := range all {
		ask, err := d.Registry.AskRemovePasskey(v.ctx, v.person, k.ID)
		if err != nil {
			return nil, err
		}
		passkeys[i] = removable{k, ask}
	}
	add, err := d.Registry.AskNewPasskey(v.ctx, v.person)
	if err != nil {
		return nil, err
	}
	var invite *registry.Ask
	if d.Registry.CanInvite() {
		if invite, err = d.Registry.AskInvite(v.ctx, v.person); err != nil {
			return nil, err
		}
	}
	tokens, err := d.Registry.Tokens(v.ctx, v.person.Account)
	if err != nil {
		return nil, err
	}
	return &view{name: "account", title: v.person.Account, data: map[string]any{"Passkeys": passkeys, "Add": add,
		"Invite": invite, "Tokens": tokens}}, nil
}

// newPasskey asks the browser for another passkey, after one of the account has confirmed that.
func (d *Door) newPasskey(v *visit) (*view, error) {
	ask, err := d.Registry.NewPasskey(v.ctx, v.person, v.PostForm.Get("ceremony"), v.answer())
	if err != nil {
		return nil, err
	}
	return &view{name: "create", title: "Add a passkey", data: map[string]any{"Ask": ask,
		"Account": v.person.Account, "Action": "/account/passkey/add"}}, nil
}

func (d *Door) addPasskey(v *visit) (*view, error) {
	return &view{goes: "/account"}, d.Registry.AddPasskey(v.ctx, v.person, v.PostForm.Get("ceremony"),
		v.PostForm.Get("label"), v.answer())
}

func (d *Door) removePasskey(v *visit) (*view, error) {
	return &view{goes: "/account"}, d.Registry.RemovePasskey(v.ctx, v.person, v.PostForm.Get("id"),
		v.PostForm.Get("ceremony"), v.answer())
}

func (d *Door) removeTokenPage(v *visit) (*view, error) {
	return &view{goes: "/account"}, d.Registry.RemoveToken(v.ctx, v.person.Account, v.PostForm.Get("id"))
}

func (d *Door) invite(v *visit) (*view, error) {
	link, err := d.Registry.InviteNew(v.ctx, v.person, v.PostForm.Get("account"), v.PostForm.Get("ceremony"),
		v.answer())
	if err != nil {
		return nil, err
	}
	return &view{name: "invited", title: "An invitation", data: map[string]any{"Link": link}}, nil
}
