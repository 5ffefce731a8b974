package classify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/primitive/resilient"
	"github.com/rye-build/rye/exec/primitive/subprocess"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sink"
	"github.com/rye-build/rye/exec/template"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/unpack"
	"github.com/rye-build/rye/lock/packages"
)

// ofCalls recognises what the room exec says.
func ofCalls(f *fault.Error) bool {
	var (
		none        *exec.PrimitiveError
		lone        *exec.LoneError
		unlisted    *exec.UnlistedError
		input       *exec.InputError
		config      *exec.ConfigError
		files       *exec.FilesError
		granted     *exec.GrantError
		said        *exec.ActionError
		toolchain   *exec.ToolchainError
		unwritten   *exec.AuditError
		text        *params.TextError
		invalid     *params.InvalidError
		schema      *params.SchemaError
		filling     *template.Error
		environment *env.Error
		program     *env.NotFoundError
		argument    *proc.ArgumentError
		denied      *primitive.DeniedError
		call        *function.CallError
		directory   *subprocess.DirectoryError
		host        *httpclient.GrantError
		inside      *httpclient.InsideError
		request     *httpclient.RequestError
		unavailable *sandbox.UnavailableError
		failures    *classification.Error
		settings    *resilient.SettingError
		asleep      *resilient.OpenError
		often       *resilient.RateError
		limit       *materialise.LimitError
		target      *sink.TargetError
		torn        *sink.TornError
		line        *sink.LineError
		server      *sink.ServerError
		unpinned    *exec.UnpinnedError
		wheel       *exec.WheelError
		needed      *exec.PackagesError
		list        *packages.Error
		archive     *unpack.FormatError
		record      *unpack.RecordError
		source      *exec.SourceError
		bomb        *unpack.LimitError
	)
	switch {
	case errors.As(f.Err, &unavailable):
		f.Code, f.Details = fault.Sandbox, map[string]any{"need": unavailable.Level.String()}
		f.Hint = []string{"rye doctor"}
		f.Why = append(f.Why, "a policy may allow less for other people's items: exec: {strangers: limits}, in policy.yaml of the user")
	case errors.As(f.Err, &none):
		f.Code, f.Details = fault.ExecutorNotFound, map[string]any{"ref": none.Ref.String(), "primitive": none.Primitive}
		f.Hint = []string{"rye docs runtimes"}
	case errors.As(f.Err, &lone):
		f.Code, f.Details = fault.Validation, map[string]any{"ref": lone.Ref.String()}
		f.Hint = []string{"rye docs tool-format"}
	case errors.As(f.Err, &unlisted):
		f.Code, f.Details = fault.Policy, map[string]any{"ref": unlisted.Ref.String(), "reason": "evidence-only"}
		f.Hint = []string{"rye sign --upgrade " + fault.Quote(unlisted.Ref.String())}
	case errors.As(f.Err, &input):
		f.Code, f.Details = fault.Validation, map[string]any{"ref": input.Ref.String()}
		f.Hint = []string{"rye exec " + fault.Quote(input.Ref.String()) + " --help"}
		if errors.As(f.Err, &invalid) {
			f.Text = fmt.Sprintf("the parameters aren't what %q takes", input.Ref)
			addProblems(f, invalid.Problems)
		}
	case errors.As(f.Err, &text):
		f.Code, f.Details = fault.Validation, map[string]any{"argument": text.Source}
	case errors.As(f.Err, &config):
		f.Code, f.Details = fault.Validation, map[string]any{"ref": config.Ref.String()}
		f.Hint = []string{"rye show " + fault.Quote(config.Ref.String())}
		switch {
		case errors.As(f.Err, &invalid):
			f.Text = fmt.Sprintf("the configuration that the chain of %q makes isn't what its primitive takes", config.Ref)
			addProblems(f, invalid.Problems)
		case errors.As(f.Err, &schema):
			f.Details["pointer"] = schema.Pointer
		case errors.As(f.Err, &program):
			f.Code = fault.Failed
			notFound(f, program)
		}
	case errors.As(f.Err, &filling):
		f.Code, f.Details = fault.Validation, map[string]any{"ref": filling.Link, "path": filling.Path}
	case errors.As(f.Err, &environment):
		f.Code, f.Details = fault.Validation, map[string]any{"ref": environment.Link, "field": environment.Field}
		if errors.As(f.Err, &program) {
			f.Code = fault.Failed
			notFound(f, program)
		}
	case errors.As(f.Err, &files):
		f.Code, f.Details = fault.Denied, map[string]any{"ref": files.Ref.String(), "path": files.Path}
	case errors.As(f.Err, &granted):
		f.Code, f.Details = fault.Config, map[string]any{"ref": granted.Ref.String()}
		f.Why = append(f.Why, "grants: has files:read:PATH, files:write:PATH, network:HOST, and capabilities as rye.execute.tool.acme.fetch")
		f.Hint = []string{"rye docs sandbox"}
	case errors.As(f.Err, &said):
		f.Code, f.Details = fault.Failed, map[string]any{"ref": said.Ref.String()}
	case errors.As(f.Err, &toolchain):
		f.Code, f.Hint = fault.LockMismatch, []string{"rye lock"}
		f.Details = map[string]any{"ref": toolchain.Ref.String(), "program": toolchain.Name, "path": toolchain.Path,
			"expected": DigestText(toolchain.Want), "found": DigestText(toolchain.Found)}
		if toolchain.Want.IsZero() {
			f.Code = fault.NotLocked
			f.Why = append(f.Why, "the policy says toolchain: enforce, so what executes is pinned too")
			break
		}
		f.Why = append(f.Why, "expected  "+toolchain.Want.String(), "found     "+toolchain.Found.String())
	case errors.As(f.Err, &unwritten):
		if f.Why, f.Hint = fault.Of(f.Err).Why, fault.Of(f.Err).Hint; f.Hint == nil { // a full disk is nothing that the log could tell
			f.Hint = []string{"rye audit verify"}
		}
		f.Code, f.Exit = fault.Files, 0
		f.Details = map[string]any{"ref": unwritten.Ref.String(), "reason": "audit"}
	case errors.As(f.Err, &argument):
		f.Code, f.Details = fault.Validation, map[string]any{"argument": argument.What}
	case errors.As(f.Err, &denied):
		f.Code, f.Details = fault.Denied, map[string]any{"capability": denied.Capability}
		if !denied.Own {
			f.Why = append(f.Why, "a tool has what it declares as permissions: and somebody else's what a policy grants of that")
		}
		f.Hint = []string{"rye docs core-tools"}
	case errors.As(f.Err, &call):
		f.Code, f.Details = fault.Validation, map[string]any{"function": call.Function}
		if call.Err == nil {
			f.Details["known"] = call.Known
			f.Why = append(f.Why, "there are "+strings.Join(call.Known, ", "))
		}
		f.Hint = []string{"rye docs core-tools"}
	case errors.As(f.Err, &directory):
		f.Code, f.Details = fault.Files, map[string]any{"path": directory.Dir}
		if directory.Outside != "" {
			f.Code = fault.Denied
		}
	case errors.As(f.Err, &host):
		f.Code, f.Details = fault.Denied, map[string]any{"host": host.Host}
		f.Why, f.Hint = append(f.Why, "network: in the tool says whom it needs"), []string{"rye docs sandbox"}
	case errors.As(f.Err, &inside):
		f.Code, f.Details = fault.Denied, map[string]any{"host": inside.Host, "address": inside.Addr.String()}
		f.Why, f.Hint = append(f.Why, "network: in the tool says whom it needs, inside by the number"), []string{"rye docs sandbox"}
	case errors.As(f.Err, &request):
		f.Code = fault.Validation
	case errors.As(f.Err, &unpinned):
		f.Code, f.Hint = fault.NotLocked, []string{"rye lock"}
		f.Details = map[string]any{"ref": unpinned.Ref.String(), "package": unpinned.Package}
	case errors.As(f.Err, &wheel):
		f.Code, f.Hint = fault.VersionMismatch, []string{"rye docs packages"}
		f.Details = map[string]any{"ref": wheel.Ref.String(), "package": wheel.Package, "wheels": wheel.Wheels, "python": wheel.Python}
		for i, tags := range wheel.Wheels {
			if i == fault.MaxLines {
				f.Why = append(f.Why, fmt.Sprintf("and %d more", len(wheel.Wheels)-i))
				break
			}
			f.Why = append(f.Why, "there is one for "+tags)
		}
	case errors.As(f.Err, &record) && errors.As(f.Err, &needed):
		f.Code = fault.Integrity
		f.Details = map[string]any{"ref": needed.Ref.String(), "package": needed.Package, "path": record.Path}
	case errors.As(f.Err, &source) && errors.As(f.Err, &needed):
		f.Code, f.Hint = fault.Integrity, []string{"git restore rye.lock", "rye lock"}
		f.Why = append(f.Why, "rye lock keeps a pin that the list allows: it makes a new one when the line is gone from rye.lock")
		f.Details = map[string]any{"ref": needed.Ref.String(), "package": needed.Package, "expected": source.Want, "found": source.Found}
	case errors.As(f.Err, &bomb):
		f.Code = fault.Limit
	case errors.As(f.Err, &needed) && (errors.As(f.Err, &archive) || errors.As(f.Err, &list) || needed.Package == ""):
		f.Code, f.Hint = fault.Validation, []string{"rye docs packages"}
		f.Details = map[string]any{"ref": needed.Ref.String(), "package": needed.Package}
	case errors.As(f.Err, &failures):
		f.Code, f.Text, f.Hint = fault.Config, "config:"+classification.Name+" isn't what it should be", []string{"rye docs resilience"}
		var all []string
		for i, p := range failures.Problems {
			if all = append(all, classification.Tell(p)); i < fault.MaxLines {
				f.Why = append(f.Why, all[i])
			}
		}
		f.Details = map[string]any{"problems": all}
	case errors.As(f.Err, &settings):
		f.Code, f.Details = fault.Validation, map[string]any{"problems": settings.Reasons}
		f.Hint = []string{"rye docs resilience"}
	case errors.As(f.Err, &asleep):
		f.Code, f.Details = fault.Unavailable, map[string]any{"address": asleep.Address, "wait_ms": asleep.Wait.Milliseconds()}
	case errors.As(f.Err, &often):
		f.Code, f.Details = fault.RateLimited, map[string]any{"address": often.Address, "wait_ms": often.Wait.Milliseconds()}
	case errors.As(f.Err, &limit):
		f.Code = fault.Limit
	case errors.As(f.Err, &target):
		f.Code, f.Hint = fault.Validation, []string{"rye help exec"}
		f.Details = map[string]any{"argument": "--sink"}
	case errors.As(f.Err, &torn):
		f.Code, f.Hint = fault.Parsing, []string{fmt.Sprintf("truncate -s %d %s", torn.Size, fault.Quote(torn.Path))}
		f.Details = map[string]any{"path": torn.Path, "size": torn.Size}
	case errors.As(f.Err, &line):
		f.Code, f.Text = fault.Resource, "what the tool wrote can't be passed on: "+line.Error()
	case errors.As(f.Err, &server):
		f.Code, f.Details = fault.Unavailable, map[string]any{"host": server.Host, "lost": server.Lost}
	default:
		return false
	}
	return true
}

// addProblems tells what is wrong with a value.
func addProblems(f *fault.Error, all []params.Problem) {
	for i, p := range all {
		if i == fault.MaxLines {
			f.Why = append(f.Why, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		f.Why = append(f.Why, p.String())
	}
	f.Details["problems"] = all
}

// notFound tells where a program was looked for.
func notFound(f *fault.Error, e *env.NotFoundError) {
	f.Hint = []string{"rye doctor"}
	short := fmt.Sprintf("%q is not there", e.What)
	if e.Err != nil {
		short += ": " + e.Err.Error()
	}
	f.Text = strings.Replace(f.Text, e.Error(), short, 1) // the places have lines of their own
	for i, place := range e.Tried {
		if i == fault.MaxLines {
			f.Why = append(f.Why, fmt.Sprintf("and %d more places", len(e.Tried)-i))
			break
		}
		f.Why = append(f.Why, "looked in "+place)
	}
}
