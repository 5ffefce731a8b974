package hook_test

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/hook"
)

func TestWindow(t *testing.T) {
	w, err := hook.ReadWindow(library(t, hook.Coordination))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, share := range []float64{0, 0.74, 0.75, 0.8, 0.95, 0.95, 0.8, 0.1, 0.76} {
		got = append(got, w.Event(share))
	}
	if s := strings.Join(got, ","); s != ",,context_window_pressure,,context_limit_reached,context_limit_reached,,,context_window_pressure" {
		t.Errorf("%s", s)
	}
	for _, text := range []string{"0", "1.5", "-1", "lots", `"0.5"`, "[1]"} {
		if _, err := hook.ReadWindow(yaml(t, "coordination: {continuation: {trigger_threshold: "+text+"}}")); fault.CodeOf(err) != fault.Config {
			t.Errorf("%s: %v", text, err)
		}
	}
}
