package record

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

func digest(word string) cas.Digest { return cas.Sum([]byte(word)) }

func fullCall() Call {
	return Call{
		ID: "a", Approval: "bob", Bundle: "acme/base@1.0.0", Registry: "https://registry.example",
		Chain: []Link{{"acme/run@2.0.0", digest("l"), "tool:rye/python", "https://registry.example",
			[]string{"builtin", "dev"}, digest("t")}, {Digest: digest("m"), Ref: "x"}},
		Deadline: time.Date(2026, 11, 20, 12, 0, 0, 5e6, time.UTC),
		Digest:   digest("d"), Grants: digest("g"), Limits: map[string]int64{"wall_ms": 5, "a": 0,
			"memory": maxInteger}, Lock: digest("k"), Params: digest("p"),
		Packages: digest("n"), Parent: "b", Policy: []cas.Digest{digest("1"), digest("2")}, Principal: "ann",
		Ref: "tool:demo/hi", Risk: "read", Derived: "it reads",
		Sandbox: "none", Set: digest("s"), Signers: []string{"dev"}, Tenant: `é "quoted" \\\" end\`,
		Toolchain: []Program{{digest("py"), "python3", "/usr/bin/python3", true, "3.12"}, {Name: "bash"}},
		Tree:      digest("tree"),
	}
}

func fullOutcome() End {
	return End{Code: "TIMEOUT", Duration: time.Second, Exit: -1, Receipt: digest("r"), Result: digest("o"),
		Sandbox: "landlock", Signal: "killed", Status: Timeout, Usage: map[string]int64{"cpu_ms": 7}}
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []Call{fullCall(), {ID: "b", Digest: digest("d"), Ref: "x"}} {
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		b := c.Append(nil)
		if again, err := jcs.Canonical(nil, b); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s\nisn't canonical: %s, %v", b, again, err)
		}
		if again, err := ParseCall(c.ID, b); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v, %v, want %+v", again, err, c)
		}
	}
	for _, o := range []End{fullOutcome(), {Status: OK}} {
		b := o.Append(nil)
		if again, err := jcs.Canonical(nil, b); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s\nisn't canonical: %s, %v", b, again, err)
		}
		if again, err := ParseEnd(b); err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%+v, %v, want %+v", again, err, o)
		}
	}
	// Every field is written.
	full := reflect.ValueOf(fullCall())
	for i := range full.NumField() {
		if full.Field(i).IsZero() {
			t.Error("the test says nothing of", full.Type().Field(i).Name)
		}
	}
	if full = reflect.ValueOf(fullOutcome()); full.NumField() != 9 {
		t.Error(full.NumField())
	}
	for i := range full.NumField() {
		if full.Field(i).IsZero() {
			t.Error("the test says nothing of", full.Type().Field(i).Name)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := string((&Call{ID: "a", Digest: digest("d"), Ref: "x", Limits: map[string]int64{"a": 1},
		Signers: []string{"s"}, Deadline: time.Unix(0, 0)}).Append(nil))
	if _, err := ParseCall("a", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to string }{
		{"{", "{,"}, {`"]}`, `"]`}, {`"ref":"x"`, `"ref":"x","ref":"x"`}, {`"ref":"x"`, `"Ref":"x"`},
		{`"ref":"x"`, `"ref":"\u0078"`},
		{`"ref":"x"`, `"ref":"x`}, {`"ref":"x"`, `"ref":x`}, {`"ref":"x"`, `"ref":"\"`}, {`"ref":"x"`, `"ref":"\\\"`},
		{`"ref":"x"`, `"ref":"\q"`},
		{`"ref":"x"`, `"ref": "x"`}, {`,"ref":"x"`, ``}, {`"ref":"x"`, `"ref":""`},
		{`"ref":"x"`, `"ref":"x","risk":""`}, {`"ref":"x"`, `"ref":"x","none":1`},
		{`"a":1`, `"a":01`}, {`"a":1`, `"a":-1`}, {`"a":1`, `"a":1.0`}, {`"a":1`, `"a":x`},
		{`"a":1`, `"a":99999999999999999999`}, {`"a":1`, `"a":1,"a":1`}, {`"a":1`, `"b":1,"a":1`}, {`"a":1`, `a:1`},
		{`"a":1`, `"a"1`},
		{`"a":1`, `"a\"b":1`}, {`"a":1`, `,"a":1`}, {`{"a":1}`, `{}`}, {`"blake3:`, `"sha256:`},
		{`"digest":`, `"digest":"x","digest":`}, {`["s"]`, `[]`}, {`["s"]`, `["s",]`}, {`["s"]`, `["s""s"]`},
		{`["s"]`, `["s"`}, {`["s"]`, `"s"`},
		{`1970-01-01T00:00:00.000Z`, `1970-01-01T00:00:00.000+00:00`},
		{`1970-01-01T00:00:00.000Z`, `1970-01-01T00:00:00,000Z`}, {`1970-01-01T00:00:00.000Z`, ``}, {good, good + " "},
		{good, ""}, {good, "{"}, {good, "null"},
	} {
		b := strings.Replace(good, c.from, c.to, 1)
		if b == good {
			t.Fatalf("%q isn't there", c.from)
		}
		if c, err := ParseCall("a", []byte(b)); err == nil {
			t.Errorf("%s is read as %+v", b, c)
		}
	}
	for _, b := range []string{``, `{}`, `{"status":"fine"}`, `{"exit":1.5,"status":"ok"}`,
		`{"status":"ok","usage":{}}`} {
		if o, err := ParseEnd([]byte(b)); err == nil {
			t.Errorf("%s is read as %+v", b, o)
		}
	}
	if _, err := ParseCall("", []byte(good)); err == nil {
		t.Error("no id")
	}
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", 1001)
	for _, c := range []struct {
		want string
		edit func(*Call)
	}{
		{`audit: id "" must be 1 to 128 letters, digits, '.', '_' or '-'`, func(c *Call) { c.ID = "" }},
		{`audit: id "a/b" must be 1 to 128 letters, digits, '.', '_' or '-'`, func(c *Call) { c.ID = "a/b" }},
		{`audit: parent "\n" is not a valid call id`, func(c *Call) { c.Parent = "\n" }},
		{`audit: ref is missing`, func(c *Call) { c.Ref = "" }},
		{`audit: ref has 1001 bytes, more than 1000`, func(c *Call) { c.Ref = long }},
		{`audit: tenant "a\u202eb" must be one line of printable text`, func(c *Call) { c.Tenant = "a\u202eb" }},
		{`audit: tenant "\xff" must be one line of printable text`, func(c *Call) { c.Tenant = "\xff" }},
		{`audit: principal "a\x1b[0m" must be one line of printable text`, func(c *Call) { c.Principal = "a\x1b[0m" }},
		{`audit: digest is missing`, func(c *Call) { c.Digest = cas.Digest{} }},
		{`audit: chain digest is missing`, func(c *Call) { c.Chain[1].Digest = cas.Digest{} }},
		{`audit: chain ref is missing`, func(c *Call) { c.Chain[1].Ref = "" }},
		{`audit: chain signers is missing`, func(c *Call) { c.Chain[1].Signers = []string{""} }},
		{`audit: chain has 257 entries, more than 256`, func(c *Call) {
			c.Chain = make([]Link, 257)
			c.Chain[0] = Link{Digest: digest("x"), Ref: "x"}
		}},
		{`audit: deadline must be in a year from 0 to 9999`, func(c *Call) {
			c.Deadline = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		}},
		{`audit: limits has the name "a b"`, func(c *Call) { c.Limits = map[string]int64{"a b": 1} }},
		{`audit: limits has "a": -1, must be between 0 and 2^53`, func(c *Call) {
			c.Limits = map[string]int64{"a": -1}
		}},
		{`audit: toolchain name is missing`, func(c *Call) { c.Toolchain[0].Name = "" }},
	} {
		k := fullCall()
		c.edit(&k)
		if err := k.Check(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	for _, c := range []struct {
		want string
		edit func(*End)
	}{
		{`audit: duration_ns -1 must be between 0 and 2^53`, func(o *End) { o.Duration = -1 }},
		{`audit: exit 9007199254740992 is out of range`, func(o *End) { o.Exit = 1 << 53 }},
		{`audit: status "" is not a valid status`, func(o *End) { o.Status = "" }},
		{`audit: code "\x00" must be one line of printable text`, func(o *End) { o.Code = "\x00" }},
	} {
		k := fullOutcome()
		c.edit(&k)
		if err := k.Check(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if err := CheckText("program", ""); err == nil || err.Error() != "audit: program is missing" {
		t.Error(err)
	}
}

// What is read is written again byte by byte, and is canonical JSON.
func FuzzParse(f *testing.F) {
	c, o := fullCall(), fullOutcome()
	f.Add(c.Append(nil))
	f.Add(o.Append(nil))
	f.Add([]byte(`{"digest":"x","ref":"\u00e9\\"}`))
	f.Add([]byte(
		`{"by":"ann","principal":"ann","ref":"tool:a","request":"r-1","state":"approved","through":"rye approve"}`))
	f.Add([]byte(`{"registry":"https://registry.example","verb":"search","words":"resize images"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseCall("a", b); err == nil {
			again, err := jcs.Canonical(nil, b)
			if err != nil || !bytes.Equal(again, b) || !bytes.Equal(c.Append(nil), b) {
				t.Errorf("%q is read, %v", b, err)
			}
		}
		if a, err := ParseApproval(b); err == nil {
			again, err := jcs.Canonical(nil, b)
			if err != nil || !bytes.Equal(again, b) || !bytes.Equal(a.Append(nil), b) {
				t.Errorf("%q is read, %v", b, err)
			}
		}
		if q, err := ParseQuery(b); err == nil {
			again, err := jcs.Canonical(nil, b)
			if err != nil || !bytes.Equal(again, b) || !bytes.Equal(q.Append(nil), b) {
				t.Errorf("%q is read, %v", b, err)
			}
		}
		if o, err := ParseEnd(b); err == nil {
			again, err := jcs.Canonical(nil, b)
			if err != nil || !bytes.Equal(again, b) || !bytes.Equal(o.Append(nil), b) {
				t.Errorf("%q is read, %v", b, err)
			}
		}
	})
}

func BenchmarkCall(b *testing.B) {
	c := fullCall()
	text := c.Append(nil)
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			text = c.Append(text[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := ParseCall("a", text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
