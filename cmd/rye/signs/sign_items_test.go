package signs

import (
	"testing"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
)

// TestOneCode: items that can't be read or written aren't invalid.
func TestOneCode(t *testing.T) {
	file := check.Problem{Severity: check.Error, Code: fault.Files}
	item := check.Problem{Severity: check.Error, Code: fault.Unsigned}
	mild := check.Problem{Severity: check.Warning, Code: fault.Validation}
	for want, problems := range map[fault.Code][]check.Problem{
		fault.Files: {mild, file, file}, fault.Unsigned: {item, mild}, fault.Validation: {file, item},
	} {
		if got := oneCode(problems); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := oneCode([]check.Problem{item, item}); got != fault.Validation {
		t.Error(got)
	}
}
