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
	if err != nil || s.Name != "greet" || len(s.Files) != 2 || s.Path != "skill://my%20skills/x_1/greet" {
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
		"a port":                at("skill://x:1/greet/SKILL.md"),
		"a space":               at("skill://a b/greet/SKILL.md"),
		"a letter of another":   at("skill://ü/greet/SKILL.md"),
		"a scheme that is none": at("s_k://x/greet/SKILL.md"),
		"a question mark":       at("skill://a?b/greet/SKILL.md"),
		"an empty segment":      at("skill://a//greet/SKILL.md"),
		"a dot":                 at("skill://a/./greet/SKILL.md"),
		"a query":               good("skill://greet/SKILL.md?x=/greet/SKILL.md", front, "["+main+"]"),
		"dots":                  at("skill://a/../greet/SKILL.md"),
		"hidden dots":           at("skill://a/%2e%2e/greet/SKILL.md"),
		"a slash in a segment":  at("skill://a%2fb/greet/SKILL.md"),
		"an address of bytes":   at("skill://%ff/greet/SKILL.md"),
		"the directory's":       good("skill://x/greet", front, "["+resource("skill://x/greet/SKILL.md", 1, "a")+"]"),
		"a name with capitals":  strings.ReplaceAll(at("skill://Greet/SKILL.md"), `"greet"`, `"Greet"`),
		"long":                  at("skill://" + strings.Repeat("a", 2035) + "/greet/SKILL.md"),
		"no resources":          `{"uri":"skill://greet/SKILL.md","frontmatter":` + front + `}`,
		"dynamic":               good(uri, front, `"dynamic"`),
		"empty":                 good(uri, front, `[]`),
		"without SKILL.md":      good(uri, front, "["+resource("skill://greet/a", 1, "a")+"]"),
		"SKILL.md below":        good(uri, front, "["+resource("skill://greet/x/SKILL.md", 1, "a")+"]"),
		"twice":                 with(main),
		"twice, spelled anew":   with(resource("skill://greet/SKILL%2Emd", 1, "a")),
		"another skill's":       with(resource("skill://greeting/a", 1, "a")),
		"no address":            with(resource("a", 1, "a")),
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
		"upper case":            with(`{"uri":"skill://greet/a","digest":"sha256:` + strings.Repeat("A", 64) + `","size":1}`),
		"a short hash":          with(`{"uri":"skill://greet/a","digest":"sha256:` + strings.Repeat("a", 63) + `","size":1}`),
		"a bare digest":         with(`{"uri":"skill://greet/a","digest":"` + strings.Repeat("a", 64) + `","size":1}`),
		"too many":              with(strings.TrimSuffix(strings.Repeat(main+",", offer.MaxFiles), ",")),
	} {
		if o := parse(t, entry); o.Err == nil {
			t.Errorf("%s: %+v", what, o)
		}
	}
	for what, entry := range map[string]string{
		"as long as may be": at("skill://" + strings.Repeat("a", 2034) + "/greet/SKILL.md"),
		"a tilde":           at("skill://~a/greet/SKILL.md"),
		"an empty file":     with(resource("skill://greet/a", 0, "")),
	} {
		if o := parse(t, entry); o.Err != nil {
			t.Errorf("%s: %v", what, o.Err)
		}
	}
	// The entry says less than the file.
	o := parse(t, good(uri, `{"name":"greet","description":"Greets"}`, "["+main+"]"))
	if err := o.CheckMain([]byte(text)); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	if err := o.CheckMain([]byte("Hi.\n")); err == nil {
		t.Error("accepted a file without front matter")
	}
	if s, err := o.Skill([]skill.File{{Path: "a", Bytes: []byte("x")}}); err == nil {
		t.Errorf("accepted a skill without SKILL.md: %+v", s)
	}
}

