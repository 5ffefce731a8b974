package recall_test

import "testing"

// Where nothing was read, nothing has to be: only what changed is.
func TestReads(t *testing.T) {
	p := newProject(t)
	p.recalled()
	p.write(".ai/tools/a.py", "eno")
	if p.ask().Recall(t.Context()); p.files != 4 || p.read != 1 {
		t.Errorf("%d files, %d read", p.files, p.read)
	}
}
