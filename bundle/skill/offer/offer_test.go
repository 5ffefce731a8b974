package offer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

const text = "---\nname: greet\ndescription: Greets\nmetadata: {n: 1}\n---\nHi.\n"

func parse(t *testing.T, entry string) *offer.Offer {
	t.Helper()
	v, err := jcs.Parse([]byte(entry))
	if err != nil {
		t.Fatal(err)
	}
	return offer.Parse(v)
}

// good is the entry of a skill with these resources.
func good(uri, front, resources string) string {
	return fmt.Sprintf(`{"uri":%q,"frontmatter":%s,"resources":%s}`, uri, front, resources)
}

func resource(uri string, size int64, b string) string {
	return fmt.Sprintf(`{"uri":%q,"digest":%q,"size":%d}`, uri, offer.Digest([]byte(b)), size)
}

// TestRoundTrip: what a server offers of a skill, a client accepts, whatever characters its paths have.
func TestRoundTrip(t *testing.T) {
	parsed, err := skill.ParseText(skill.Main, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	files := []skill.File{{Path: skill.Main, Bytes: []byte(text)}, {Path: "a b/ü%2f#;.md", Bytes: []byte("x")}}
	entry, err := offer.New("my skills/x_1/greet", parsed, files)
	if err != nil {
		t.Fatal(err)
	}
	var resources []any
	for _, r := range entry.Resources {
		resources = append(resources, map[string]any{"uri": r.URI, "digest": r.Digest, "size": r.Size})
	}
	o := offer.Parse(map[string]any{"uri": entry.URI, "frontmatter": entry.Frontmatter, "resources": resources})
	if o.Err != nil || len(o.Files) != 2 || o.Files[0].Path != skill.Main || o.Files[1].Path != files[1].Path {
		t.Fatalf("%v %+v", o.Err, o.Files)
	}
	for i := range o.Files {
		if err := o.Files[i].Check(files[i].Bytes); err != nil {
			t.Error(err)
		}
		if err := o.Files[i].Check(append([]byte{}, files[1-i].Bytes...)); fault.CodeOf(err) != fault.Integrity {
			t.Error(err)
		}
	}
	if err := o.CheckMain([]byte(text)); err != nil {
		t.Error(err)
	}
	s, err := o.Skill(files)
	if err != nil || s.Name != "greet" || len(s.Files) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestRefused: an entry of a stranger is refused for each rule that it breaks.
func TestRefused(t *testing.T) {
	const uri, front = "skill://greet/SKILL.md", `{"name":"greet","description":"Greets","metadata":{"n":1}}`
	main := resource(uri, int64(len(text)), text)
	if o := parse(t, good(uri, front, "["+main+"]")); o.Err != nil {
		t.Fatal(o.Err)
	}
	at := func(uri string) string { return good(uri, front, "["+resource(uri, int64(len(text)), text)+"]") }
	with := func(more string) string { return good(uri, front, "["+main+","+more+"]") }
	for what, entry := range map[string]string{
		"no object":             `"x"`,
		"no front matter":       `{"uri":"skill://greet/SKILL.md","resources":[` + main + `]}`,
		"no name":               good(uri, `{"description":"x"}`, "["+main+"]"),
		"a name of a path":      good("skill://../SKILL.md", `{"name":"..","description":"x"}`, "["+main+"]"),
		"no description":        good(uri, `{"name":"greet"}`, "["+main+"]"),
		"another name":          at("skill://other/SKILL.md"),
		"not SKILL.md":          good("skill://greet/skill.md", front, "["+main+"]"),
		"no scheme":             at("greet/SKILL.md"),
		"a user":                at("skill://me@x/greet/SKILL.md"),
		"a query":               good("skill://greet/SKILL.md?x=/greet/SKILL.md", front, "["+main+"]"),
		"dots":                  at("skill://a/../greet/SKILL.md"),
		"hidden dots":           at("skill://a/%2e%2e/greet/SKILL.md"),
		"long":                  good("skill://"+strings.Repeat("a/", 1100)+"greet/SKILL.md", front, "["+main+"]"),
		"no resources":          `{"uri":"skill://greet/SKILL.md","frontmatter":` + front + `}`,
		"dynamic":               good(uri, front, `"dynamic"`),
		"empty":                 good(uri, front, `[]`),
		"without SKILL.md":      good(uri, front, "["+resource("skill://greet/a", 1, "a")+"]"),
		"SKILL.md below":        good(uri, front, "["+resource("skill://greet/x/SKILL.md", 1, "a")+"]"),
		"twice":                 with(main),
		"twice, spelled anew":   with(resource("skill://greet/SKILL%2Emd", 1, "a")),
		"another skill's":       with(resource("skill://greeting/a", 1, "a")),
		"the directory":         with(resource("skill://greet/", 1, "a")),
		"a NUL":                 with(resource("skill://greet/a%00", 1, "a")),
		"a backslash":           with(resource("skill://greet/..%5cx", 1, "a")),
		"a slash":               with(resource("skill://greet/..%2fx", 1, "a")),
		"no UTF-8":              with(resource("skill://greet/%ff", 1, "a")),
		"a device":              with(resource("skill://greet/COM1", 1, "a")),
		"a negative size":       with(resource("skill://greet/a", -1, "a")),
		"half a byte":           with(`{"uri":"skill://greet/a","digest":"` + offer.Digest(nil) + `","size":0.5}`),
		"a size that is a text": with(`{"uri":"skill://greet/a","digest":"` + offer.Digest(nil) + `","size":"1"}`),
		"a huge size":           with(`{"uri":"skill://greet/a","digest":"` + offer.Digest(nil) + `","size":1e300}`),
		"too large":             with(resource("skill://greet/a", offer.MaxBytes, "a")),
		"another hash":          with(`{"uri":"skill://greet/a","digest":"md5:0","size":1}`),
		"upper case": with(`{"uri":"skill://greet/a","digest":"` + strings.ToUpper(offer.Digest(nil)) +
			`","size":1}`),
		"too many": with(strings.TrimSuffix(strings.Repeat(main+",", offer.MaxFiles), ",")),
	} {
		if o := parse(t, entry); o.Err == nil {
			t.Errorf("%s: %+v", what, o)
		}
	}
	// The entry says less than the file.
	o := parse(t, good(uri, `{"name":"greet","description":"Greets"}`, "["+main+"]"))
	if err := o.CheckMain([]byte(text)); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
}

// TestTooLarge: a skill that clients need not accept isn't offered.
func TestTooLarge(t *testing.T) {
	parsed, err := skill.ParseText(skill.Main, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	files := []skill.File{{Path: "a", Bytes: make([]byte, offer.MaxBytes)}, {Path: skill.Main, Bytes: []byte(text)}}
	if _, err := offer.New("skills/greet", parsed, files); fault.CodeOf(err) != fault.Limit {
		t.Error(err)
	}
	if _, err := offer.New("skills/greet", parsed, make([]skill.File, offer.MaxFiles+1)); fault.CodeOf(err) !=
		fault.Limit {
		t.Error(err)
	}
}
