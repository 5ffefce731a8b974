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
	pressure float64 // the share from which it does
	pressed  bool    // that was told
}

// ReadWindow reads config:coordination.
func ReadWindow(v *value.Value) (*Window, error) {
	w := &Window{pressure: 0.75}
	given := v.Get("coordination").Get("continuation").Get("pressure_threshold")
	if given.IsNull() {
		return w, nil
	}
	share, err := strconv.ParseFloat(given.Text, 64)
	if err != nil || !(share > 0 && share <= 1) || given.Kind == value.Text {
		return nil, fault.New(fault.Config,
			"invalid config:%s: continuation.pressure_threshold must be a number above 0, at most 1",
			Coordination).Try("rye docs hooks")
	}
	w.pressure = share
	return w, nil
}

// Pressed reports whether the window fills up, once until less of it is used.
func (w *Window) Pressed(share float64) bool {
	before := w.pressed
	w.pressed = share >= w.pressure
	return w.pressed && !before
}
