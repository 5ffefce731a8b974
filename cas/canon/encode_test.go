package canon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/canon"
)

var sampleSpec = &canon.Spec{
	Format: "sample/1", MaxBytes: 300, MaxEntries: 3,
	Header: []canon.Field{
		{Name: "name", Max: 10},
		{Name: "serial", Type: canon.Int, Max: 99},
		{Name: "tags", Type: canon.Strings, Optional: true, Max: 2},
	},
	Sections: []canon.Section{
		{Name: "items", Fields: []canon.Field{
			{Name: "title"},
			{Name: "count", Type: canon.Int, Optional: true},
			{Name: "labels", Type: canon.Strings, Optional: true},
			{Name: "by", Optional: true, Max: 4},
		}},
		{Name: "lists", Fields: []canon.Field{{Name: "of", Type: canon.Strings}}},
		{Name: "marks"},
	},
}

func head(e *canon.Encoder) {
	e.HeaderStr(0, "demo")
	e.HeaderInt(1, 7)
}

func item(e *canon.Encoder, key, title string) {
	e.Begin(0, key)
	e.Str(0, title)
	e.End()
}

func TestEncoder(t *testing.T) {
	const want = "rye: \"sample/1\"\nname: \"demo\"\nserial: 7\ntags: [\"a\", \"\"]\n" +
		"items:\n  \"a\": {title: \"\", count: 0, labels: [\"x\"], by: \"me\"}\n  \"b\": {title: \"t\"}\nmarks:\n  \"m\": {}\n"
	fill := func(e *canon.Encoder) {
		e.HeaderBytes(0, []byte("demo"))
		e.HeaderInt(1, 7)
		e.HeaderStrs(2, []string{"a", ""})
		e.Begin(0, "a")
		e.Str(0, "")
		e.Int(1, 0)
		e.Strs(2, []string{"x"})
		e.Str(3, "me")
		e.End()
		e.Begin(0, "b")
		e.Str(0, "t")
		e.Strs(2, nil) // says nothing
		e.Str(3, "")   // says nothing
		e.End()
		e.BeginBytes(2, []byte("m"))
		e.End()
	}
	e := canon.NewEncoderBytes([]byte("before|"), sampleSpec)
	fill(e)
	if e.Bytes() != nil {
		t.Error("there are bytes before Close")
	}
	if err := e.Close(); err != nil || string(e.Bytes()) != "before|"+want {
		t.Errorf("got %q, %v", e.Bytes(), err)
	}
	if err := e.Close(); err != nil || string(e.Bytes()) != "before|"+want {
		t.Errorf("closed twice: got %q, %v", e.Bytes(), err)
	}
	e.Begin(2, "z")
	if err := e.Close(); err == nil {
		t.Error("an entry after Close is accepted")
	}
}

