package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
)

func doctorCommand() command {
	return command{
		path: "doctor", group: "start", help: "Check what rye needs on this machine.",
		more: "Each line is one check: ok, warn (it works, but look) or fail. With a failure the exit status is 1.\n\nExamples:\n\n    rye doctor\n    rye doctor --json",
		aka:  []string{"diagnose", "health"},
		new:  func() runner { return new(doctorRun) }, schema: "doctor/1", output: doctorAnswer{},
	}
}

type doctorRun struct{}

// A check looks at one thing and changes nothing but missing directories of rye's own, which it makes.
type check struct {
	name string
	run  func(context.Context, *app) finding
}

// A finding is the result of a check.
type finding struct {
	Name   string `json:"name"`
	Status status `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

type status string

const (
	statusOK   status = "ok"
	statusWarn status = "warn"
	statusFail status = "fail"
)

// checks lists the checks in their order.
func checks() []check {
	return []check{
		{"version", checkVersion},
		{"variables", checkVariables},
		{"project", checkProject},
		{"home", checkHome},
		{"data", checkPlace("data", dataPlace)},
		{"state", checkPlace("state", statePlace)},
		{"cache", checkPlace("cache", cachePlace)},
		{"store", checkStore},
		{"keys", checkKeys},
		{"policy", checkPolicy},
		{"library", checkLibrary},
		{"items", checkItems},
		{"bundles", checkBundles},
		{"lock", checkLock},
		{"vendor", checkVendor},
		{"sandbox", checkSandbox},
		{"interpreters", checkInterpreters},
		{"audit", checkAudit},
		{"secrets", checkSecrets},
		{"terminal", checkTerminal},
		{"clock", checkClock},
	}
}

type doctorAnswer struct {
	Checks []finding `json:"checks"`
}

func (*doctorRun) run(ctx context.Context, a *app) (answer, error) {
	var ans doctorAnswer
	failed, causes := 0, map[string]string{} // what is wrong, and which check says so
	for _, c := range checks() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := c.run(ctx, a)
		f.Name, f.Hint = c.name, a.globals.placed(f.Hint)
		if f.Status == statusFail {
			failed++
			if first, told := causes[f.Detail]; told {
				f.Detail, f.Hint = fmt.Sprintf("the same as %q, above", first), ""
			} else {
				causes[f.Detail] = c.name
			}
		}
		ans.Checks = append(ans.Checks, f)
	}
	if failed > 0 {
		f := &fault.Error{Code: fault.Config, Text: fmt.Sprintf("%d of %d checks failed", failed, len(ans.Checks))}
		return ans, f.Asked()
	}
	return ans, nil
}

func (d doctorAnswer) text(t *terminal) {
	width := 0
	for _, f := range d.Checks {
		width = max(width, len(f.Name))
	}
	for _, f := range d.Checks {
		colour := map[status]role{statusOK: roleGood, statusWarn: roleWarn, statusFail: roleError}[f.Status]
		t.printf("%s  %s  %s\n", t.stdout.paint(colour, fmt.Sprintf("%-4s", f.Status), t.ascii), t.pad(f.Name, width), f.Detail)
		if f.Hint != "" {
			t.printf("%s  %s\n", t.pad("", 4), t.stdout.paint(roleHint, "hint: "+f.Hint, t.ascii))
		}
	}
}

func good(format string, args ...any) finding {
	return finding{Status: statusOK, Detail: fmt.Sprintf(format, args...)}
}

// bad turns an error into a finding.
func bad(s status, err error) finding {
	f := classify(err)
	out := finding{Status: s, Detail: f.Text}
	for _, why := range f.Why {
		out.Detail += ": " + why
	}
	if len(f.Hint) > 0 && f.Hint[0] != "rye doctor" {
		out.Hint = f.Hint[0]
	}
	return out
}

func checkVersion(context.Context, *app) finding {
	v := thisVersion()
	return good("rye %s, %s %s/%s", v.Version, v.Go, v.OS, v.Arch)
}

func checkProject(_ context.Context, a *app) finding {
	p, err := a.project()
	switch {
	case errors.Is(err, errNoProject):
		return good("not in a project")
	case err != nil:
		return bad(statusFail, err)
	case p.marker == "":
		return finding{Status: statusWarn, Detail: fmt.Sprintf("%q has neither %s nor %s", p.root, markerFile, markerDir)}
	}
	there, err := isDir(p.dotAI())
	if err != nil {
		return bad(statusFail, err)
	}
	if there {
		if err := probe(markerDir, p.dotAI()); err != nil {
			return bad(statusWarn, err)
		}
	}
	return good("%q, by its %s", p.root, p.marker)
}

func checkHome(_ context.Context, a *app) finding {
	s := a.home()
	if s.err != nil {
		return bad(statusWarn, s.err)
	}
	if err := a.writable("home", s); err != nil {
		return bad(statusWarn, err)
	}
	return good("%q", s.value)
}

func checkPlace(name string, p place) func(context.Context, *app) finding {
	return func(_ context.Context, a *app) finding {
		s := a.dir(p)
		if err := a.writable(name, s); err != nil {
			return bad(statusFail, err)
		}
		return good("%q", s.value)
	}
}

func checkStore(_ context.Context, a *app) finding {
	s := a.store()
	if s.err != nil {
		return bad(statusFail, s.err)
	}
	opened, err := disk.Open(s.value, disk.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return good("%q, to be made by what first keeps something", s.value)
	}
	if err != nil {
		return bad(statusFail, err)
	}
	defer opened.Close()
	size, err := opened.Stat()
	if err != nil {
		return bad(statusFail, err)
	}
	if size.Damaged > 0 {
		return finding{Status: statusWarn, Detail: fmt.Sprintf("%s without a readable index, of %d", fault.Count(int64(size.Damaged), "pack"), size.Packs), Hint: "rye store reindex"}
	}
	return good("%q, %s, %s", s.value, fault.Count(int64(size.Packs), "pack"), byteSize(float64(size.Bytes)))
}

func checkTerminal(_ context.Context, a *app) finding {
	characters := "UTF-8"
	if a.term.ascii {
		characters = "ASCII, other characters are shown escaped"
	}
	if !a.term.stdout.tty {
		return good("none on standard output; %s", characters)
	}
	return good("%s; colour: %s", characters, a.colorSetting().origin)
}

// checkClock finds the clocks that would make every expiry and signature time wrong.
func checkClock(_ context.Context, a *app) finding {
	now := a.now()
	if a.env("SOURCE_DATE_EPOCH") != "" {
		return good("fixed at %s by SOURCE_DATE_EPOCH", a.clock().Format(time.RFC3339))
	}
	if now.Year() < 2025 || now.Year() > 2100 {
		return finding{Status: statusFail, Detail: fmt.Sprintf("the clock says %s", now.UTC().Format(time.RFC3339)), Hint: "date"}
	}
	return good("%s", now.UTC().Format(time.RFC3339))
}
