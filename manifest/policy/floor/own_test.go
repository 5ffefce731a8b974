package floor

import "testing"

// TestOwn: what a thread in the background may use is read with its unit, and a project's policy only lowers it.
func TestOwn(t *testing.T) {
	for text, want := range map[string]Own{
		"{}": {}, "{memory: 512MiB}": {Memory: 512 << 20},
		"{memory: 2GiB, processes: 100}":        {Memory: 2 << 30, Processes: 100},
		"{memory: 64MiB, processes: 8}":         {Memory: 64 << 20, Processes: 8},
		"{memory: 1024GiB, processes: 1048576}": {Memory: 1 << 40, Processes: 1 << 20},
	} {
		e, err := read("{limits: " + text + "}")
		if err != nil || e.Limits != want {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"{memory: 2}", "{memory: 2KiB}", "{memory: 1MiB}", "{memory: -1GiB}",
		"{memory: 99999GiB}", "{processes: 7}", "{processes: many}",
		"{processes: 1048577}", "{processes: 1e2}", "{processes: +9}",
		"{memory: +1GiB}", "{memory: [1GiB]}", "{processes: [9]}", "{cpu: 3}", "[]"} {
		if _, err := read("{limits: " + text + "}"); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	lower := mustRead(t, "{limits: {memory: 512MiB, processes: 9}}")
	if got := mustRead(t, "{limits: {memory: 1GiB}}").Narrow(lower); got.Limits != lower.Limits {
		t.Errorf("a project's limits count for nothing: %+v", got.Limits)
	}
	root, project := Own{Memory: 1 << 30}, Own{Memory: 2 << 30, Processes: 9}
	if got := root.Narrow(project); got != (Own{Memory: 1 << 30, Processes: 9}) {
		t.Errorf("%+v", got)
	}
	if got := OwnLimits.Narrow(Own{}); got != (Own{Memory: 1 << 30, Processes: 512}) {
		t.Errorf("%+v", got)
	}
	if got := OwnLimits.Narrow(Own{Memory: 64 << 20}); got != (Own{Memory: 64 << 20, Processes: 512}) {
		t.Errorf("%+v", got)
	}
}
