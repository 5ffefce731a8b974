package tlog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// unverified is a witness' key of an algorithm that rye doesn't verify.
func unverified(t *testing.T) string {
	t.Helper()
	k, err := tlog.ParseKey(tlog.KeyText("later", append([]byte{6}, make([]byte, 1312)...)))
	if err != nil {
		t.Fatal(err)
	}
	return k.String()
}

// TestPolicy asks the policy of tlog-policy's own example about every set of witnesses.
func TestPolicy(t *testing.T) {
	h := newHistory(t, 1)
	c := h.grow(t, 5)
	names := []string{"X1", "X2", "X3", "Y1", "Y2", "Y3"}
	var text strings.Builder
	fmt.Fprintf(&text, "# an example\n\nlog %s https://registry.example/log\n", h.log)
	for i, name := range names {
		fmt.Fprintf(&text, " witness\t%s %s https://%s.example/\n", name,
			witnessKey(t, name+".example", keytest.Seeded(byte(10+i))), name)
	}
	text.WriteString("group X-witnesses 2 X1 X2 X3\ngroup Y-witnesses any Y1 Y2 Y3\n" +
		"group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n")
	policy, err := tlog.ParsePolicy([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(policy.Logs) != 1 || policy.Logs[0].URL != "https://registry.example/log" || len(policy.Witnesses) != 6 ||
		policy.Witnesses[2].Name != "X3" || policy.Witnesses[2].URL != "https://X3.example/" {
		t.Errorf("%+v", policy)
	}
	for set := range 1 << len(names) {
		cosigned, count := c, [2]int{}
		for i, name := range names {
			if set>>i&1 == 0 {
				continue
			}
			count[i/3]++
			if cosigned, err = tlog.Open(cosign(t, cosigned, name+".example", keytest.Seeded(byte(10+i)), at), h.log,
				policy.Keys()...); err != nil {
				t.Fatal(err)
			}
		}
		err := policy.Check(cosigned, h.log)
		if (err == nil) != (count[0] >= 2 && count[1] >= 1) {
			t.Errorf("%06b: %v", set, err)
		}
		if err != nil && fault.CodeOf(err) != fault.BelowThreshold {
			t.Errorf("%06b: %v", set, err)
		}
	}
	other, err := tlog.NewKey("other.example/log", keytest.Seeded(1).Public())
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.Check(c, other); fault.CodeOf(err) != fault.UntrustedKey {
		t.Errorf("a log that isn't listed: %v", err)
	}
	var none *tlog.Policy
	if err := none.Check(c, h.log); err != nil || none.Keys() != nil {
		t.Errorf("without a policy: %v", err)
	}
	free, err := tlog.ParsePolicy([]byte("quorum none"))
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Check(c, other); err != nil {
		t.Errorf("quorum none: %v", err)
	}
	later, err := tlog.ParsePolicy([]byte("witness later " + unverified(t) + "\nquorum later\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := later.Check(c, h.log); fault.CodeOf(err) != fault.BelowThreshold ||
		!strings.Contains(strings.Join(fault.Of(err).Why, " "), "doesn't verify") {
		t.Errorf("a witness that can't be verified: %v", err)
	}
}

func TestPolicyRefused(t *testing.T) {
	h := newHistory(t, 1)
	w := func(n byte) string { return witnessKey(t, "w", keytest.Seeded(n)).String() }
	two := "witness a " + w(7) + "\nwitness b " + w(8) + "\n"
	for _, text := range []string{
		"", "# nothing\n", "quorum a\n", "quorum none\nquorum none\n", two, two + "quorum c\n",
		two + "group g all a b\ngroup g any a\nquorum g\n", two + "group g all a\ngroup h all a\nquorum g\n",
		two + "group g all a a\nquorum g\n", two + "group g 0 a b\nquorum g\n", two + "group g 3 a b\nquorum g\n",
		two + "group g 01 a b\nquorum g\n", two + "group g some a b\nquorum g\n", two + "group g all\nquorum g\n",
		two + "group g all none\nquorum g\n", two + "group none all a\nquorum none\n",
		two + "group g all h\nquorum g\n",
		two + "group a all b\nquorum a\n", two + "witness c " + w(7) + "\nquorum a\n",
		"witness none " + w(7) + "\nquorum none\n", "witness a " + h.log.String() + "\nquorum a\n",
		"witness a nokey\nquorum a\n", "log " + w(7) + "\nquorum none\n", "log nokey\nquorum none\n",
		"log " + h.log.String() + "\nlog " + h.log.String() + "\nquorum none\n", "log\nquorum none\n",
		"quorum none now\n", "trust all\nquorum none\n", "quorum none\r\n", "quorum\x00none\n", "quorum none\x7f\n",
		two + "quorum A\n", "quorum none\n" + strings.Repeat("#", tlog.MaxPolicy),
	} {
		if _, err := tlog.ParsePolicy([]byte(text)); fault.CodeOf(err) != fault.Parsing {
			t.Errorf("%q: %v", text[:min(len(text), 300)], err)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	w := witnessKey(f, "w", keytest.Seeded(7)).String()
	f.Add([]byte("witness a " + w + "\ngroup g all a\nquorum g\n"))
	f.Add([]byte("quorum none"))
	h := newHistory(f, 1)
	c := h.grow(f, 1)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := tlog.ParsePolicy(b)
		if err != nil {
			return
		}
		// Without a signature of a witness, only a policy without a quorum is satisfied.
		if p.Check(c, h.log) == nil && !strings.Contains(string(b), "none") {
			t.Fatalf("%q believes a checkpoint without cosignatures", b)
		}
	})
}
