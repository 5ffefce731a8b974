package advisory_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/lock/advisory"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// samples has an advisory with everything, and one with the least.
func samples() map[string]*advisory.Advisory {
	return map[string]*advisory.Advisory{
		"full": {ID: "RYE-2026-0001", Published: noon, Modified: noon.Add(time.Hour), Withdrawn: noon.AddDate(0, 0, 1),
			Aliases: []string{"CVE-2026-12345", "GHSA-xxxx"}, Summary: "Templates run what they read — all of it",
			Details: "Templates from a file aren't escaped.\n\n\tSee the reference.", Bundle: "acme/base",
			Spans: []advisory.Span{{Introduced: "0", Fixed: "1.0.1"},
				{Introduced: "1.2.0-rc.1", LastAffected: "1.4.1"}, {Introduced: "2.0.0"}},
			Versions: []string{"1.0.3", "1.0.5+linux"}, Kind: advisory.Vulnerable, Severity: policy.High,
			References: []advisory.Reference{{Type: "WEB", URL: "https://acme.example/2026-1"}}},
		"least": {ID: "RYE-2026-0002", Published: noon, Modified: noon, Summary: "acme/web@1.0.0 is malware",
			Bundle: "acme/web", Versions: []string{"1.0.0"}, Kind: advisory.Malware, Severity: policy.Critical},
	}
}

