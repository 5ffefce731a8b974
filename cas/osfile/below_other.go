//go:build !linux

package osfile

import (
	"errors"
	"io"
	"io/fs"
)

func (*site) createBelow(string, fs.FileMode, func(io.Writer) error) error {
	return errors.ErrUnsupported
}
