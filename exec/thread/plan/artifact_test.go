package plan_test

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/manifest/jcs"
)

type object = map[string]any

// texts are of one, two, three and four bytes a character, and of what JSON escapes.
var texts = map[string]string{
	"ascii":    strings.Repeat("0123456789", 5000),
	"wide":     strings.Repeat("aä€😀", 3000),
	"quotes":   strings.Repeat(`{"a":"\\\""}`, 3000),
	"controls": strings.Repeat("\x00\x1f\n", 9000),
	"short":    "äö",
	"empty":    "",
}

// TestPages: who follows "next" from the beginning has read the whole text, and no page is so large that it would be
// an artifact.
func TestPages(t *testing.T) {
	for name, text := range texts {
		var s plan.Artifacts
		ref := s.Keep(text)
		if want := cas.Sum([]byte(text)).String(); ref != want || s.Text(ref) != text {
			t.Errorf("%s is called %s, not %s", name, ref, want)
		}
		for _, limit := range []any{nil, 1.0, 3.0, int64(1000), 1e6, 1e300, 0.0, -1.0, "many"} {
			var all strings.Builder
			given := object{"ref": ref, "limit": limit}
			for pages := 0; ; pages++ {
				page, err := s.Read(given)
				if err != nil {
					t.Fatal(err)
				}
				b, err := jcs.Append(nil, page)
				if err != nil || len(b) > 16<<10 || page["size"] != len(text) || page["offset"] != all.Len() ||
					page["ref"] != ref {
					t.Fatalf("%s by %v: %d bytes, %v: %v", name, limit, len(b), err, page)
				}
				all.WriteString(page["text"].(string))
				next, more := page["next"].(int)
				if !more {
					break
				}
				if next != all.Len() || pages > len(text) {
					t.Fatalf("%s by %v: %d follows %d", name, limit, next, all.Len())
				}
				given["offset"] = int64(next)
			}
			if all.String() != text {
				t.Errorf("%s by %v: read %d bytes of %d", name, limit, all.Len(), len(text))
			}
		}
	}
}

// TestOffsets: wherever a model begins to read, it gets whole characters, and where they stand.
func TestOffsets(t *testing.T) {
	var s plan.Artifacts
	ref := s.Keep("aä€😀b")
	for _, c := range []struct {
		offset any
		at     int
		text   string
	}{
		{nil, 0, "aä€😀b"}, {"1", 0, "aä€😀b"}, {-7.0, 0, "aä€😀b"}, {-1e300, 0, "aä€😀b"}, {1.0, 1, "ä€😀b"},
		{2.0, 3, "€😀b"}, {4.0, 6, "😀b"}, {7.0, 10, "b"},
		{10.9, 10, "b"}, {int64(11), 11, ""}, {99.0, 11, ""}, {1e300, 11, ""},
	} {
		page, err := s.Read(object{"ref": ref, "offset": c.offset})
		if err != nil || page["offset"] != c.at || page["text"] != c.text {
			t.Errorf("from %v: %v, %v", c.offset, page, err)
		}
	}
}

// TestMissing: a reference to nothing, or to what was cut or isn't text, is not found. A model may write anything.
func TestMissing(t *testing.T) {
	var s plan.Artifacts
	if s.Text("blake3:00") != "" {
		t.Error("the zero store has a text")
	}
	ref := s.Keep("text")
	for _, given := range []object{nil, {}, {"ref": nil}, {"ref": 7.0}, {"ref": ref[:70]},
		{"ref": strings.ToUpper(ref)}, {"ref": object{"ref": ref}}} {
		if page, err := s.Read(given); fault.CodeOf(err) != fault.NotFound || page != nil {
			t.Errorf("%v: %v, %v", given, page, err)
		}
	}
}

// TestStores: an artifact is that of one thread, and many calls of it may keep and read at once.
func TestStores(t *testing.T) {
	var s, other plan.Artifacts
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			text := strings.Repeat("x", i)
			ref := s.Keep(text)
			if page, err := s.Read(object{"ref": ref}); err != nil || page["text"] != text || s.Text(ref) != text {
				t.Error(page, err)
			}
			if _, err := other.Read(object{"ref": ref}); fault.CodeOf(err) != fault.NotFound {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestEnd(t *testing.T) {
	for limit, want := range map[int]string{-1: "", 0: "", 1: "b", 4: "b", 5: "😀b", 7: "😀b", 8: "€😀b", 11: "aä€😀b",
		99: "aä€😀b"} {
		if got := plan.Tail("aä€😀b", limit); got != want {
			t.Errorf("%d: %q", limit, got)
		}
	}
}

// FuzzPage: a page is a part of the text as it stands there, of whole characters, within its limit as JSON, and never
// empty where there is more.
func FuzzPage(f *testing.F) {
	for _, text := range texts {
		f.Add(text[:min(len(text), 64)], 3, 10)
	}
	f.Add("\x80\x80", 0, 1)
	f.Add("", -40, 92)
	f.Fuzz(func(t *testing.T, text string, offset, limit int) {
		page := plan.Page(text, offset, limit)
		if !strings.Contains(text, page) || page == "" && max(offset, 0) < len(text) && utf8.ValidString(text) &&
			utf8.RuneStart((text + "x")[max(offset, 0)]) {
			t.Fatalf("%q of %q", page, text)
		}
		if !utf8.ValidString(text) {
			return
		}
		b, err := jcs.Append(nil, page)
		if err != nil || !utf8.ValidString(page) {
			t.Fatalf("%q: %v", page, err)
		}
		if len(b)-2 > limit && utf8.RuneCountInString(page) > 1 {
			t.Fatalf("%q has %d bytes, limit %d", page, len(b)-2, limit)
		}
		if end := plan.Tail(text, limit); !strings.HasSuffix(text, end) || !utf8.ValidString(end) ||
			len(end) > max(limit, 0) {
			t.Fatalf("%q ends in %q", text, end)
		}
	})
}
