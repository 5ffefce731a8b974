package hook

import (
	"strconv"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// Coordination is the name of the config that says when a context window counts as full.
const Coordination = "coordination"

// A Window tells when a thread's context window fills up.
type Window struct {
	pressure, full float64 // the shares from which it does
	pressed        bool    // that was told
}

// ReadWindow reads config:coordination.
func ReadWindow(v *value.Value) (*Window, error) {
	w := &Window{pressure: 0.75, full: 0.9}
	at := v.Get("coordination").Get("continuation")
	for name, to := range map[string]*float64{"pressure_threshold": &w.pressure, "trigger_threshold": &w.full} {
		given := at.Get(name)
		if given.IsNull() {
			continue
		}
		share, err := strconv.ParseFloat(given.Text, 64)
		if err != nil || share <= 0 || share > 1 || given.Kind == value.Text {
			return nil, fault.New(fault.Config, "invalid config:%s: continuation.%s must be a number above 0, at most 1", Coordination, name).Try("rye docs hooks")
		}
		*to = share
	}
	return w, nil
}

// Event returns the event of a share, "" if there is none: pressure counts once, until there is less.
func (w *Window) Event(share float64) string {
	pressed := share >= w.pressure
	defer func() { w.pressed = pressed }()
	switch {
	case share >= w.full:
		return Full
	case pressed && !w.pressed:
		return Pressure
	}
	return ""
}
