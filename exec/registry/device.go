package registry

import (
	"context"
	"crypto/rand"
	"math/big"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
)

// The device flow (RFC 8628): a machine without a browser asks for a token (RequestDevice) and shows a code, a person
// types it on the registry's page (FindDevice), sees what it is for, and confirms with a passkey (AllowDevice). The
// machine then fetches the token (Poll). No link carries the code: who sends one to a victim would only have to make
// them confirm.

// A DeviceRequest is the token that a machine asks for. All of it is a stranger's word.
type DeviceRequest struct {
	Label  string
	Scopes []Scope
	Names  []string
	Life   time.Duration // 0 is the registry's default
}

// A Device is a machine that asks for a token, as the page shows it.
type Device struct {
	ID      string
	Token   Token // the one that it would get
	Address string
	Asked   time.Time
}

// A DeviceGrant is what the machine gets at first.
type DeviceGrant struct {
	Secret   string // the device code
	Code     string // what the person types
	Expires  time.Duration
	Interval time.Duration // between two questions
}

// A DeviceError is why there is no token (yet), as RFC 8628 names it.
type DeviceError string

// The reasons.
const (
	DevicePending DeviceError = "authorization_pending"
	DeviceSlow    DeviceError = "slow_down"
	DeviceDenied  DeviceError = "access_denied"
	DeviceExpired DeviceError = "expired_token"
	DeviceUnknown DeviceError = "invalid_grant"
)

// Error implements error.
func (e DeviceError) Error() string { return "device login: " + string(e) }

// A device is the row of a machine that asks; its name is the digest of the device code.
type device struct {
	Token    Token     `json:"token"`
	Address  string    `json:"address"`
	Code     string    `json:"code"` // the row of what the person types
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
	Polled   time.Time `json:"polled,omitzero"`
	Interval int       `json:"interval"`          // seconds
	Account  string    `json:"account,omitempty"` // who has typed the code
	Answer   string    `json:"answer,omitempty"`  // "allowed" or "denied"
}

// A typed row leads from the code that a person types to the device.
type typed struct {
	Device  string    `json:"device"`
	Expires time.Time `json:"expires"`
}

// The limits of the device flow. A code has 20^8 values (34 bits) and lives for 15 minutes. An account guesses five
// times in that time, so a guess hits one of a thousand open codes with a chance of one in five million.
const (
	deviceTime     = 15 * time.Minute
	deviceInterval = 5  // seconds between two questions, and what a machine that is too fast waits longer
	maxDevices     = 10 // of an address at a time
	maxAllDevices  = 5000
	maxWrong       = 5  // codes of a session, and of an account, in deviceTime
	maxWrongThere  = 50 // codes of an address, which an office may share, in deviceTime
	maxTokenNames  = 100

	codeLetters = "BCDFGHJKLMNPQRSTVWXZ" // no vowels, so no words
	codeLength  = 8
)

// networkOf returns what counts as one place: an IPv4 address, or the network of an IPv6 address.
func networkOf(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	network, _ := ip.WithZone("").Prefix(64)
	return network.String()
}

// newCode returns a code as a person types it.
func newCode() (string, error) {
	code := make([]byte, 0, codeLength+1)
	for i := range codeLength {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(codeLetters))))
		if err != nil {
			return "", err
		}
		if i == codeLength/2 {
			code = append(code, '-')
		}
		code = append(code, codeLetters[n.Int64()])
	}
	return string(code), nil
}

// codeRow returns the row for what a person has typed, whatever stands between the letters.
func codeRow(text string) string {
	letters := strings.Map(func(c rune) rune {
		if c = unicode.ToUpper(c); c < 'A' || c > 'Z' {
			return -1
		}
		return c
	}, text[:min(len(text), 100)])
	return "code/" + digestOf("rye registry code\x00"+letters)
}

// RequestDevice begins the login of a machine.
func (r *Registry) RequestDevice(ctx context.Context, q DeviceRequest, address string) (*DeviceGrant, error) {
	if r.site == nil {
		return nil, r.noSite
	}
	if q.Life == 0 {
		q.Life = tokenLife
	}
	now := r.now()
	if q.Life < 0 || q.Life > MaxTokenLife {
		return nil, fault.New(fault.Validation, "a token lives for at most a year, and ends later than now")
	}
	t := Token{Label: q.Label, Scopes: q.Scopes, Names: q.Names, Expires: now.Add(q.Life), Login: true}
	if err := t.check(now); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(t.Label, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return nil, fault.New(fault.Validation, "the name of a token has printable characters alone")
	}
	code, err := newCode()
	if err != nil {
		return nil, err
	}
	secret := newSecret(secretPrefix + "d_")
	row := "device/" + digestOf(secret)
	return &DeviceGrant{secret, code, deviceTime, deviceInterval * time.Second}, r.o.Rows.Update(ctx,
		func(in rows.Writer) error {
			here, all := 0, 0
			if err := r.expire(in, "device/"); err != nil {
				return err
			}
			if err := r.expire(in, "code/"); err != nil {
				return err
			}
			if err := each(in, "device/", func(_ string, d *device) (bool, error) {
				all++
				if networkOf(d.Address) == networkOf(address) {
					here++
				}
				return true, nil
			}); err != nil {
				return err
			}
			if here >= maxDevices || all >= maxAllDevices {
				return fault.New(fault.RateLimited, "too many logins wait for an answer").
					On("retry_after", deviceTime.Seconds())
			}
			other, err := get[typed](in, codeRow(code))
			if err != nil {
				return err
			}
			if other != nil {
				return fault.New(fault.Busy, "the code is taken: ask again")
			}
			d := device{Token: t, Address: address, Code: codeRow(code), Created: now, Expires: now.Add(deviceTime),
				Interval: deviceInterval}
			if err := put(in, codeRow(code), typed{row, d.Expires}); err != nil {
				return err
			}
			return put(in, row, &d)
		})
}

