// The commands that answer a request: rye approve and rye deny.

package approvals

import (
	"context"
	"strings"
	"unicode"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/session"
)

type approveRun struct {
	Request string `arg:"" complete:"pending" help:"Request to approve, or its first characters."`
}

type denyRun struct {
	Request string `arg:"" complete:"pending" help:"Request to deny, or its first characters."`
	Reason  string `placeholder:"TEXT" help:"Why; the caller gets it."`
}

// An answer shows the request after the change.
type answer struct {
	request
	Next string `json:"next,omitempty"` // the command that resumes the request's thread
}

func (c *approveRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	return step(ctx, a, c.Request, approval.Step{To: approval.Approved, Through: "rye approve"})
}

// maxReason is the longest reason, in bytes.
const maxReason = 500

func (c *denyRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if len(c.Reason) > maxReason || strings.ContainsFunc(c.Reason, func(r rune) bool {
		return !unicode.IsGraphic(r)
	}) {
		return nil, fault.New(fault.Validation, "--reason must be one line of at most %d bytes", maxReason)
	}
	return step(ctx, a, c.Request, approval.Step{To: approval.Denied, Through: "rye deny", Reason: c.Reason})
}

// step records this user's answer to the request whose id begins with id.
func step(ctx context.Context, a *cli.App, id string, s approval.Step) (cli.Answer, error) {
	var request *approval.Request
	err := change(ctx, a, func(l *approval.Local) (err error) {
		if request, err = approval.Find(ctx, l, id); err == nil {
			s.By = session.User()
			request, err = l.Do(ctx, request.ID, s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	ans := answer{request: shown(request)}
	if request.Thread != "" {
		ans.Next = fault.Command("rye thread resume", request.Thread)
	}
	return ans, nil
}

// change calls do with requests that it may change. The audit log records each change, so a log that can't be opened
// prevents it.
func change(ctx context.Context, a *cli.App, do func(*approval.Local) error) error {
	state := a.Dir(cli.StatePlace)
	if state.Err != nil {
		return state.Err
	}
	log, _, _, err := session.AuditIn(state.Value).Open(paths.Keys(a), "rye "+cli.ThisVersion().Version, a.Now)
	if err != nil {
		return err
	}
	l := approval.Open(state.Value, a.Now, log, nil)
	defer l.Close()
	err = do(l)
	if logged := log.Close(context.WithoutCancel(ctx)); err == nil && logged != nil {
		err = fault.Wrap(logged, "the answer is recorded, but closing the audit log failed: %v", logged)
	}
	return err
}

// Forget supersedes the open requests of a thread that has ended. It opens the audit log only if there are any.
func Forget(ctx context.Context, a *cli.App, thread, why string) error {
	l, err := open(a)
	if err != nil {
		return err
	}
	defer l.Close()
	if all, err := approval.List(ctx, l, approval.Filter{Thread: thread, Open: true}); err != nil || len(all) == 0 {
		return err
	}
	return change(ctx, a, func(l *approval.Local) error { return approval.Forget(ctx, l, thread, why) })
}

func (x answer) Text(t *cli.Terminal) {
	t.Printf("%s %s: %s\n", x.State, x.Request, x.Ref)
	switch {
	case x.State != approval.Approved:
	case x.Next != "":
		t.Note("the thread continues if its process is waiting; otherwise run: %s", x.Next)
	case x.Expires != "":
		t.Note("the call can be made once, until %s", x.Expires)
	}
}
