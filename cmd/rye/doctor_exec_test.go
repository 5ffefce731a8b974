package main

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// What a machine lacks is said, with what doesn't run because of it.
func TestOffered(t *testing.T) {
	all := sandbox.Offers{Best: floor.Namespace, Hosts: true,
		Parts: []sandbox.Part{{Name: "landlock", Works: true, Version: "7"}, {Name: "seccomp", Works: true}}}
	few := sandbox.Offers{Best: floor.Limits, Parts: []sandbox.Part{{Name: "landlock", Why: "Linux alone has it"}}}
	for _, c := range []struct {
		name   string
		offers sandbox.Offers
		asked  floor.Exec
		status paths.Status
		say    string
	}{
		{"everything", all, floor.Exec{Floor: floor.Namespace, Strangers: floor.Namespace}, paths.StatusOK,
			"namespace, by landlock 7, seccomp"},
		{"little", few, floor.Exec{}, paths.StatusWarn,
			"limits; without landlock: Linux alone has it; without a network limited to some hosts. Tools of others need landlock, so they can't run here"},
		{"little is enough", few, floor.Exec{Strangers: floor.Limits}, paths.StatusOK, "without landlock"},
		{"strangers need no less than all", few, floor.Exec{Strangers: floor.Limits, Floor: floor.Landlock},
			paths.StatusFail, "Everything needs landlock, so nothing can run here"},
		{"more for strangers", sandbox.Offers{Best: floor.Landlock}, floor.Exec{Strangers: floor.Namespace},
			paths.StatusWarn, "Tools of others need namespace"},
		{"nothing", sandbox.Offers{}, floor.Exec{Strangers: floor.None}, paths.StatusFail,
			"Everything needs none, so nothing can run here"},
	} {
		f := initcmd.Offered(c.offers, c.asked)
		if f.Status != c.status || !strings.Contains(f.Detail, c.say) {
			t.Errorf("%s: %s %q, want %s with %q", c.name, f.Status, f.Detail, c.status, c.say)
		}
		if (f.Hint == "") != (f.Status == paths.StatusOK) {
			t.Errorf("%s: %s with the hint %q", c.name, f.Status, f.Hint)
		}
	}
}
