// The command rye approvals, which lists requests or shows one.

package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/redact"
	"github.com/rye-build/rye/manifest/jcs"
)

type listRun struct {
	Request string `arg:"" optional:"" complete:"request" help:"Request to show, or its first characters."`
	All     bool   `help:"Include requests that have ended."`
}

type listAnswer struct {
	Requests []request `json:"requests"`
	one      bool
}

// A request is the form of an approval.Request that answers show.
type request struct {
	Request   string         `json:"request"`
	State     approval.State `json:"state"`
	Kind      string         `json:"kind"` // call or gate
	Ref       string         `json:"ref"`
	Digest    string         `json:"digest,omitempty"`
	Risk      string         `json:"risk,omitempty"`
	Derived   string         `json:"risk_derived,omitempty"` // why a tool that declares no risk has this one
	Asks      string         `json:"asks"`                   // the question of a gate, or why a call needs approval
	Separate  bool           `json:"separate,omitempty"`
	Params    map[string]any `json:"params,omitempty"` // until the request has ended; secrets are masked
	Project   string         `json:"project,omitempty"`
	Set       string         `json:"set,omitempty"`
	Principal string         `json:"principal,omitempty"` // the caller
	Tenant    string         `json:"tenant,omitempty"`
	Thread    string         `json:"thread,omitempty"` // the thread that waits
	Created   string         `json:"created"`
	Expires   string         `json:"expires,omitempty"`
	By        string         `json:"by,omitempty"` // the user who answered
	Through   string         `json:"through,omitempty"`
	Reason    string         `json:"reason,omitempty"`
	Answered  string         `json:"answered,omitempty"`
	Call      string         `json:"call,omitempty"`  // the call's id in the audit log
	Code      string         `json:"code,omitempty"`  // error code of a failed call
	Steps     []logged       `json:"steps,omitempty"` // only for one request: its steps in the audit log
}

// A logged is a step of a request from the audit log.
type logged struct {
	At      string `json:"at"`
	State   string `json:"state"`
	By      string `json:"by,omitempty"`
	Segment string `json:"segment"`
	Line    int64  `json:"line"`
}

// shown converts a request for an answer. Params and Steps stay empty: they are read from elsewhere.
func shown(asked *approval.Request) request {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	request := request{Request: asked.ID, State: asked.State, Kind: asked.Kind, Ref: asked.Ref, Risk: asked.Risk,
		Derived:  asked.Derived,
		Asks:     asked.Asks(),
		Separate: asked.Separate, Project: asked.Project, Principal: asked.Principal,
		Tenant: asked.Tenant, Thread: asked.Thread, Created: at(asked.Created), By: asked.By,
		Through: asked.Through, Reason: asked.Reason,
		Answered: at(asked.Answered), Call: asked.Execution, Code: asked.Code}
	if !asked.State.Ended() {
		request.Expires = at(asked.Expires)
	}
	if !asked.Digest.IsZero() {
		request.Digest = asked.Digest.String()
	}
	if !asked.Set.IsZero() {
		request.Set = asked.Set.String()
	}
	return request
}

// open opens the requests of this user for reading only. The caller closes it.
func open(a *cli.App) (*approval.Local, error) {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, state.Err
	}
	return approval.Open(state.Value, a.Now, nil, nil), nil
}

func (c *listRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	requests, err := open(app)
	if err != nil {
		return nil, err
	}
	defer requests.Close()
	if c.Request != "" {
		r, err := approval.Find(ctx, requests, c.Request)
		if err != nil {
			return nil, err
		}
		single := shown(r)
		if single.Params, err = params(ctx, requests, r); err != nil {
			return nil, err
		}
		if single.Steps, err = steps(ctx, app, r.ID); err != nil {
			return nil, err
		}
		return listAnswer{[]request{single}, true}, nil
	}
	all, err := approval.List(ctx, requests, approval.Filter{Open: !c.All})
	if err != nil {
		return nil, err
	}
	ans := listAnswer{Requests: []request{}}
	for _, r := range all {
		row := shown(r)
		if row.Params, err = params(ctx, requests, r); err != nil {
			app.Term.Warn("%v", err) // the others can be answered all the same
		}
		ans.Requests = append(ans.Requests, row)
	}
	if len(all) == 0 {
		app.Term.Note("no requests")
	}
	return ans, nil
}

