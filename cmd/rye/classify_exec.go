package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit"
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
func (f *fault) ofCalls() bool {
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
		broken      *audit.BrokenError
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
	case errors.As(f.err, &unavailable):
		f.code, f.details = "SANDBOX_UNAVAILABLE", map[string]any{"need": unavailable.Level.String()}
		f.hint = []string{"rye doctor"}
		f.why = append(f.why, "a policy may allow less for other people's items: exec: {strangers: limits}, in policy.yaml of the user")
	case errors.As(f.err, &none):
		f.code, f.details = "EXECUTOR_NOT_FOUND", map[string]any{"ref": none.Ref.String(), "primitive": none.Primitive}
		f.hint = []string{"rye docs runtimes"}
	case errors.As(f.err, &lone):
		f.code, f.details = codeValidation, map[string]any{"ref": lone.Ref.String()}
		f.hint = []string{"rye docs tool-format"}
	case errors.As(f.err, &unlisted):
		f.code, f.details = "POLICY_DENIED", map[string]any{"ref": unlisted.Ref.String(), "reason": "evidence-only"}
		f.hint = []string{"rye sign --upgrade " + quoteArg(unlisted.Ref.String())}
	case errors.As(f.err, &input):
		f.code, f.details = codeValidation, map[string]any{"ref": input.Ref.String()}
		f.hint = []string{"rye exec " + quoteArg(input.Ref.String()) + " --help"}
		if errors.As(f.err, &invalid) {
			f.message = fmt.Sprintf("the parameters aren't what %q takes", input.Ref)
			f.problems(invalid.Problems)
		}
	case errors.As(f.err, &text):
		f.code, f.details = codeValidation, map[string]any{"argument": text.Source}
	case errors.As(f.err, &config):
		f.code, f.details = codeValidation, map[string]any{"ref": config.Ref.String()}
		f.hint = []string{"rye show " + quoteArg(config.Ref.String())}
		switch {
		case errors.As(f.err, &invalid):
			f.message = fmt.Sprintf("the configuration that the chain of %q makes isn't what its primitive takes", config.Ref)
			f.problems(invalid.Problems)
		case errors.As(f.err, &schema):
			f.details["pointer"] = schema.Pointer
		case errors.As(f.err, &program):
			f.code = "EXECUTION_FAILED"
			f.notFound(program)
		}
	case errors.As(f.err, &filling):
		f.code, f.details = codeValidation, map[string]any{"ref": filling.Link, "path": filling.Path}
	case errors.As(f.err, &environment):
		f.code, f.details = codeValidation, map[string]any{"ref": environment.Link, "field": environment.Field}
		if errors.As(f.err, &program) {
			f.code = "EXECUTION_FAILED"
			f.notFound(program)
		}
	case errors.As(f.err, &files):
		f.code, f.details = codeDenied, map[string]any{"ref": files.Ref.String(), "path": files.Path}
	case errors.As(f.err, &granted):
		f.code, f.details = codeConfig, map[string]any{"ref": granted.Ref.String()}
		f.why = append(f.why, "grants: has files:read:PATH, files:write:PATH, network:HOST, and capabilities as rye.execute.tool.acme.fetch")
		f.hint = []string{"rye docs sandbox"}
	case errors.As(f.err, &said):
		f.code, f.details = "EXECUTION_FAILED", map[string]any{"ref": said.Ref.String()}
	case errors.As(f.err, &toolchain):
		f.code, f.hint = "LOCK_MISMATCH", []string{"rye lock"}
		f.details = map[string]any{"ref": toolchain.Ref.String(), "program": toolchain.Name, "path": toolchain.Path,
			"expected": digestText(toolchain.Want), "found": digestText(toolchain.Found)}
		if toolchain.Want.IsZero() {
			f.code = "NOT_LOCKED"
			f.why = append(f.why, "the policy says toolchain: enforce, so what executes is pinned too")
			break
		}
		f.why = append(f.why, "expected  "+toolchain.Want.String(), "found     "+toolchain.Found.String())
	case errors.As(f.err, &unwritten):
		if f.system(); f.hint == nil { // a full disk is nothing that the log could tell
			f.hint = []string{"rye audit verify"}
		}
		f.code, f.exit = codeFiles, 0
		f.details = map[string]any{"ref": unwritten.Ref.String(), "reason": "audit"}
	case errors.As(f.err, &argument):
		f.code, f.details = codeValidation, map[string]any{"argument": argument.What}
	case errors.As(f.err, &denied):
		f.code, f.details = codeDenied, map[string]any{"capability": denied.Capability}
		if !denied.Own {
			f.why = append(f.why, "a tool has what it declares as permissions: and somebody else's what a policy grants of that")
		}
		f.hint = []string{"rye docs core-tools"}
	case errors.As(f.err, &call):
		f.code, f.details = codeValidation, map[string]any{"function": call.Function}
		if call.Err == nil {
			f.details["known"] = call.Known
			f.why = append(f.why, "there are "+strings.Join(call.Known, ", "))
		}
		f.hint = []string{"rye docs core-tools"}
	case errors.As(f.err, &directory):
		f.code, f.details = codeFiles, map[string]any{"path": directory.Dir}
		if directory.Outside != "" {
			f.code = codeDenied
		}
	case errors.As(f.err, &host):
		f.code, f.details = codeDenied, map[string]any{"host": host.Host}
		f.why, f.hint = append(f.why, "network: in the tool says whom it needs"), []string{"rye docs sandbox"}
	case errors.As(f.err, &inside):
		f.code, f.details = codeDenied, map[string]any{"host": inside.Host, "address": inside.Addr.String()}
		f.why, f.hint = append(f.why, "network: in the tool says whom it needs, inside by the number"), []string{"rye docs sandbox"}
	case errors.As(f.err, &request):
		f.code = codeValidation
	case errors.As(f.err, &unpinned):
		f.code, f.hint = "NOT_LOCKED", []string{"rye lock"}
		f.details = map[string]any{"ref": unpinned.Ref.String(), "package": unpinned.Package}
	case errors.As(f.err, &wheel):
		f.code, f.hint = "VERSION_MISMATCH", []string{"rye docs packages"}
		f.details = map[string]any{"ref": wheel.Ref.String(), "package": wheel.Package, "wheels": wheel.Wheels, "python": wheel.Python}
		for i, tags := range wheel.Wheels {
			if i == mostTold {
				f.why = append(f.why, fmt.Sprintf("and %d more", len(wheel.Wheels)-i))
				break
			}
			f.why = append(f.why, "there is one for "+tags)
		}
	case errors.As(f.err, &record) && errors.As(f.err, &needed):
		f.code = "INTEGRITY_FAILED"
		f.details = map[string]any{"ref": needed.Ref.String(), "package": needed.Package, "path": record.Path}
	case errors.As(f.err, &source) && errors.As(f.err, &needed):
		f.code, f.hint = "INTEGRITY_FAILED", []string{"git restore rye.lock", "rye lock"}
		f.why = append(f.why, "rye lock keeps a pin that the list allows: it makes a new one when the line is gone from rye.lock")
		f.details = map[string]any{"ref": needed.Ref.String(), "package": needed.Package, "expected": source.Want, "found": source.Found}
	case errors.As(f.err, &bomb):
		f.code = "LIMIT_EXCEEDED"
	case errors.As(f.err, &needed) && (errors.As(f.err, &archive) || errors.As(f.err, &list) || needed.Package == ""):
		f.code, f.hint = codeValidation, []string{"rye docs packages"}
		f.details = map[string]any{"ref": needed.Ref.String(), "package": needed.Package}
	case errors.As(f.err, &failures):
		f.code, f.message, f.hint = codeConfig, "config:"+classification.Name+" isn't what it should be", []string{"rye docs resilience"}
		var all []string
		for i, p := range failures.Problems {
			if all = append(all, classification.Tell(p)); i < mostTold {
				f.why = append(f.why, all[i])
			}
		}
		f.details = map[string]any{"problems": all}
	case errors.As(f.err, &settings):
		f.code, f.details = codeValidation, map[string]any{"problems": settings.Reasons}
		f.hint = []string{"rye docs resilience"}
	case errors.As(f.err, &asleep):
		f.code, f.details = "UNAVAILABLE", map[string]any{"address": asleep.Address, "wait_ms": asleep.Wait.Milliseconds()}
	case errors.As(f.err, &often):
		f.code, f.details = "RATE_LIMITED", map[string]any{"address": often.Address, "wait_ms": often.Wait.Milliseconds()}
	case errors.As(f.err, &limit):
		f.code = "LIMIT_EXCEEDED"
	case errors.As(f.err, &broken):
		f.code = codeFiles
	case errors.As(f.err, &target):
		f.code, f.hint = codeValidation, []string{"rye help exec"}
		f.details = map[string]any{"argument": "--sink"}
	case errors.As(f.err, &torn):
		f.code, f.hint = "PARSING_ERROR", []string{fmt.Sprintf("truncate -s %d %s", torn.Size, quoteArg(torn.Path))}
		f.details = map[string]any{"path": torn.Path, "size": torn.Size}
	case errors.As(f.err, &line):
		f.code, f.message = "RESOURCE_EXCEEDED", "what the tool wrote can't be passed on: "+line.Error()
	case errors.As(f.err, &server):
		f.code, f.details = "UNAVAILABLE", map[string]any{"host": server.Host, "lost": server.Lost}
	default:
		return false
	}
	return true
}

// problems tells what is wrong with a value.
func (f *fault) problems(all []params.Problem) {
	for i, p := range all {
		if i == mostTold {
			f.why = append(f.why, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		f.why = append(f.why, p.String())
	}
	f.details["problems"] = all
}

// notFound tells where a program was looked for.
func (f *fault) notFound(e *env.NotFoundError) {
	f.hint = []string{"rye doctor"}
	short := fmt.Sprintf("%q is not there", e.What)
	if e.Err != nil {
		short += ": " + e.Err.Error()
	}
	f.message = strings.Replace(f.message, e.Error(), short, 1) // the places have lines of their own
	for i, place := range e.Tried {
		if i == mostTold {
			f.why = append(f.why, fmt.Sprintf("and %d more places", len(e.Tried)-i))
			break
		}
		f.why = append(f.why, "looked in "+place)
	}
}
