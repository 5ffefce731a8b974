package hook

import (
	"strconv"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// Coordination is the name of the config with the threshold for a full context window.
const Coordination = "coordination"

// A Window detects when a thread's context window fills up.
type Window struct {
	pressure float64 // the threshold, as a share
	pressed  bool    // the threshold is exceeded
}

// ReadWindow reads config:coordination.
func ReadWindow(v *value.Value) (*Window, error) {
	window := &Window{pressure: 0.75}
	threshold := v.Get("coordination").Get("continuation").Get("pressure_threshold")
	if threshold.IsNull() {
		return window, nil
	}
	share, err := strconv.ParseFloat(threshold.Text, 64)
	if err != nil || !(share > 0 && share <= 1) || threshold.Kind == value.Text {
		return nil, fault.New(fault.Config,
			"invalid config:%s: continuation.pressure_threshold must be a number above 0, at most 1",
			Coordination).Try("rye docs hooks")
	}
	window.pressure = share
	return window, nil
}

// Pressed reports whether the window has just reached the threshold. It reports that again only after the share has
// dropped below.
func (w *Window) Pressed(share float64) bool {
	before := w.pressed
	w.pressed = share >= w.pressure
	return w.pressed && !before
}
