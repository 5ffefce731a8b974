//go:build !windows && !darwin

package secret

import (
	"errors"

	"github.com/godbus/dbus/v5"
)

// nobodyThere reports whether there is a bus, and no Secret Service on it.
func nobodyThere(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && e.Name == "org.freedesktop.DBus.Error.ServiceUnknown"
}
