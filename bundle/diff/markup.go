package diff

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/shape"
)

// markup compares the content of a directive's elements that its model doesn't cover. Attributes and elements
// without a name of their own are named by their position, as in "metadata/owner@team".
func (x *Item) markup(a, b *model.Model) {
	if a.Directive == nil || b.Directive == nil {
		return
	}
	was, is := content(a), content(b)
	if was == is || strings.Contains(a.Body, was) && strings.Contains(b.Body, is) {
		return // then the text is compared
	}
	from, to := unnamed(was, a), unnamed(is, b)
	for name := range to {
		if _, ok := from[name]; !ok {
			from[name] = "" // so that one list has all names
		}
	}
	for name, was := range from {
		if was != to[name] {
			x.Fields = append(x.Fields, Field{name, text(was), text(to[name]), shape.Warning})
		}
	}
}

func content(m *model.Model) string { return m.Fields.Get("content").String() }

// readElsewhere are the elements that a directive's model covers completely, with their attributes.
const readElsewhere = " inputs outputs hooks metadata/model metadata/model_class metadata/limits " +
	"metadata/permissions metadata/hooks "

// unnamed lists the texts and attributes of elements by their path, without those that the model covers.
func unnamed(content string, model *model.Model) map[string]string {
	all := map[string]string{}
	decoder := xml.NewDecoder(strings.NewReader(content))
	decoder.Strict = false
	var path []string          // from below the root
	counts := map[string]int{} // of elements by path
	skipped, depth := 0, 0     // skipped is the depth of the element being skipped
	add := func(name, s string) {
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			all[name] = strings.TrimSpace(all[name] + " " + s)
		}
	}
	for {
		t, err := decoder.RawToken()
		if err != nil {
			return all // the end; invalid markup is reported as a problem of the item
		}
		at := strings.Join(path, "/")
		switch startElement := t.(type) {
		case xml.StartElement:
			if depth++; depth == 1 || skipped > 0 {
				continue
			}
			name := strings.TrimPrefix(at+"/"+startElement.Name.Local, "/")
			if in(readElsewhere, name) {
				skipped = depth
				continue
			}
			last := startElement.Name.Local
			if counts[name]++; counts[name] > 1 {
				last += fmt.Sprintf("[%d]", counts[name])
			}
			path = append(path, last)
			for _, a := range startElement.Attr {
				add(strings.Join(path, "/")+"@"+a.Name.Local, a.Value)
			}
		case xml.EndElement:
			switch {
			case skipped == depth:
				skipped = 0
			case skipped == 0 && len(path) > 0:
				path = path[:len(path)-1]
			}
			depth--
		case xml.CharData:
			field := strings.TrimPrefix(at, "metadata/")
			if skipped == 0 && at != "" && at != "description" && (field == at || model.Fields.Get(field) == nil) {
				add(at, string(startElement))
			}
		}
	}
}