// TestLimits: a client takes the largest skill that the extension lets a server offer, and none beyond: a server must
// not decide how much a user downloads. The error says which limit it is.
func TestLimits(t *testing.T) {
	const uri, front = "skill://greet/SKILL.md", `{"name":"greet","description":"Greets"}`
	list := func(size int64, others int) string {
		all := []string{resource(uri, size, text)}
		for i := range others {
			all = append(all, resource(fmt.Sprintf("skill://greet/%d", i), 1, "x"))
		}
		return good(uri, front, "["+strings.Join(all, ",")+"]")
	}
	for what, c := range map[string]struct {
		entry string
		want  fault.Code
	}{
		"as many files as may be": {list(1, offer.MaxFiles-1), ""},
		"one more":                {list(1, offer.MaxFiles), fault.Limit},
		"as many bytes as may be": {list(offer.MaxBytes-1, 1), ""},
		"in one file":             {list(offer.MaxBytes, 0), ""},
		"one byte more":           {list(offer.MaxBytes, 1), fault.Limit},
		"one file of them":        {list(offer.MaxBytes+1, 0), fault.Limit},
	} {
		if o := parse(t, c.entry); (o.Err != nil) != (c.want != "") || o.Err != nil && fault.CodeOf(o.Err) != c.want {
			t.Errorf("%s: %v", what, o.Err)
		}
	}
}

// TestSame: two entries are the same if address, front matter and every file are, in whatever order a server lists
// them. What counts as the same isn't shown to the user as changed.
func TestSame(t *testing.T) {
	const uri, front = "skill://greet/SKILL.md", `{"name":"greet","description":"Greets"}`
	main, a := resource(uri, int64(len(text)), text), resource("skill://greet/A", 1, "a")
	before := parse(t, good(uri, front, "["+main+","+a+"]"))
	for what, c := range map[string]struct {
		entry string
		same  bool
	}{
		"in another order":     {good(uri, front, "["+a+","+main+"]"), true},
		"another front matter": {good(uri, `{"name":"greet","description":"Bows"}`, "["+main+","+a+"]"), false},
		"another file":         {good(uri, front, "["+main+","+resource("skill://greet/A", 1, "b")+"]"), false},
		"a file less":          {good(uri, front, "["+main+"]"), false},
		"another address": {strings.ReplaceAll(good(uri, front, "["+main+","+a+"]"), "skill://greet",
			"skill://x/greet"), false},
	} {
		after := parse(t, c.entry)
		if after.Err != nil {
			t.Fatalf("%s: %v", what, after.Err)
		}
		if before.Same(after) != c.same || after.Same(before) != c.same {
			t.Errorf("%s: %t", what, !c.same)
		}
	}
}

// TestCheck: a file is the listed one only with its size and its digest.
func TestCheck(t *testing.T) {
	for what, c := range map[string]struct {
		size  int64
		bytes string
		whole bool
	}{"the file": {3, "abc", true}, "another of its size": {3, "abd", false}, "a wrong size": {4, "abc", false}} {
		f := offer.File{Path: "a", Resource: offer.Resource{Digest: offer.Digest([]byte("abc")), Size: c.size}}
		if err := f.Check([]byte(c.bytes)); (err == nil) != c.whole || err != nil &&
			fault.CodeOf(err) != fault.Integrity {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTooLarge: a skill that clients need not accept isn't offered, and the largest that they accept is.
func TestTooLarge(t *testing.T) {
	parsed, err := skill.ParseText(skill.Main, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	files := []skill.File{{Path: "a", Bytes: make([]byte, offer.MaxBytes)}, {Path: skill.Main, Bytes: []byte(text)}}
	files[0].Bytes = files[0].Bytes[len(text):]
	if _, err := offer.New("skills/greet", parsed, files); err != nil {
		t.Error(err)
	}
	if _, err := offer.New("skills/greet", parsed, make([]skill.File, offer.MaxFiles)); err != nil {
		t.Error(err)
	}
	files[0].Bytes = append(files[0].Bytes, make([]byte, len(text))...)
	if _, err := offer.New("skills/greet", parsed, files); fault.CodeOf(err) != fault.Limit {
		t.Error(err)
	}
	if _, err := offer.New("skills/greet", parsed, make([]skill.File, offer.MaxFiles+1)); fault.CodeOf(err) !=
		fault.Limit {
		t.Error(err)
	}
}
