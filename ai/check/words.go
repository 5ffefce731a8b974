package check

import (
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
)

// Words returns the code of an error about a file, and its text without the file's name.
func Words(err error) (fault.Code, string) {
	if e, ok := err.(*ai.ItemError); ok {
		err = e.Err
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Files, pe.Err.Error()
	}
	f := fault.Of(err)
	if f.Code == fault.Unknown {
		f.Code = fault.Validation
	}
	return f.Code, f.Text
}
