package hook_test

import (
	"slices"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/hook"
)

func TestWindow(t *testing.T) {
	w, err := hook.ReadWindow(library(t, hook.Coordination))
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, share := range []float64{0, 0.74, 0.75, 0.8, 0.95, 0.95, 0.8, 0.1, 0.76} {
		got = append(got, w.Pressed(share))
	}
	if want := []bool{2: true, 8: true}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, text := range []string{"0", "1.5", "-1", "lots", "nan", `"0.5"`, "[1]"} {
		if _, err := hook.ReadWindow(yaml(t, "coordination: {continuation: {pressure_threshold: "+text+
			"}}")); fault.CodeOf(err) != fault.Config {
			t.Errorf("%s: %v", text, err)
		}
	}
}