// Nothing that a scanner refuses can be written: each case is a document but for one thing.
func TestEncoderRefuses(t *testing.T) {
	for name, f := range map[string]func(e *canon.Encoder){
		"nothing":                     func(e *canon.Encoder) {},
		"missing header":              func(e *canon.Encoder) { e.HeaderStr(0, "demo") },
		"missing header before entry": func(e *canon.Encoder) { e.HeaderStr(0, "demo"); item(e, "a", "t") },
		"skipped header":              func(e *canon.Encoder) { e.HeaderInt(1, 7) },
		"header twice":                func(e *canon.Encoder) { head(e); e.HeaderInt(1, 7) },
		"header back":                 func(e *canon.Encoder) { head(e); e.HeaderStr(0, "x") },
		"header that isn't":           func(e *canon.Encoder) { head(e); e.HeaderStr(3, "x") },
		"header below 0":              func(e *canon.Encoder) { head(e); e.HeaderStr(-1, "x") },
		"header of another type":      func(e *canon.Encoder) { head(e); e.HeaderStr(2, "x") },
		"header in another type":      func(e *canon.Encoder) { e.HeaderInt(0, 1); e.HeaderInt(1, 7) },
		"header after entry": func(e *canon.Encoder) {
			head(e)
			item(e, "a", "t")
			e.HeaderStrs(2, []string{"a"})
		},
		"header too long":   func(e *canon.Encoder) { e.HeaderStr(0, "12345678901"); e.HeaderInt(1, 7) },
		"header too large":  func(e *canon.Encoder) { e.HeaderStr(0, "demo"); e.HeaderInt(1, 100) },
		"header negative":   func(e *canon.Encoder) { e.HeaderStr(0, "demo"); e.HeaderInt(1, -1) },
		"header with many":  func(e *canon.Encoder) { head(e); e.HeaderStrs(2, []string{"a", "b", "c"}) },
		"header not UTF-8":  func(e *canon.Encoder) { e.HeaderStr(0, "\xff"); e.HeaderInt(1, 7) },
		"element not UTF-8": func(e *canon.Encoder) { head(e); e.HeaderStrs(2, []string{"a", "\xff"}) },
		"element too long": func(e *canon.Encoder) {
			head(e)
			e.HeaderStrs(2, []string{strings.Repeat("x", 1001)})
		},
		"key twice":    func(e *canon.Encoder) { head(e); item(e, "a", "t"); item(e, "a", "t") },
		"key unsorted": func(e *canon.Encoder) { head(e); item(e, "b", "t"); item(e, "a", "t") },
		"key unsorted by bytes": func(e *canon.Encoder) {
			head(e)
			item(e, "\U00010000", "t")
			item(e, "\uff00", "t")
		},
		"key empty":             func(e *canon.Encoder) { head(e); item(e, "", "t") },
		"key too long":          func(e *canon.Encoder) { head(e); item(e, strings.Repeat("k", 1001), "t") },
		"key too long, escaped": func(e *canon.Encoder) { head(e); item(e, strings.Repeat("\x01", 167), "t") },
		"key not UTF-8":         func(e *canon.Encoder) { head(e); item(e, "\xff", "t") },
		"key a noncharacter":    func(e *canon.Encoder) { head(e); item(e, "\U0001fffe", "t") },
		"section back":          func(e *canon.Encoder) { head(e); e.Begin(2, "m"); e.End(); item(e, "a", "t") },
		"section that isn't":    func(e *canon.Encoder) { head(e); e.Begin(3, "m"); e.End() },
		"section below 0":       func(e *canon.Encoder) { head(e); e.Begin(-1, "m"); e.End() },
		"entry in entry":        func(e *canon.Encoder) { head(e); e.Begin(0, "a"); e.Str(0, "t"); item(e, "b", "t") },
		"entry open":            func(e *canon.Encoder) { head(e); e.Begin(0, "a"); e.Str(0, "t") },
		"end without begin":     func(e *canon.Encoder) { head(e); e.End() },
		"end first":             func(e *canon.Encoder) { e.End(); head(e) },
		"end twice":             func(e *canon.Encoder) { head(e); item(e, "a", "t"); e.End() },
		"field without begin":   func(e *canon.Encoder) { head(e); e.Str(0, "t") },
		"field missing":         func(e *canon.Encoder) { head(e); e.Begin(0, "a"); e.End() },
		"field skipped":         func(e *canon.Encoder) { head(e); e.Begin(0, "a"); e.Int(1, 1); e.End() },
		"field twice": func(e *canon.Encoder) {
			head(e)
			e.Begin(0, "a")
			e.Str(0, "t")
			e.Str(0, "t")
			e.End()
		},
		"field twice, empty": func(e *canon.Encoder) {
			head(e)
			e.Begin(0, "a")
			e.Str(0, "t")
			e.Str(3, "")
			e.Str(3, "x")
			e.End()
		},
		"field back": func(e *canon.Encoder) {
			head(e)
			e.Begin(0, "a")
			e.Str(0, "t")
			e.Str(3, "x")
			e.Int(1, 1)
			e.End()
		},
		"field that isn't": func(e *canon.Encoder) { head(e); e.Begin(2, "a"); e.Str(0, "t"); e.End() },
		"field of another type": func(e *canon.Encoder) {
			head(e)
			e.Begin(0, "a")
			e.Str(0, "t")
			e.Str(1, "t")
			e.End()
		},
		"field too long": func(e *canon.Encoder) {
			head(e)
			e.Begin(0, "a")
			e.Str(0, "t")
			e.Str(3, "12345")
			e.End()
		},
		"field too long, no Max": func(e *canon.Encoder) { head(e); item(e, "a", strings.Repeat("x", 1001)) },
		"field not UTF-8":        func(e *canon.Encoder) { head(e); item(e, "a", "\xed\xa0\x80") },
		"field negative": func(e *canon.Encoder) {
			head(e)
			e.Begin(0, "a")
			e.Str(0, "t")
			e.Int(1, -1)
			e.End()
		},
		"field 2^53":    func(e *canon.Encoder) { head(e); e.Begin(0, "a"); e.Str(0, "t"); e.Int(1, 1<<53); e.End() },
		"list empty":    func(e *canon.Encoder) { head(e); e.Begin(1, "a"); e.Strs(0, nil); e.End() },
		"list too many": func(e *canon.Encoder) { head(e); e.Begin(1, "a"); e.Strs(0, make([]string, 65)); e.End() },
		"entries too many": func(e *canon.Encoder) {
			head(e)
			for i := range 4 {
				e.Begin(2, fmt.Sprint(i))
				e.End()
			}
		},
		"too big": func(e *canon.Encoder) { head(e); item(e, "a", strings.Repeat("x", 300)) },
	} {
		t.Run(name, func(t *testing.T) {
			e := canon.NewEncoderBytes(nil, sampleSpec)
			f(e)
			err := e.Close()
			if err == nil {
				t.Fatalf("written:\n%s", e.Bytes())
			}
			if !strings.HasPrefix(err.Error(), `encode "sample/1": `) || e.Bytes() != nil {
				t.Errorf("got %v, %q", err, e.Bytes())
			}
			// The first error stays, whatever is called.
			head(e)
			item(e, "zz", "t")
			if again := e.Close(); again != err {
				t.Errorf("asked again: %v, first %v", again, err)
			}
		})
	}
}

