package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// A Problem is a problem of an item.
type Problem struct {
	Severity string     `json:"severity"` // Error or Warning
	Code     fault.Code `json:"code"`
	Ref      string     `json:"ref"` // empty if the file's name isn't that of an item
	Space    string     `json:"space"`
	File     string     `json:"file"`
	Line     int        `json:"line"` // 0 for the whole file
	Column   int        `json:"column"`
	Field    string     `json:"field"`
	Message  string     `json:"message"`
}

// Severities of problems.
const (
	Error   = "error"
	Warning = "warning"
)

// At returns the place of a problem, with line and column if known.
func (p *Problem) At() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// A Report lists the problems of the checked items.
type Report struct {
	Items    int       `json:"items"` // checked
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Wrong    int       `json:"wrong"` // files with errors
	Problems []Problem `json:"problems"`
}

// With returns the report with problems that were found elsewhere, among a number of items.
func (r *Report) With(items int, problems []Problem) *Report {
	return newReport(r.Items+items, slices.Concat(r.Problems, problems))
}

// newReport sorts problems and counts them.
func newReport(items int, problems []Problem) *Report {
	report := &Report{Items: items, Problems: append([]Problem{}, problems...)}
	slices.SortStableFunc(report.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
	})
	report.Problems = slices.Compact(report.Problems)
	wrong := map[string]bool{}
	for _, p := range report.Problems {
		if p.Severity == Warning {
			report.Warnings++
			continue
		}
		report.Errors++
		wrong[p.File] = true
	}
	report.Wrong = len(wrong)
	return report
}

// AlsoWarnings returns the number of warnings for the end of a sentence, or "".
func (r *Report) AlsoWarnings() string {
	if r.Warnings == 0 {
		return ""
	}
	return ", " + fault.Count(int64(r.Warnings), "warning")
}

// Fault returns an error with the number of errors. Without also, it is the answer of the command; also names what
// was not done because of the errors.
func (r *Report) Fault(also string) *fault.Error {
	failure := fault.New(fault.Validation, "%s in %d of %s%s", fault.Count(int64(r.Errors), "error"), r.Wrong,
		fault.Count(int64(max(r.Items, r.Wrong)), "item"), r.AlsoWarnings())
	for _, kind := range []string{"directive", "knowledge", "tool"} {
		if slices.ContainsFunc(r.Problems, func(p Problem) bool {
			return p.Severity == Error && p.Field != "" && strings.HasPrefix(p.Ref, kind+":")
		}) {
			failure.Try("rye docs " + kind + "-format")
		}
	}
	if also == "" {
		return failure.Answer()
	}
	failure.Text = also + ": " + failure.Text
	return failure
}