// params returns the parameters of a call with secrets masked, or nil if the request has ended: they are deleted
// then.
func params(ctx context.Context, l approval.Approvals, request *approval.Request) (map[string]any, error) {
	if request.State.Ended() {
		return nil, nil
	}
	b, err := l.Read(ctx, request.ID, approval.Params)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := jcs.Parse(b)
	if err != nil {
		return nil, fault.New(fault.Parsing, "can't read the parameters of %s: %v", request.ID, err).From(err)
	}
	masked, _ := redact.New().Value(v).(map[string]any)
	return masked, nil
}

// steps returns the steps of a request from the audit log, oldest first.
func steps(ctx context.Context, a *cli.App, id string) (all []logged, err error) {
	dirs, err := audits.Dirs(a)
	if err != nil {
		return nil, err
	}
	for s, err := range audit.Steps(ctx, dirs.Log, func(s *audit.Step) bool { return s.Request == id }) {
		if err != nil {
			return nil, err
		}
		now := logged{At: s.At.Format(time.RFC3339), State: s.State, By: s.By, Segment: s.Segment, Line: s.Line}
		if s.State == string(approval.Pending) {
			now.By = s.Principal
		}
		all = append(all, now)
	}
	slices.SortStableFunc(all, func(a, b logged) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

func (x listAnswer) Text(t *cli.Terminal) {
	if x.one {
		x.Requests[0].text(t)
		return
	}
	var open, answered [][]string
	for _, r := range x.Requests {
		row := []string{r.Request, string(r.State), r.Ref, r.Asks, cmp.Or(r.Thread, r.Principal),
			cmp.Or(r.Expires, r.Answered), cmp.Or(r.Project, "-"), r.paramsLine()}
		if r.State == approval.Pending {
			open = append(open, row)
		} else {
			answered = append(answered, row)
		}
	}
	t.Rows(open)
	if len(answered) > 0 {
		t.Printf("answered:\n")
		t.Rows(answered)
	}
}

// maxShown is how many bytes of a parameter rye approvals shows, maxLine of all parameters in a row.
const (
	maxShown = 4 << 10
	maxLine  = 120
)

// paramsLine returns the parameters as the command line takes them.
func (r *request) paramsLine() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		text, isText := r.Params[name].(string)
		if !isText {
			b, _ := json.Marshal(r.Params[name]) // parsed from JSON, so it can't fail
			text = string(b)
		}
		all = append(all, name+"="+text)
	}
	return fault.Clip(strings.Join(all, " "), maxLine)
}

func (r *request) text(term *cli.Terminal) {
	line := func(name, value string) {
		if value != "" {
			term.Printf("%-10s %s\n", name, value)
		}
	}
	line("request", r.Request)
	line("state", string(r.State))
	line("ref", r.Ref)
	line("asks", r.Asks)
	line("risk", model.RiskText(r.Risk, r.Derived))
	line("project", r.Project)
	line("principal", r.Principal)
	line("tenant", r.Tenant)
	line("thread", r.Thread)
	line("created", r.Created)
	line("expires", r.Expires)
	if r.By != "" {
		line("answered", strings.TrimSuffix(r.Answered+" by "+r.By+" through "+r.Through, " through "))
	}
	line("reason", r.Reason)
	line("call", r.Call)
	line("error", r.Code)
	if r.Separate {
		line("separate", "another person than "+r.Principal+" must approve it")
	}
	for _, s := range r.Steps {
		line("log", strings.TrimSuffix(s.At+" "+s.State+" by "+s.By, " by "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		b, _ := json.Marshal(r.Params[name]) // parsed from JSON, so it can't fail
		term.Printf("  %s: %s\n", name, fault.Clip(string(b), maxShown))
	}
}

// CompleteRequests offers the open requests, or those without an answer.
func CompleteRequests(ctx context.Context, a *cli.App, pending bool) []cli.Candidate {
	l, err := open(a)
	if err != nil {
		return nil
	}
	defer l.Close()
	all, _ := approval.List(ctx, l, approval.Filter{Open: true}) // unreadable requests are not offered
	all = slices.DeleteFunc(all, func(r *approval.Request) bool { return pending && r.State != approval.Pending })
	return cli.Offer(all, func(r *approval.Request) (string, string) { return r.ID, r.Ref + ": " + string(r.State) })
}
