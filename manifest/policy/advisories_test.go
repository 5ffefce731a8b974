package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

const registryURL = "https://registry.example"

func advisedSide(t *testing.T, line string) Side {
	t.Helper()
	p, err := Parse([]byte("advisories:\n  \"" + registryURL + "\": {" + line + "}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return Side{Policy: p}
}

// adviceAt is what a registry said at a time about acme/base@1.0.0: an advisory of each of these severities.
func adviceAt(issued time.Time, severities ...Severity) *Advice {
	a := &Advice{Registry: registryURL, Bundle: "acme/base@1.0.0", Issued: issued}
	for _, s := range severities {
		a.Notices = append(a.Notices, Notice{ID: "RYE-" + s.String(), Severity: s, Kind: "vulnerable", Summary: "bad"})
	}
	return a
}

func TestAdvised(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	hour := at.Add(-time.Hour)
	missing, broken := adviceAt(time.Time{}), adviceAt(hour)
	missing.Missing, broken.Broken = true, "can't be used: they are damaged"
	other := adviceAt(hour, Critical)
	other.Registry = "https://other.example"
	for _, c := range []struct {
		name, line string
		advice     *Advice
		use, call  Code // of loading and of calling
	}{
		{"nothing said", "call: low, max-age: 7d", nil, Admitted, Admitted},
		{"no notices", "load: low, max-age: 7d", adviceAt(hour), Admitted, Admitted},
		{"below", "load: critical, call: high, max-age: 7d", adviceAt(hour, Medium), Admitted, Admitted},
		{"at call", "load: critical, call: high, max-age: 7d", adviceAt(hour, High), Admitted, Advised},
		{"at both", "load: critical, call: high, max-age: 7d", adviceAt(hour, Low, Critical), Advised, Advised},
		{"call alone", "call: high, max-age: 7d", adviceAt(hour, Critical), Admitted, Advised},
		{"load alone", "load: high, max-age: 7d", adviceAt(hour, High), Advised, Advised},
		// What can't be loaded can't be called.
		{"call higher than load", "load: low, call: critical, max-age: 7d", adviceAt(hour, Low), Advised, Advised},
		{"another registry's", "load: low, max-age: 7d", other, Admitted, Admitted},
		{"never read", "call: high, max-age: 7d", missing, Admitted, AdvisoriesStale},
		{"never read, warned", "load: high, max-age: 7d, stale: warn", missing, Admitted, Admitted},
		{"old", "load: high, max-age: 7d", adviceAt(at.AddDate(0, 0, -8)), AdvisoriesStale, AdvisoriesStale},
		{"old, warned", "load: high, max-age: 7d, stale: warn", adviceAt(at.AddDate(0, 0, -8)), Admitted, Admitted},
		{"old and covering", "load: high, max-age: 7d, stale: warn", adviceAt(at.AddDate(0, 0, -8), High), Advised,
			Advised},
		{"as old as may be", "load: high, max-age: 7d", adviceAt(at.AddDate(0, 0, -7)), Admitted, Admitted},
		{"from the future", "load: high, max-age: 7d", adviceAt(at.Add(time.Hour)), AdvisoriesStale, AdvisoriesStale},
		{"damaged", "load: high, max-age: 7d", broken, AdvisoriesStale, AdvisoriesStale},
		{"damaged, warned", "load: high, max-age: 7d, stale: warn", broken, AdvisoriesStale, AdvisoriesStale},
	} {
		root := advisedSide(t, c.line)
		for purpose, want := range map[Purpose]Code{ToUse: c.use, ToCall: c.call, ToShow: Admitted} {
			r := Request{Name: "tool:acme/base/x", Purpose: purpose, Voucher: Builtin, Raw: cas.Sum([]byte("x")),
				Now: at, Advice: c.advice}
			d := Decide(r, root, nil)
			if d.Code != want || d.Allowed != (want == Admitted) {
				t.Errorf("%s, purpose %d: %v (%s), want %v", c.name, purpose, d.Code, d.Reason(), want)
			}
			said := root.Advise(c.advice, purpose, at)
			if (said == "") != (want == Admitted && len(d.Warnings) == 0) {
				t.Errorf("%s, purpose %d: %q", c.name, purpose, said)
			}
			// A project's policy only narrows, and a policy without the section says nothing.
			silent, err := Parse(nil)
			if err != nil {
				t.Fatal(err)
			}
			project := root
			if d := Decide(r, Side{Policy: silent}, &project); d.Code != want || want != Admitted && !d.Project {
				t.Errorf("%s, purpose %d, by the project: %v", c.name, purpose, d.Code)
			}
			if d := Decide(r, Side{Policy: silent}, nil); d.Code != Admitted {
				t.Errorf("%s, purpose %d, without the section: %v", c.name, purpose, d.Code)
			}
		}
	}
}

// TestAdvisedReason says which advisory refuses: the worst.
func TestAdvisedReason(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	root := advisedSide(t, "call: low, max-age: 36h")
	r := Request{Name: "tool:acme/base/x", Purpose: ToCall, Voucher: Builtin, Raw: cas.Sum([]byte("x")), Now: at,
		Advice: adviceAt(at, Low, High, Medium)}
	d := Decide(r, root, nil)
	if want := `is from acme/base@1.0.0, which the advisory RYE-high of "https://registry.example" covers ` +
		`(high, vulnerable): "bad"`; d.Reason() != want || d.Code.Fault() != fault.Policy {
		t.Errorf("%s, %v", d.Reason(), d.Code.Fault())
	}
	f := d.Details(fault.New(fault.Policy, "x"))
	if f.Details["advisory"] != "RYE-high" || f.Details["registry"] != registryURL ||
		f.Details["reason"] != "advisory" {
		t.Errorf("%+v", f.Details)
	}
	r.Advice = adviceAt(at.AddDate(0, 0, -2))
	d = Decide(r, root, nil)
	if !strings.Contains(d.Reason(), `can't be checked: the advisories of "https://registry.example" were issued at `+
		`2026-11-18T12:00:00Z, longer ago than 36h`) || d.Code.Fault() != fault.Expired {
		t.Errorf("%s, %v", d.Reason(), d.Code.Fault())
	}
}

func TestSeverities(t *testing.T) {
	for i, word := range Severities() {
		s, ok := ParseSeverity(word)
		if !ok || s != Severity(i+1) || s.String() != word {
			t.Errorf("%s: %v, %v", word, s, ok)
		}
	}
	for _, word := range []string{"", "worse", "High"} {
		if s, ok := ParseSeverity(word); ok || s != NoSeverity {
			t.Errorf("%q: %v", word, s)
		}
	}
}
