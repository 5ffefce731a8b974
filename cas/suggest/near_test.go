package suggest

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		change := 1
		if a[0] == b[0] {
			change = 0
		}
		d := min(slow(a[1:], b)+1, slow(a, b[1:])+1, slow(a[1:], b[1:])+change)
		if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
			d = min(d, slow(a[2:], b[2:])+1)
		}
		return d
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		word := func() string {
			b := make([]byte, r.IntN(7))
			for i := range b {
				b[i] = 'a' + byte(r.IntN(3))
			}
			return string(b)
		}
		a, b := word(), word()
		want := slow(a, b)
		for most := 1; most <= 2; most++ {
			if got := Distance([]rune(a), []rune(b), most); min(got, most+1) != min(want, most+1) {
				t.Errorf("%s %s: %d, not %d", a, b, got, want)
			}
		}
	}
	if d := Distance(make([]rune, 300), make([]rune, 301), 2); d != 1 {
		t.Error("long words:", d)
	}
}

func TestNames(t *testing.T) {
	names := []string{"doctor", "config", "completion", "version", "verify", "store"}
	for word, want := range map[string]string{
		"vresion": "version", "Version": "version", "ver": "verify version", "cofnig": "config", "stroe": "store",
		"x":           "",
		"completions": "completion", "dokter": "doctor", "zzzzzz": "", "verison": "version", "comp": "completion",
	} {
		if got := strings.Join(Names(word, names), " "); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
