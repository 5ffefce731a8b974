package diff

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// sides puts the two texts together again.
func sides(parts []Part) (a, b string) {
	for _, p := range parts {
		if p.Op != Insert {
			a += p.Text
		}
		if p.Op != Delete {
			b += p.Text
		}
	}
	return a, b
}

func show(parts []Part) string {
	var s strings.Builder
	for _, p := range parts {
		switch p.Op {
		case Same:
			s.WriteString(p.Text)
		case Delete:
			s.WriteString("[-" + p.Text + "-]")
		case Insert:
			s.WriteString("{+" + p.Text + "+}")
		case Skip:
			s.WriteString("<…>")
		}
	}
	return s.String()
}

func TestText(t *testing.T) {
	long := strings.Repeat("a line of it\n", 20)
	for _, c := range []struct{ a, b, want string }{
		{"", "", ""},
		{"", "new", "{+new+}"},
		{"old", "", "[-old-]"},
		{"Do it well.", "Do it very well.", "Do it {+very +}well."},
		{"Do it now, please", "Make them go, please", "[-Do it now-]{+Make them go+}, please"},
		{"one two\nthree", "one two three", "one two[-\n-]{+ +}three"},
		{"Größe zählt", "Größe zählte", "Größe [-zählt-]{+zählte+}"},
		{long + "old\n" + long, long + "new\n" + long,
			"<…>a line of it\na line of it\n[-old-]{+new+}\na line of it\n<…>"},
		{long + "x", "y" + long, "[-a-]{+ya+} line of it\na line of it\n<…>a line of it\na line of it\n[-x-]"},
	} {
		text := compareTexts(c.a, c.b)
		if got := show(text.Parts); got != c.want || text.By != "words" {
			t.Errorf("%q, %q: %s %s, want %s", c.a, c.b, text.By, got, c.want)
		}
	}
	// Long lines are cut where a character begins.
	wide := strings.Repeat("ö", 1000)
	text := compareTexts("a."+wide+".b", "x."+wide+".y")
	for _, p := range text.Parts {
		if !utf8.ValidString(p.Text) || p.Op == Same && len(p.Text) > contextBytes {
			t.Errorf("%q", p.Text)
		}
	}
	if _, err := json.Marshal(text); err != nil {
		t.Error(err)
	}
	bad := strings.Repeat("\x80", 3000)
	compareTexts("a"+bad+"b", "c"+bad+"d")
}

// Two texts that have little in common are not compared for hours, and what is said of them is still true.
func TestTextLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int, sep string) string {
		var s strings.Builder
		for range n {
			s.WriteByte(byte('a' + r.IntN(26)))
			s.WriteByte(byte('a' + r.IntN(26)))
			s.WriteString(sep)
		}
		return s.String()
	}
	few := strings.Repeat("one line of many words\n", 20)
	for name, c := range map[string]struct{ a, b, by string }{
		"lines": {few + strings.ReplaceAll(random(3000, " "), "", ""), few + random(3000, " "), "lines"},
		"whole": {few + random(3000, "\n"), few + random(3000, "\n"), "whole"},
		"many": {strings.Repeat("a b ", maxWords/4+1) + "\nx\n", strings.Repeat("a b ", maxWords/4+1) + "\ny\n",
			"lines"},
		"steps": {"b" + strings.Repeat(" a", 100000), strings.Repeat(" a", 100000) + "c" + random(900, " "), "lines"},
	} {
		parts, by := script(c.a, c.b)
		if a, b := sides(parts); a != c.a || b != c.b {
			t.Errorf("%s: the parts are of other texts", name)
		}
		if by != c.by {
			t.Errorf("%s: by %s, want %s", name, by, c.by)
		}
	}
}

// The edits are as few as can be.
func TestMyers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		a, b := make([]int32, r.IntN(12)), make([]int32, r.IntN(12))
		for _, s := range [][]int32{a, b} {
			for i := range s {
				s[i] = r.Int32N(3)
			}
		}
		kept, ok := myers(a, b)
		n, x, y := 0, 0, 0
		for _, k := range kept {
			if k.x < x || k.y < y || k.n < 1 {
				t.Fatalf("%v, %v: %v", a, b, kept)
			}
			for i := range k.n {
				if a[k.x+i] != b[k.y+i] {
					t.Fatalf("%v, %v: %v", a, b, kept)
				}
			}
			n, x, y = n+k.n, k.x+k.n, k.y+k.n
		}
		if want := longest(a, b); !ok || n != want {
			t.Fatalf("%v, %v: %d stay, want %d", a, b, n, want)
		}
	}
}

// longest is the length of a longest common subsequence.
func longest(a, b []int32) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if x == y {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func FuzzText(f *testing.F) {
	f.Add("Do it well.", "Do it very well.")
	f.Add("a\nb\nc", "a\nc\nd")
	f.Add("\xff\x80", "\x80 \n\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		parts, _ := script(a, b)
		if x, y := sides(parts); x != a || y != b {
			t.Fatalf("%q and %q, want %q and %q", x, y, a, b)
		}
		// What is left out is what stays, all of it.
		total, kept := 0, 0
		for _, p := range parts {
			total += len(p.Text)
		}
		for _, p := range shorten(parts) {
			kept += len(p.Text) + p.Bytes
		}
		if kept != total {
			t.Fatalf("%d of %d bytes", kept, total)
		}
	})
}
