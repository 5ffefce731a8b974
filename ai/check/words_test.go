package check_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/cas/fault"
)

func TestWords(t *testing.T) {
	in := func(err error) error {
		return &ai.ItemError{Space: &ai.Space{Label: "project"}, Path: "x.md", Err: err}
	}
	for _, tc := range []struct {
		err  error
		code fault.Code
		text string
	}{
		{errors.New("odd"), fault.Validation, "odd"},
		{in(errors.New("odd")), fault.Validation, "odd"},
		{in(fault.New(fault.Unsigned, "not signed")), fault.Unsigned, "not signed"},
		{in(&fs.PathError{Op: "open", Path: "/p/x.md", Err: fs.ErrPermission}), fault.Files, "permission denied"},
	} {
		if code, text := check.Words(tc.err); code != tc.code || text != tc.text {
			t.Errorf("%v: %s, %q", tc.err, code, text)
		}
	}
}
