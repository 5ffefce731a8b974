//go:build !windows && !darwin

package secret

import (
	"errors"

	"github.com/godbus/dbus/v5"
)

// noService reports whether the bus has no Secret Service.
func noService(err error) bool {
	e, ok := errors.AsType[dbus.Error](err)
	return ok && e.Name == "org.freedesktop.DBus.Error.ServiceUnknown"
}
