package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
)

// TestAudit: what happened is there in order, with the account, and can be asked for.
func TestAudit(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.caller("ada"), w.caller("eve")
	w.now = noon.Add(time.Hour)
	w.claim(ada, "acme")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	w.publish(ada, pack{id: "acme/basement", version: "1.0.0"})
	if _, err := w.Change(t.Context(), ada, "acme", adding("eve")); err != nil {
		t.Fatal(err)
	}
	w.now = noon.Add(2 * time.Hour)
	if _, err := w.Withdraw(t.Context(), eve, "acme/base", "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	if err := w.RemoveToken(t.Context(), "ada", ada.Token.ID); err != nil {
		t.Fatal(err)
	}
	for _, disabled := range []bool{true, true, false} {
		if err := w.Disable(t.Context(), "eve", disabled); err != nil {
			t.Fatal(err)
		}
	}
	audit := func(filter registry.Filter) string {
		t.Helper()
		events, err := w.Audit(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, e := range events {
			lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s %s %s@%s", e.What, e.Account, e.Name, e.Version),
				" @"))
		}
		return strings.Join(lines, ", ")
	}
	for _, c := range []struct {
		filter registry.Filter
		want   string
	}{
		{registry.Filter{}, "account-add ada, token-add ada, account-add eve, token-add eve, owner ada acme@, " +
			"publish ada acme/base@1.0.0, publish ada acme/basement@1.0.0, owner ada acme@, token-remove ada, " +
			"account-disable eve, account-enable eve, yank eve acme/base@1.0.0"},
		{registry.Filter{Account: "eve"}, "account-add eve, token-add eve, account-disable eve, account-enable eve, " +
			"yank eve acme/base@1.0.0"},
		{registry.Filter{Name: "acme/base"}, "publish ada acme/base@1.0.0, yank eve acme/base@1.0.0"},
		{registry.Filter{Name: "acme", Account: "ada"}, "owner ada acme@, publish ada acme/base@1.0.0, " +
			"publish ada acme/basement@1.0.0, owner ada acme@"},
		{registry.Filter{Since: noon.Add(time.Hour), Until: noon.Add(2 * time.Hour), Name: "acme/basement"},
			"publish ada acme/basement@1.0.0"},
		{registry.Filter{Account: "grace"}, ""},
	} {
		if got := audit(c.filter); got != c.want {
			t.Errorf("%+v:\n%s\n%s", c.filter, got, c.want)
		}
	}
	events, err := w.Audit(t.Context(), registry.Filter{Name: "acme"})
	if err != nil || !strings.Contains(string(events[3].Document), `"owners":["ada","eve"]`) || *events[3].Entry != 3 {
		t.Errorf("%+v, %v", events, err)
	}
	// A document that is lost doesn't hide what happened.
	for info := range w.files.List(t.Context(), "documents/") {
		if err := w.files.Remove(t.Context(), info.Name); err != nil {
			t.Fatal(err)
		}
	}
	if events, err := w.Audit(t.Context(), registry.Filter{Name: "acme"}); err != nil || len(events) != 5 ||
		events[0].Document != nil {
		t.Errorf("%+v, %v", events, err)
	}
}

// TestAuditBound: the events of accounts don't grow without an end, and damaged ones are errors.
func TestAuditBound(t *testing.T) {
	w := newWorld(t)
	set := func(name, value string) {
		t.Helper()
		if err := w.o.Rows.Update(t.Context(), func(in rows.Writer) error {
			in.Put(name, []byte(value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.AddAccount(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	set("audit", `{"next":100000}`)
	if _, err := w.AddAccount(t.Context(), "last"); err != nil {
		t.Fatal(err)
	}
	if events, err := w.Audit(t.Context(), registry.Filter{}); err != nil || len(events) != 1 ||
		events[0].Account != "last" {
		t.Errorf("%+v, %v", events, err)
	}
	set("entry/public/000000000000", `{"entry":"nonsense"}`)
	_, err := w.Audit(t.Context(), registry.Filter{})
	wants(t, err, fault.Registry, "entry/public/000000000000")
	set("audit", `{"next":"x"}`)
	_, err = w.AddAccount(t.Context(), "more")
	wants(t, err, fault.Registry, "audit")
}
