package registry

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/passkey"
	"github.com/rye-build/rye/exec/registry/rows"
)

// An Ask is what a page asks a passkey: the options for navigator.credentials, and the ceremony that the page sends
// back with the answer.
type Ask struct {
	Ceremony string
	Options  string // JSON
	Create   bool   // the passkey is made; else it answers
}

// A ceremony is a challenge and what its answer will count for. The server keeps none: the page carries it, sealed by
// a key of the server, so a stranger who asks for a million challenges fills no store. It counts once (used) and for
// five minutes.
//
// Sealed, it is the unpadded base64url of its JSON, a dot, and that of the HMAC-SHA-256 of what stands before the dot.
type ceremony struct {
	Purpose   string    `json:"purpose"`
	Account   string    `json:"account,omitempty"`
	Bound     string    `json:"bound,omitempty"` // the row to which it belongs: of a session, or of a link
	Challenge []byte    `json:"challenge"`
	Expires   time.Time `json:"expires"`
}

// The purposes of ceremonies. One that confirms names what is confirmed behind it.
const (
	toSignIn  = "sign in"
	toEnrol   = "enrol"
	toSignUp  = "sign up"
	toConfirm = "confirm "
)

// ceremonyTime is how long a person has to answer.
const ceremonyTime = 5 * time.Minute

var (
	rawURL = base64.RawURLEncoding.Strict()

	errCeremony error = fault.New(fault.SessionExpired, "this page is too old, or was used already").
			Because("open it again")
)

// seal returns a new ceremony as a page carries it.
func (c *ceremony) seal(key []byte) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	payload := rawURL.EncodeToString(text)
	return payload + "." + rawURL.EncodeToString(tagOf(key, payload)), nil
}

func tagOf(key []byte, payload string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("rye registry ceremony\x00" + payload))
	return h.Sum(nil)
}

// unseal returns the ceremony that a page carried, if this registry has sealed it.
func unseal(key []byte, sealed string) (*ceremony, error) {
	payload, tag, _ := strings.Cut(sealed, ".")
	// Its text is compared: a decoder would ignore line breaks in it.
	if !hmac.Equal([]byte(tag), []byte(rawURL.EncodeToString(tagOf(key, payload)))) {
		return nil, errCeremony
	}
	text, err := rawURL.DecodeString(payload)
	if err != nil {
		return nil, errCeremony
	}
	c := new(ceremony)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, errCeremony
	}
	return c, nil
}

// A sealKey seals ceremonies. All processes of a registry have the same.
type sealKey struct {
	Key []byte `json:"key"`
}

// sealing returns the key that seals ceremonies, and makes it at the first use.
func (r *Registry) sealing(ctx context.Context) ([]byte, error) {
	var known *sealKey
	load := func(in rows.Reader) (err error) {
		known, err = get[sealKey](in, "key/ceremonies")
		return err
	}
	if err := r.o.Rows.View(ctx, load); err != nil || known != nil {
		return known.bytes(), err
	}
	err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		if err := load(in); err != nil || known != nil {
			return err
		}
		known = &sealKey{make([]byte, 32)}
		rand.Read(known.Key)
		return put(in, "key/ceremonies", known)
	})
	return known.bytes(), err
}

func (k *sealKey) bytes() []byte {
	if k == nil {
		return nil
	}
	return k.Key
}

// ask begins a ceremony, and returns what the page asks.
func (r *Registry) ask(ctx context.Context, c ceremony, options func(challenge []byte) ([]byte, error)) (*Ask, error) {
	if r.site == nil {
		return nil, r.noSite
	}
	key, err := r.sealing(ctx)
	if err != nil {
		return nil, err
	}
	c.Challenge, c.Expires = make([]byte, 32), r.now().Add(ceremonyTime)
	rand.Read(c.Challenge)
	text, err := options(c.Challenge)
	if err != nil {
		return nil, err
	}
	sealed, err := c.seal(key)
	if err != nil {
		return nil, err
	}
	return &Ask{Ceremony: sealed, Options: string(text)}, nil
}

// askCreate begins a ceremony that makes a passkey.
func (r *Registry) askCreate(ctx context.Context, c ceremony, have []*passkey.Key) (*Ask, error) {
	ask, err := r.ask(ctx, c, func(challenge []byte) ([]byte, error) {
		return r.site.CreateOptions(userOf(c.Account), challenge, have)
	})
	if ask != nil {
		ask.Create = true
	}
	return ask, err
}

// askGet begins a ceremony that a passkey answers: one of the keys, or any.
func (r *Registry) askGet(ctx context.Context, c ceremony, keys []*passkey.Key) (*Ask, error) {
	return r.ask(ctx, c, func(challenge []byte) ([]byte, error) { return r.site.GetOptions(challenge, keys) })
}

