package classify

import (
	"errors"
	"io/fs"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/vendor"
)

const EnvPassphrase = "RYE_KEY_PASSPHRASE"

// WordsFor returns the code of an error about a file, and what it says without naming the file again.
func WordsFor(err error) (fault.Code, string) {
	if e, ok := errors.AsType[*ai.ItemError](err); ok && error(e) == err {
		err = e.Err
	}
	f := Classify(err)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Files, pe.Err.Error()
	}
	if f.Code == fault.Unknown {
		f.Code = fault.Validation
	}
	return f.Code, f.Text
}

func DigestText(d cas.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// IsDamaged reports whether an error says that bytes aren't what they were.
func IsDamaged(err error) bool {
	_, inVendor := errors.AsType[*vendor.Error](err)
	_, object := errors.AsType[*cas.DamagedError](err)
	return inVendor || object
}