func encode(t testing.TB, a *advisory.Advisory) []byte {
	t.Helper()
	b, err := a.Append([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	return b[1:]
}

func TestGolden(t *testing.T) {
	for name, a := range samples() {
		b := encode(t, a)
		goldentest.File(t, filepath.Join("testdata", name+".json"), b)
		read, err := advisory.Parse(b)
		if err != nil || !reflect.DeepEqual(read, a) {
			t.Errorf("%s reads as %+v, %v", name, read, err)
		}
		if n := read.Notice(); n.ID != a.ID || n.Severity != a.Severity || n.Kind != string(a.Kind) ||
			n.Summary != a.Summary {
			t.Errorf("%+v", n)
		}
	}
}

func TestCovers(t *testing.T) {
	a := samples()["full"]
	for version, want := range map[string]bool{
		"0.0.1": true, "1.0.0": true, "1.0.1-rc.1": true, "1.0.1": false, "1.0.3": true, "1.0.3+x": false,
		"1.0.5+linux": true, "1.0.5": false, "1.1.9": false, "1.2.0-rc.0": false, "1.2.0-rc.1": true, "1.2.0": true,
		"1.4.1": true, "1.4.2-rc.1": false, "1.4.2": false, "2.0.0-rc.1": false, "2.0.0": true, "99.0.0": true,
		"": false, "2": false, "../1.0.0": false,
	} {
		if got := a.Covers(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// TestRefused changes one thing of a good document at a time.
func TestRefused(t *testing.T) {
	good := string(encode(t, samples()["full"]))
	for _, c := range []struct{ old, new, says string }{
		{`{"affected"`, ` {"affected"`, "canonical"},
		{`{"affected"`, `[{"affected"`, "json"},
		{`"id":`, `"id":"RYE-1","id":`, "json"},
		{`"details":`, `"credits":[],"details":`, `unknown member "credits"`},
		{`"kind":"vulnerable"`, `"kind":"odd"`, "unknown kind"},
		{`"kind":"vulnerable"`, `"kind":1`, "kind is not a text"},
		{`"kind":"vulnerable",`, `"a":1,"kind":"vulnerable",`, `unknown member "a" of database_specific`},
		{`"severity":"high"`, `"severity":"dire"`, "no severity"},
		{`"severity":"high"`, `"severity":""`, "severity is not a text"},
		{`"ecosystem":"rye"`, `"ecosystem":"npm"`, `the ecosystem is "npm"`},
		{`"name":"acme/base"`, `"name":"../base"`, "the package's name"},
		{`"name":"acme/base"`, `"name":"acme/base","purl":"pkg:x"`, `unknown member "purl"`},
		{`"affected":[{`, `"affected":[{},{`, "2 entries under affected"},
		{`"affected":[{`, `"affected":[1,{`, "2 entries under affected"},
		{`"type":"SEMVER"`, `"type":"GIT"`, "expected SEMVER"},
		{`"type":"SEMVER"`, `"repo":"x","type":"SEMVER"`, `unknown member "repo" of a range`},
		{`"ranges":[{`, `"ranges":[{},{`, "2 ranges"},
		{`{"introduced":"0"},`, ``, "doesn't follow one with introduced"},
		{`{"introduced":"0"}`, `{"introduced":"0","fixed":"1.0.0"}`, "an event has 2 members"},
		{`{"introduced":"0"}`, `{"limit":"1.0.0"}`, "unknown member"},
		{`{"introduced":"0"}`, `{"introduced":"1"}`, "not a version"},
		{`{"introduced":"0"}`, `{"introduced":"1.0.1"}`, "ascending"},
		{`{"fixed":"1.0.1"}`, `{"fixed":"1.2.0"}`, "ascending"},
		{`{"fixed":"1.0.1"},`, ``, "only the last introduced"},
		{`{"fixed":"1.0.1"}`, `{"fixed":"1.x"}`, "not a version"},
		{`{"introduced":"2.0.0"}`, `{"introduced":"0"}`, "not a version"},
		{`"versions":["1.0.3"`, `"versions":["1.0.7"`, "unsorted"},
		{`"versions":["1.0.3"`, `"versions":["1.0"`, "not a version"},
		{`"versions":["1.0.3"`, `"versions":[1`, "something else than texts"},
		{`"versions":["1.0.3","1.0.5+linux"]`, `"versions":[]`, "empty"},
		{`"modified":"2026-11-20T13`, `"modified":"2026-11-20T11`, "modified before it was published"},
		{`"withdrawn":"2026-11-21`, `"withdrawn":"2026-11-19`, "withdrawn before it was published"},
		{`"published":"2026-11-20T12:00:00Z",`, ``, "modified before it was published"},
		{`"published":"2026-11-20T12:00:00Z"`, `"published":"2026-11-20T12:00:00.5Z"`, "expected a time"},
		{`"published":"2026-11-20T12:00:00Z"`, `"published":"0001-11-20T12:00:00Z"`, "expected a time"},
		{`"id":"RYE-2026-0001"`, `"id":"RYE 1"`, "not an id"},
		{`"id":"RYE-2026-0001",`, ``, "not an id"},
		{`"schema_version":"1.7.0"`, `"schema_version":"2.0.0"`, "schema_version"},
		{`"schema_version":"1.7.0"`, `"schema_version":"1.6.0"`, "canonical"},
		{`"summary":"Templates`, `"summary":" Templates`, "summary"},
		{`"summary":"Templates`, `"summary":"\u001b[2JTemplates`, "summary"},
		{`"summary":"Templates`, `"summary":"\u202eTemplates`, "summary"},
		{`"details":"Templates`, `"details":"\u0000Templates`, "details"},
		{`"aliases":["CVE-2026-12345"`, `"aliases":["CVE 1"`, "aliases"},
		{`"type":"WEB"`, `"type":"HOME"`, "unknown type of a reference"},
		{`"url":"https:`, `"url":"javascript:`, "web address"},
		{`"references":[{`, `"references":["x",{`, "a reference is not an object"},
		{`"database_specific":{"kind":"vulnerable","severity":"high"}`, `"database_specific":[]`, "not an object"},
	} {
		changed := strings.Replace(good, c.old, c.new, 1)
		if changed == good {
			t.Errorf("%q isn't there", c.old)
		}
		if _, err := advisory.Parse([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q for %q: %v, want %q", c.new, c.old, err, c.says)
		}
	}
	if _, err := advisory.Parse([]byte(good + strings.Repeat(" ", advisory.MaxBytes))); err == nil {
		t.Error("a document that is too long is read")
	}
	if _, err := advisory.Parse([]byte("{}")); err == nil {
		t.Error("an empty document is read")
	}
}

// TestBounds writes nothing that can't be read.
func TestBounds(t *testing.T) {
	for name, change := range map[string]func(*advisory.Advisory){
		"no versions": func(a *advisory.Advisory) { a.Spans, a.Versions = nil, nil },
		"many versions": func(a *advisory.Advisory) {
			for i := range 300 {
				a.Versions = append(a.Versions, fmt.Sprintf("3.0.%03d", i))
			}
		},
		"many spans": func(a *advisory.Advisory) {
			for range 300 {
				a.Spans = append(a.Spans, a.Spans[0])
			}
		},
		"both ends": func(a *advisory.Advisory) { a.Spans[0].LastAffected = "1.0.0" },
		"backwards": func(a *advisory.Advisory) { a.Spans[1].LastAffected = "1.1.0" },
		"many references": func(a *advisory.Advisory) {
			for range 40 {
				a.References = append(a.References, a.References[0])
			}
		},
		"long details":   func(a *advisory.Advisory) { a.Details = strings.Repeat("x", 40<<10) },
		"escaped":        func(a *advisory.Advisory) { a.Details = strings.Repeat(`\`, 32<<10) + "\xff" },
		"no time":        func(a *advisory.Advisory) { a.Published = time.Time{} },
		"long reference": func(a *advisory.Advisory) { a.References[0].URL += strings.Repeat("x", 1000) },
	} {
		a := samples()["full"]
		change(a)
		if b, err := a.Append([]byte("before")); err == nil || string(b) != "before" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestDraft(t *testing.T) {
	text := `{
		"summary": "Templates run what they read", "database_specific": {"severity": "low", "kind": "withdrawn"},
		"affected": [{"versions": ["1.1.0", "1.0.0", "1.0.0"], "package": {"name": "acme/base", "ecosystem": "rye"}}]}`
	a, err := advisory.ParseDraft([]byte(text))
	if err != nil || a.ID != "" || a.Severity != policy.Low ||
		!reflect.DeepEqual(a.Versions, []string{"1.0.0", "1.1.0"}) {
		t.Errorf("%+v, %v", a, err)
	}
	_, err = advisory.ParseDraft([]byte(strings.Replace(text, "low", "lower", 1)))
	if fault.CodeOf(err) != fault.Parsing {
		t.Error(err)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"*":                                   "[{0  }] []",
		"<1.4.2":                              "[{0 1.4.2 }] []",
		">=1.2.0 <=1.4.1":                     "[{1.2.0  1.4.1}] []",
		">=2.0.0":                             "[{2.0.0  }] []",
		"=1.0.3 || >=1.2.0 <1.4.2 || <0.9.0":  "[{0 0.9.0 } {1.2.0 1.4.2 }] [1.0.3]",
		"=1.0.3||=1.0.3 || =1.0.1":            "[] [1.0.1 1.0.3]",
		">=1.0.0 <1.1.0 || <0.5.0 || >=3.0.0": "[{0 0.5.0 } {1.0.0 1.1.0 } {3.0.0  }] []",
	} {
		spans, versions, err := advisory.ParseVersions(text)
		if got := fmt.Sprint(spans, versions); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "||", "1.0.0", ">1.0.0", "<1.0.0 >=0.5.0 <2.0.0", "<1.0.0 <2.0.0",
		"=1.0.0 <2.0.0",
		"<1.0.0 >=0.1.0", "^1.0.0", "<x", ">=1.0.0 =2.0.0", "* <1.0.0"} {
		if spans, versions, err := advisory.ParseVersions(text); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%q: %v %v, %v", text, spans, versions, err)
		}
	}
}

func sum(s string) cas.Digest { return cas.Sum([]byte(s)) }

func sampleList() *advisory.List {
	return &advisory.List{Registry: "registry.example", Counter: 7, Issued: noon, Entries: []advisory.Entry{
		{ID: "RYE-2026-0002", Bundle: "acme/web", Document: sum("2"), Leaf: 12, Modified: noon},
		{ID: "RYE-2026-0001", Bundle: "acme/base", Document: sum("1"), Leaf: 9, Modified: noon.Add(-time.Hour)},
		{ID: "acme-3", Bundle: "acme/base", Document: sum("3"), Leaf: 13, Modified: noon},
	}}
}

func encodeList(t testing.TB, l *advisory.List, keys ...key.Private) []byte {
	t.Helper()
	body, read, err := advisory.AppendList(nil, l)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := read.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	return manifest.Join(nil, body, read.Signatures)
}

func TestList(t *testing.T) {
	alice := keytest.Alice()
	for name, l := range map[string]*advisory.List{"list.yaml": sampleList(),
		"empty.yaml": {Registry: "r", Counter: 1, Issued: noon}} {
		b := encodeList(t, l, alice)
		goldentest.File(t, filepath.Join("testdata", name), b)
		read, err := advisory.ParseList(b)
		if err != nil {
			t.Fatal(err)
		}
		if again := encodeList(t, read, alice); !bytes.Equal(again, b) {
			t.Errorf("written again it is\n%s", again)
		}
		signers, err := read.Check(func(f key.Fingerprint) (key.Public, bool) {
			return alice.Public(), f == alice.Public().Fingerprint()
		})
		if err != nil || len(signers) != 1 || read.Domain != sign.Advisories || read.Name != "advisories:"+l.Registry {
			t.Errorf("%v, %v, %+v", signers, err, read.Document)
		}
	}
	read, err := advisory.ParseList(encodeList(t, sampleList()))
	if err != nil {
		t.Fatal(err)
	}
	if e := read.Find("RYE-2026-0002"); e == nil || e.Leaf != 12 || read.Find("RYE-2026-0003") != nil {
		t.Errorf("%+v", e)
	}
	if of := read.Of("acme/base"); len(of) != 2 || of[0].ID != "RYE-2026-0001" || of[1].ID != "acme-3" {
		t.Errorf("%+v", of)
	}
}

func TestListRefused(t *testing.T) {
	good := string(encodeList(t, sampleList()))
	for _, c := range []struct{ old, new string }{
		{`"advisories/1"`, `"advisories/2"`}, {`name: "registry.example"`, `name: "../x"`},
		{"counter: 7", "counter: 0"},
		{"counter: 7", "counter: -1"}, {`issued: "2026-11-20T12`, `issued: "2026-13-20T12`},
		{`"RYE-2026-0001": {`, `"RYE 1": {`}, {`bundle: "acme/web"`, `bundle: "/web"`},
		{`document: "blake3:`, `document: "sha256:`}, {`leaf: 12`, `leaf: "12"`},
		{`modified: "2026-11-20T12:00:00Z"`, `modified: "2026-11-20"`}, {`"acme-3"`, `"RYE-2026-0002"`},
		{"advisories:\n", ""}, {"rye:", "# x\nrye:"},
	} {
		changed := strings.Replace(good, c.old, c.new, 1)
		if _, err := advisory.ParseList([]byte(changed)); err == nil || changed == good {
			t.Errorf("%q for %q is read", c.new, c.old)
		}
	}
	if _, err := advisory.ParseList(append(encodeList(t, sampleList(), keytest.Alice()), 'x')); err == nil {
		t.Error("more than a list is read")
	}
	bad := sampleList()
	bad.Entries = append(bad.Entries, bad.Entries[0])
	if b, _, err := advisory.AppendList([]byte("before"), bad); err == nil || string(b) != "before" {
		t.Errorf("%q, %v", b, err)
	}
	bad = sampleList()
	bad.Counter = 0
	if b, _, err := advisory.AppendList([]byte("before"), bad); err == nil || string(b) != "before" {
		t.Errorf("%q, %v", b, err)
	}
}

func FuzzAdvisory(f *testing.F) {
	for _, a := range samples() {
		f.Add(encode(f, a))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := advisory.Parse(b)
		if err != nil {
			_, _ = advisory.ParseDraft(b)
			return
		}
		if again, err := a.Append(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s becomes %s, %v", b, again, err)
		}
		if _, err := advisory.ParseDraft(b); err != nil {
			t.Fatalf("%s is no draft: %v", b, err)
		}
		a.Covers("1.2.3")
	})
}

func FuzzList(f *testing.F) {
	f.Add(encodeList(f, sampleList(), keytest.Alice()))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := advisory.ParseList(b)
		if err != nil {
			return
		}
		body, _, err := advisory.AppendList(nil, l)
		if again := manifest.Join(nil, body, l.Signatures); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%s becomes %s, %v", b, again, err)
		}
	})
}

func FuzzVersions(f *testing.F) {
	f.Add("=1.0.3 || >=1.2.0 <1.4.2 || <0.9.0")
	f.Fuzz(func(t *testing.T, text string) {
		spans, versions, err := advisory.ParseVersions(text)
		if err == nil && len(spans)+len(versions) == 0 {
			t.Fatalf("%q covers nothing", text)
		}
	})
}
