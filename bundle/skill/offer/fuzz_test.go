package offer_test

import (
	"testing"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/jcs"
)

// FuzzParse: an entry that is accepted has the rules of a skill, whatever a server sends.
func FuzzParse(f *testing.F) {
	main := resource("skill://greet/SKILL.md", int64(len(text)), text)
	front := `{"name":"greet","description":"Greets"}`
	for _, entry := range []string{
		good("skill://greet/SKILL.md", front, "["+main+"]"),
		good("github://a/b/greet/SKILL.md", front, "["+resource("github://a/b/greet/SKILL.md", 1, "a")+"]"),
		good("skill://greet/SKILL.md", front, "["+main+","+resource("skill://greet/a%20b/%C3%BC", 1, "a")+"]"),
		good("skill://greet/SKILL.md", front, `"dynamic"`), `{"uri":"skill://greet/SKILL.md"}`, `[]`,
	} {
		f.Add([]byte(entry))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := jcs.Parse(b)
		if err != nil {
			return
		}
		o := offer.Parse(v)
		if o.Err != nil {
			return
		}
		total, main := int64(0), false
		for _, file := range o.Files {
			if err := portable.Check(file.Path); err != nil || file.Size < 0 {
				t.Errorf("%+v: %v", file, err)
			}
			total += file.Size
			main = main || file.Path == skill.Main
		}
		if !main || total > offer.MaxBytes || len(o.Files) > offer.MaxFiles || !skill.IsName(o.Name) {
			t.Errorf("%+v", o)
		}
	})
}