func TestEncoderAllocations(t *testing.T) {
	list := []string{"a", "\n", "ü"}
	dst := make([]byte, 0, 64<<10)
	n := testing.AllocsPerRun(5, func() {
		e := canon.NewEncoderBytes(dst, listSpec)
		for i := range 90 {
			e.BeginBytes(0, []byte{'k', byte(i) + 1})
			e.Strs(0, list)
			e.End()
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if n > 2 { // the encoder itself, and the key that the next is compared with
		t.Errorf("%v allocations", n)
	}
}

// TestTake: what is taken away and what is left are the document, which has the same bounds.
func TestTake(t *testing.T) {
	for title, good := range map[string]bool{"t": true, strings.Repeat("t", 60): false} {
		var texts [2]string
		var errs [2]error
		for i := range texts {
			e := canon.NewEncoderBytes(nil, sampleSpec)
			head(e)
			take := func(least int) {
				if i == 1 {
					texts[i] += string(e.Take(least))
				}
			}
			for _, key := range []string{"a", "b", "c"} {
				take(1)
				e.Begin(0, key)
				if i == 1 && e.Take(1) != nil {
					t.Error("half a line")
				}
				e.Str(0, title)
				e.Str(3, title[:1])
				e.End()
				if i == 1 && e.Take(1000) != nil {
					t.Error("less than was asked for")
				}
			}
			if errs[i] = e.Close(); errs[i] == nil {
				texts[i] += string(e.Bytes())
			}
		}
		if (errs[0] == nil) != good || fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) || good &&
			(texts[0] != texts[1] || texts[0] == "") {
			t.Errorf("%q, %q: %v", texts[0], texts[1], errs)
		}
	}
}