// waiting returns the device in a row that a person can answer.
func (r *Registry) waiting(in rows.Reader, row string) (*device, error) {
	d, err := get[device](in, row)
	if err != nil {
		return nil, err
	}
	if d == nil || !r.o.Now().Before(d.Expires) || d.Answer != "" {
		return nil, errCode
	}
	return d, nil
}

var errCode error = fault.New(fault.AuthFailed, "no login waits for this code").
	Because("it may have a typing error, have expired, or be answered already")

// FindDevice returns the machine that shows a code, and asks the person to confirm its login. The fifth wrong code
// ends the session, and the account has to wait.
func (r *Registry) FindDevice(ctx context.Context, p *Person, code, address string) (*Device, *Ask, error) {
	var found *Device
	var wrong error
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		found, wrong = nil, nil
		s, err := r.session(in, p)
		if err != nil {
			return err
		}
		if err := r.within(in, wrongCodes, "account "+p.Account, maxWrong); err != nil {
			return err
		}
		if err := r.within(in, wrongCodes, "address "+networkOf(address), maxWrongThere); err != nil {
			return err
		}
		to, err := get[typed](in, codeRow(code))
		if err != nil {
			return err
		}
		var d *device
		if to != nil {
			if d, err = r.waiting(in, to.Device); err != nil && fault.CodeOf(err) != fault.AuthFailed {
				return err
			}
		}
		// A code that another account has typed is theirs.
		if d == nil || d.Account != "" && d.Account != p.Account {
			wrong = errCode
			return r.wrongCode(in, p, s, address)
		}
		found = &Device{ID: strings.TrimPrefix(to.Device, "device/"), Token: d.Token, Address: d.Address,
			Asked: d.Created}
		if d.Account == p.Account {
			return nil
		}
		d.Account = p.Account
		return put(in, to.Device, d)
	}); err != nil {
		return nil, nil, err
	}
	if wrong != nil {
		return nil, nil, wrong
	}
	ask, err := r.AskConfirm(ctx, p, toAllow+found.ID)
	return found, ask, err
}

// wrongCodes is what the tally of guesses counts.
const wrongCodes = "wrong codes"

// wrongCode counts a wrong code, and ends the session with the last one that it may type.
func (r *Registry) wrongCode(in rows.Writer, p *Person, s *session, address string) error {
	for _, who := range []string{"account " + p.Account, "address " + networkOf(address)} {
		if err := r.count(in, wrongCodes, who, 1, deviceTime); err != nil {
			return err
		}
	}
	if s.Wrong++; s.Wrong >= maxWrong {
		in.Delete(p.row)
		return nil
	}
	return put(in, p.row, s)
}

// typedBy returns a device that waits for the answer of a person.
func (r *Registry) typedBy(in rows.Reader, p *Person, id string) (string, *device, error) {
	row := "device/" + id
	if len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", nil, errCode
	}
	d, err := r.waiting(in, row)
	if err == nil && d.Account != p.Account {
		err = errCode
	}
	return row, d, err
}

// AllowDevice gives a machine its token, once a person has confirmed that with a passkey.
func (r *Registry) AllowDevice(ctx context.Context, p *Person, id, sealed string, answer []byte) error {
	return r.confirmed(ctx, p, toAllow+id, sealed, answer, func(in rows.Writer) error {
		return r.answerDevice(in, p, id, "allowed")
	})
}

// DenyDevice refuses a machine.
func (r *Registry) DenyDevice(ctx context.Context, p *Person, id string) error {
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		if _, err := r.session(in, p); err != nil {
			return err
		}
		return r.answerDevice(in, p, id, "denied")
	})
}

func (r *Registry) answerDevice(in rows.Writer, p *Person, id, answer string) error {
	row, d, err := r.typedBy(in, p, id)
	if err != nil {
		return err
	}
	d.Answer = answer
	in.Delete(d.Code)
	return put(in, row, d)
}

// Poll returns the token of a machine, once. Until a person has answered it returns a DeviceError.
func (r *Registry) Poll(ctx context.Context, secret string) (token string, made *Token, err error) {
	row := "device/" + digestOf(secret)
	var why DeviceError
	err = r.o.Rows.Update(ctx, func(in rows.Writer) error {
		why = ""
		d, err := get[device](in, row)
		if err != nil {
			return err
		}
		now := r.o.Now()
		switch {
		case d == nil:
			why = DeviceUnknown
			return nil
		case !now.Before(d.Expires):
			why = DeviceExpired
			in.Delete(d.Code)
			in.Delete(row)
			return nil
		case d.Answer == "denied":
			why = DeviceDenied
			in.Delete(row)
			return nil
		case now.Before(d.Polled.Add(time.Duration(d.Interval) * time.Second)):
			why = DeviceSlow
			d.Interval = min(d.Interval+deviceInterval, 60)
		case d.Answer == "":
			why = DevicePending
		default:
			in.Delete(row)
			t := d.Token
			t.Account = d.Account
			token, made, err = r.addToken(in, t)
			return err
		}
		d.Polled = now
		return put(in, row, d)
	})
	if err == nil && why != "" {
		err = why
	}
	if err != nil {
		return "", nil, err
	}
	return token, made, nil
}