// openCeremony returns the ceremony that a page has sent back, for a purpose.
func (r *Registry) openCeremony(ctx context.Context, sealed, purpose string) (*ceremony, error) {
	if r.site == nil {
		return nil, r.noSite
	}
	key, err := r.sealing(ctx)
	if err != nil {
		return nil, err
	}
	c, err := unseal(key, sealed)
	if err != nil {
		return nil, err
	}
	if c.Purpose != purpose || !r.o.Now().Before(c.Expires) {
		return nil, errCeremony
	}
	return c, nil
}

// A mark is a row that only has to be there for some time.
type mark struct {
	Expires time.Time `json:"expires"`
}

// spend refuses a ceremony that has counted before, and marks it.
func (r *Registry) spend(in rows.Writer, c *ceremony) error {
	row := "used/" + hex.EncodeToString(c.Challenge)
	used, err := get[mark](in, row)
	if err != nil {
		return err
	}
	if used != nil {
		return errCeremony
	}
	if err := r.expire(in, "used/"); err != nil {
		return err
	}
	return put(in, row, mark{c.Expires})
}

// expire removes the rows with a prefix that have expired.
func (r *Registry) expire(in rows.Writer, prefix string) error {
	now := r.o.Now()
	return removeRows(in, prefix, func(m *mark) bool { return !now.Before(m.Expires) })
}

// removeRows removes the rows with a prefix for which drop is true.
func removeRows[T any](in rows.Writer, prefix string, drop func(*T) bool) error {
	var gone []string
	if err := each(in, prefix, func(name string, value *T) (bool, error) {
		if drop(value) {
			gone = append(gone, prefix+name)
		}
		return true, nil
	}); err != nil {
		return err
	}
	for _, name := range gone {
		in.Delete(name)
	}
	return nil
}

// A tally counts what someone did in a time.
type tally struct {
	N       int       `json:"n"`
	Expires time.Time `json:"expires"`
}

func tallyRow(what, who string) string { return "tally/" + digestOf(what+"\x00"+who) }

// count adds to what someone has done since the tally began.
func (r *Registry) count(in rows.Writer, what, who string, n int, window time.Duration) error {
	if err := r.expire(in, "tally/"); err != nil {
		return err
	}
	row := tallyRow(what, who)
	t, err := get[tally](in, row)
	if err != nil {
		return err
	}
	if t == nil {
		t = &tally{Expires: r.now().Add(window)}
	}
	t.N += n
	return put(in, row, t)
}

// within refuses who has done something too often.
func (r *Registry) within(in rows.Reader, what, who string, most int) error {
	t, err := get[tally](in, tallyRow(what, who))
	if err != nil || t == nil || t.N < most || !r.o.Now().Before(t.Expires) {
		return err
	}
	return fault.New(fault.RateLimited, "too many %s: wait until %s", what, t.Expires.Format("15:04 MST")).
		On("retry_after", t.Expires.Sub(r.o.Now()).Seconds())
}

// asserted verifies a passkey's answer within an update, and returns the account whose it is. A copied key is marked,
// and cloned is the error to return when that is written. An answer that has counted is refused before its counter is
// compared: a form that is sent twice is no sign of a copy.
func (r *Registry) asserted(in rows.Writer, c *ceremony, answer []byte) (account string, cloned, err error) {
	if err := r.spend(in, c); err != nil {
		return "", nil, err
	}
	var row string
	var known *Passkey
	used, err := r.site.Got(c.Challenge, answer, func(id []byte) (*passkey.Key, []byte, error) {
		row = passkeyRow(id)
		known, err = get[Passkey](in, row)
		if err != nil {
			return nil, nil, err
		}
		if known == nil || known.Copied || c.Account != "" && known.Account != c.Account {
			return nil, nil, errPasskey
		}
		return &known.Key, userOf(known.Account).Handle, nil
	})
	if errors.Is(err, passkey.ErrCloned) {
		known.Copied = true
		if err := r.note(in, Event{What: PasskeyCopied, Account: known.Account, Detail: known.ID}); err != nil {
			return "", nil, err
		}
		return "", fault.New(fault.AuthFailed, "the passkey %q may have been copied: it counts no more", known.Label).
			Because("its counter did not grow", "another passkey of the account can remove it; without one the "+
				"registry's host resets the account"), put(in, row, known)
	}
	if err != nil {
		return "", nil, err
	}
	if err := activeOr(in, known.Account, errPasskey); err != nil {
		return "", nil, err
	}
	known.Key, known.Used = *used, r.now()
	return known.Account, nil, put(in, row, known)
}

var errPasskey error = fault.New(fault.AuthFailed, "this passkey belongs to no account here")
