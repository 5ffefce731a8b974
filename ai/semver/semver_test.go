package semver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

func parse(t testing.TB, text string) semver.Range {
	t.Helper()
	r, err := semver.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each row: a range, its least version, versions in it, versions not in it.
func TestRanges(t *testing.T) {
	for _, row := range []struct{ text, lower, in, out string }{
		{"^1.2.3", "1.2.3", "1.2.3 1.2.4 1.10.0 1.99.99 1.2.3+b", "1.2.2 2.0.0 0.9.9 2.0.0-0 1.2.4-a 1.2.3-a"},
		{"^1.2", "1.2.0", "1.2.0 1.9.0", "1.1.9 2.0.0 2.0.0-alpha"},
		{"^1", "1.0.0", "1.0.0 1.9.0", "0.9.9 2.0.0"},
		{"^0.2.3", "0.2.3", "0.2.3 0.2.9", "0.2.2 0.3.0 1.0.0"},
		{"^0.2", "0.2.0", "0.2.0 0.2.9", "0.1.9 0.3.0"},
		{"^0.0.3", "0.0.3", "0.0.3 0.0.3+x", "0.0.2 0.0.4 0.0.3-a 0.0.4-0"},
		{"^0.0", "0.0.0", "0.0.0 0.0.9", "0.1.0 0.0.0-0"},
		{"^0", "0.0.0", "0.0.0 0.9.9", "1.0.0 1.0.0-rc"},
		{"^0.0.0", "0.0.0", "0.0.0", "0.0.1"},
		{"^1.2.3-beta.2", "1.2.3-beta.2", "1.2.3-beta.2 1.2.3-beta.4 1.2.3-rc 1.2.3 1.9.0",
			"1.2.3-beta.1 1.2.3-alpha 1.4.0-beta.4 2.0.0-beta.2 2.0.0"},
		{"^0.0.3-beta", "0.0.3-beta", "0.0.3-pr 0.0.3", "0.0.3-alpha 0.0.4"},
		{"~1.2.3", "1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0 1.3.0-0"},
		{"~1.2", "1.2.0", "1.2.0 1.2.9", "1.1.9 1.3.0"},
		{"~1", "1.0.0", "1.0.0 1.9.9", "0.9.9 2.0.0"},
		{"~0", "0.0.0", "0.0.0 0.9.9", "1.0.0"},
		{"~0.2.3", "0.2.3", "0.2.3", "0.3.0"},
		{"~1.2.3-beta.2", "1.2.3-beta.2", "1.2.3-beta.4 1.2.4", "1.2.4-beta.2 1.3.0-beta"},
		{">1.2.3", "1.2.4", "1.2.4 3.0.0", "1.2.3 1.2.4-a"},
		{">1.2", "1.3.0", "1.3.0", "1.2.9 1.2.0"},
		{">1", "2.0.0", "2.0.0", "1.9.9"},
		{">1.2.3-rc", "1.2.3-rc.0", "1.2.3-rc.0 1.2.3-rc.1 1.2.3-sc 1.2.3 9.0.0", "1.2.3-rc 1.2.3-a 1.2.4-sc"},
		{">=1.2", "1.2.0", "1.2.0 8.0.0", "1.1.9"},
		{">=0.0.0", "0.0.0", "0.0.0 1.0.0", "0.0.0-0"},
		{">=0.0.0-0", "0.0.0-0", "0.0.0 1.0.0 0.0.0-0 0.0.0-a", "1.0.0-a"},
		{"<1.2.3", "0.0.0", "0.0.0 1.2.2", "1.2.3 1.2.3-a 1.0.0-a"},
		{"<1.2", "0.0.0", "1.1.9", "1.2.0"},
		{"<1", "0.0.0", "0.9.9", "1.0.0"},
		{"<2.0.0-rc.1", "0.0.0", "1.9.9 2.0.0-rc.0 2.0.0-alpha 2.0.0-0", "2.0.0-rc.1 2.0.0 1.9.9-a"},
		{"<=1.2.3", "0.0.0", "1.2.3", "1.2.4"},
		{"<=1.2", "0.0.0", "1.2.9", "1.3.0"},
		{"<=1", "0.0.0", "1.9.9", "2.0.0"},
		{"<=2.0.0-rc.1", "0.0.0", "2.0.0-rc.1 1.0.0", "2.0.0-rc.1.0 2.0.0-rc.2 2.0.0"},
		{"=1.2.3", "1.2.3", "1.2.3 1.2.3+build.5", "1.2.4 1.2.3-a 1.2.4-0"},
		{"=1.2", "1.2.0", "1.2.0 1.2.9", "1.3.0 1.1.0"},
		{"=1", "1.0.0", "1.2.0", "2.0.0"},
		{"=1.2.3-rc.1", "1.2.3-rc.1", "1.2.3-rc.1 1.2.3-rc.1+x", "1.2.3-rc.1.0 1.2.3-rc.2 1.2.3"},
		{"1.x", "1.0.0", "1.0.0 1.5.5", "2.0.0 0.9.9 1.5.5-a"},
		{"1.X.*", "1.0.0", "1.0.0", "2.0.0"},
		{"1.2.*", "1.2.0", "1.2.9", "1.3.0"},
		{"*", "0.0.0", "0.0.0 1.0.0 99999999999999999999.0.0", "1.0.0-a 0.0.0-0"},
		{"1.2.3 - 2.0", "1.2.3", "1.2.3 2.0.9", "1.2.2 2.1.0"},
		{"1.2.3 - 2.0.3", "1.2.3", "2.0.3", "2.0.4"},
		{"1.2 - 2", "1.2.0", "1.2.0 2.9.9", "3.0.0"},
		{"1.x - 2.x", "1.0.0", "1.0.0 2.9.9", "3.0.0"},
		{"1.2.3-a - 1.2.3", "1.2.3-a", "1.2.3-b 1.2.3", "1.2.3-0"},
		{"  1.2.3   -   2.0  ", "1.2.3", "1.2.3", "2.1.0"},
		{">=1.0 <2", "1.0.0", "1.0.0 1.9.9", "2.0.0 2.0.0-a"},
		{">=1.0,<2", "1.0.0", "1.0.0", "2.0.0"},
		{" >= 1.0 , < 2 ", "1.0.0", "1.0.0", "2.0.0"},
		{">=2.0.0-alpha <2.0.0", "2.0.0-alpha", "2.0.0-alpha 2.0.0-rc", "2.0.0 2.0.0-0 1.9.9"},
		{">=2.0.0-0 <2.0.0", "2.0.0-0", "2.0.0-0 2.0.0-rc", "2.0.0"},
		{">=1.2.0-alpha <1.2", "", "", "1.2.0-beta 1.2.0 1.1.0"},
		{">1.2.3 <1.2.4-beta", "1.2.4-0", "1.2.4-alpha", "1.2.3 1.2.4 1.2.4-beta"},
		{"^1.2 || ^2.1", "1.2.0", "1.2.0 2.1.0", "2.0.0 3.0.0 1.1.9"},
		{"^2.1||^1.2", "1.2.0", "1.2.0", "2.0.0"},
		{"^1 || ^2", "1.0.0", "1.9.9 2.0.0", "2.0.0-a"},
		{"=1.2.3 || =1.2.4", "1.2.3", "1.2.4", "1.2.5"},
		{"^1 || =1.5.0-a", "1.0.0", "1.5.0-a 1.5.0", "1.5.0-b"},
		{"^1.0 || ^1.5.0-a", "1.0.0", "1.5.0-b 1.0.0", "1.5.0-0 1.6.0-b"},
		{"=1.5.0-a || ^1.6", "1.5.0-a", "1.5.0-a", "1.5.0"},
		{">=1.0.0-a <1.0.0-c || >=1.0.0-b <2", "1.0.0-a", "1.0.0-b", "1.0.0-0"},
		{"<1.0.0 || <1.0.0-b || >=1.0.0-b <1.0.0", "0.0.0", "1.0.0-x", "1.0.0"},
		{">=1.0.0-a <2.0.0-a || =3.0.0", "1.0.0-a", "2.0.0-0 1.0.0-b 3.0.0", "2.0.0-b"},
		{">2 <1", "", "", "1.0.0 2.0.0 0.0.0"},
		{"<0.0.0", "", "", "0.0.0 0.0.0-a"},
		{"^1 || <0.0.0", "1.0.0", "1.0.0", ""},
		{"^9007199254740990", "9007199254740990.0.0", "9007199254740990.7.0", "9007199254740991.0.0"},
	} {
		t.Run(row.text, func(t *testing.T) {
			r := parse(t, row.text)
			if got := r.String(); got != row.text {
				t.Errorf("text %q", got)
			}
			low, ok := r.Lower()
			if low != row.lower || ok == r.Empty() || ok != (low != "") || ok && !r.Contains(low) {
				t.Errorf("lower %q, %v, empty %v; want %q", low, ok, r.Empty(), row.lower)
			}
			for _, v := range strings.Fields(row.in) {
				if !r.Contains(v) {
					t.Errorf("%s is not in", v)
				}
			}
			for _, v := range strings.Fields(row.out) {
				if r.Contains(v) {
					t.Errorf("%s is in", v)
				}
			}
		})
	}
}

// What is no version is in no range, not even in that of everything.
func TestNoVersion(t *testing.T) {
	for _, v := range []string{"", "1", "1.2", "v1.2.3", "1.2.3 ", "01.2.3", "1.2.3-01", "1.2.3-", "latest",
		"1.2.3\x00"} {
		if parse(t, "*").Contains(v) {
			t.Errorf("%q is in", v)
		}
	}
	var zero semver.Range
	if !zero.Empty() || zero.Contains("1.0.0") {
		t.Error("the zero range is not empty")
	}
}

func TestErrors(t *testing.T) {
	long := strings.Repeat("a", 93)
	for _, row := range []struct{ text, want string }{
		{"", `byte 0: expected a version`},
		{"  ", `byte 2: expected a version`},
		{"1.2.3", `byte 0: a version alone has two meanings: write =1.2.3 or ^1.2.3`},
		{"^1 1.2", `byte 3: a version alone has two meanings: write =1.2 or ^1.2`},
		{"^1 ||", `byte 5: expected a version`},
		{"|| ^1", `byte 0: expected a version`},
		{"^1 || || ^2", `byte 6: expected a version`},
		{"^1 | ^2", `byte 3: expected a version`},
		{"^1|^2", `byte 2: expected a version`},
		{"^1,", `byte 3: expected a version`},
		{",^1", `byte 0: expected a version`},
		{"^1,,<2", `byte 3: expected a version`},
		{"^", `byte 1: expected a version`},
		{">= ", `byte 3: expected a version`},
		{"=>1", `byte 1: expected a number, found ">1"`},
		{"~>1", `byte 1: expected a number, found ">1"`},
		{"^^1", `byte 1: expected a number, found "^1"`},
		{"!=1.0.0", `byte 0: expected a number, found "!=1"`},
		{"^1<2", `byte 1: expected a number, found "1<2"`},
		{"^v1.2.3", `byte 1: expected a number, found "v1"`},
		{"latest", `byte 0: expected a number, found "latest"`},
		{"^1.2.3.4", `byte 7: more than three numbers`},
		{"^1..2", `byte 3: expected a number, found ""`},
		{"^1.", `byte 3: expected a number, found ""`},
		{"^01", `byte 1: a number that begins with 0`},
		{"^1.02", `byte 3: a number that begins with 0`},
		{"^-1", `byte 1: expected a number, found ""`},
		{"^1.2.3-", `byte 6: the pre-release is invalid by semver 2.0, or longer than 100 bytes`},
		{"^1.2.3-01", `byte 6: the pre-release is invalid by semver 2.0, or longer than 100 bytes`},
		{"^1.2.3-a..b", `byte 6: the pre-release is invalid by semver 2.0, or longer than 100 bytes`},
		{"^1.2.3-ü", `byte 6: the pre-release is invalid by semver 2.0, or longer than 100 bytes`},
		{"^1.2-a", `byte 4: a pre-release after fewer than three numbers`},
		{"1.2.x-a", `byte 5: a pre-release after fewer than three numbers`},
		{"=1.2.3+b", `byte 6: remove the build metadata: they don't order versions`},
		{"^9007199254740992", `byte 1: the number is beyond 2^53-1`},
		{"^99999999999999999999999", `byte 1: the number is beyond 2^53-1`},
		{"^9007199254740991", `byte 1: the number is beyond 2^53-1`},
		{"1.0 - 9007199254740991", `byte 6: the number is beyond 2^53-1`},
		{"=1.2.3-" + long, `byte 1: the pre-release is too long`},
		{"^1.x", `byte 0: an operator before a wildcard`},
		{">=*", `byte 2: expected a number, found "*"`},
		{"x", `byte 0: expected a number, found "x"`},
		{"1.x.3", `byte 4: expected a wildcard after a wildcard`},
		{"* ^1", `byte 2: expected "||" or the end`},
		{"^1 *", `byte 3: expected a number, found "*"`},
		{"1.0 - 2.0 ^1", `byte 10: expected "||" or the end`},
		{"1.0 - 2.0 - 3.0", `byte 10: expected "||" or the end`},
		{"1.0 -", `byte 0: a version alone has two meanings: write =1.0 or ^1.0`},
		{"1.0 - ", `byte 6: expected a version`},
		{" - 1.0", `byte 1: expected a number, found ""`},
		{"a - 1.0", `byte 0: expected a number, found "a"`},
		{">=1.0 - 2.0", `byte 0: expected a number, found ">=1"`},
		{"^1\t<2", `byte 1: expected a number, found "1\t<2"`},
		{"^1\n", `byte 1: expected a number, found "1\n"`},
		{"^\xff", `byte 1: expected a number, found "\xff"`},
	} {
		r, err := semver.Parse(row.text)
		if fault.CodeOf(err) != fault.Validation || !r.Empty() {
			t.Errorf("%q: %v, %v", row.text, r, err)
			continue
		}
		if text := fmt.Sprintf("version range %+q, ", clip(row.text)) + row.want; err.Error() != text {
			t.Errorf("%q:\ngot  %s\nwant %s", row.text, err, text)
		}
	}
	r, err := semver.Parse(strings.Repeat("^1 ", 400))
	if err == nil || !strings.HasSuffix(err.Error(), ": longer than 1000 bytes") || !r.Empty() {
		t.Error(err)
	}
}

func clip(s string) string { return s[:min(len(s), 100)] }

// universe is many versions around those that the generators below name.
var universe = func() (all []string) {
	for _, a := range "0123" {
		for _, b := range "0123" {
			for _, c := range "0123" {
				v := string([]rune{a, '.', b, '.', c})
				all = append(all, v)
				for _, pre := range []string{"0", "0.0", "1", "1.0", "a", "a.0", "a.0.0", "a.1", "a.1.0", "a.a", "b",
					"b.0", "b.a"} {
					all = append(all, v+"-"+pre)
				}
			}
		}
	}
	return all
}()

// A model is a range in the words of npm: each alternative a list of simple comparators; the last may be
// those of npm's "-0" bounds.
type comparator struct{ op, version string }

func (c comparator) allows(v string) bool {
	switch d := manifest.CompareVersions(v, c.version); c.op {
	case "<":
		return d < 0
	case "<=":
		return d <= 0
	case ">":
		return d > 0
	case ">=":
		return d >= 0
	default:
		return d == 0
	}
}

func modelContains(alternatives [][]comparator, v string) bool {
	core, _, pre := strings.Cut(v, "-")
	return slices.ContainsFunc(alternatives, func(all []comparator) bool {
		named := !pre
		for _, c := range all {
			if !c.allows(v) {
				return false
			}
			named = named || strings.HasPrefix(c.version, core+"-")
		}
		return named
	})
}

func randomVersion(rnd *rand.Rand) string {
	v := fmt.Sprintf("%d.%d.%d", rnd.IntN(3), rnd.IntN(3), rnd.IntN(3))
	if rnd.IntN(2) == 0 {
		v += "-" + []string{"0", "1", "a", "a.0", "a.1", "b"}[rnd.IntN(6)]
	}
	return v
}

// randomRange returns a text and the same range as a model.
func randomRange(rnd *rand.Rand) (string, [][]comparator) {
	var texts []string
	var model [][]comparator
	for range 1 + rnd.IntN(3) {
		var text []string
		var all []comparator
		for range 1 + rnd.IntN(3) {
			v := randomVersion(rnd)
			core, _, _ := strings.Cut(v, "-")
			var a, b, c int
			fmt.Sscanf(core, "%d.%d.%d", &a, &b, &c)
			switch op := []string{"<", "<=", ">", ">=", "=", "~", "^"}[rnd.IntN(7)]; op {
			case "~":
				text = append(text, op+v)
				all = append(all, comparator{">=", v}, comparator{"<", fmt.Sprintf("%d.%d.0-0", a, b+1)})
			case "^":
				upper := fmt.Sprintf("%d.0.0-0", a+1)
				if a == 0 {
					upper = fmt.Sprintf("0.%d.0-0", b+1)
					if b == 0 {
						upper = fmt.Sprintf("0.0.%d-0", c+1)
					}
				}
				text = append(text, op+v)
				all = append(all, comparator{">=", v}, comparator{"<", upper})
			default:
				text = append(text, op+v)
				all = append(all, comparator{op, v})
			}
		}
		texts = append(texts, strings.Join(text, " "))
		model = append(model, all)
	}
	return strings.Join(texts, " || "), model
}

// A range allows what npm's algorithm allows.
func TestAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		text, model := randomRange(rnd)
		r := parse(t, text)
		low, ok := r.Lower()
		if ok && !r.Contains(low) {
			t.Fatalf("%s doesn't contain its least version %s", r, low)
		}
		for _, v := range universe {
			want := modelContains(model, v)
			if r.Contains(v) != want {
				t.Fatalf("%s contains %s: %v, want %v", r, v, !want, want)
			}
			if want && (!ok || manifest.CompareVersions(v, low) < 0) {
				t.Fatalf("%s: %s is below %s", r, v, low)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"^1.2", "~1.2.3", ">=1.0 <2", "1.x", "=1.2.3", "1.2.3 - 2.0", "^1 || ^2.0.0-a", "*",
		"<0.0.0-0",
		">1.2.3-rc <=1.2.3-rc.5, >=0.0.0", "", "1", "||", "^9007199254740991", "=1.2.3-" + strings.Repeat("9", 92)} {
		f.Add(s, "1.2.3-rc.1")
	}
	f.Fuzz(func(t *testing.T, text, version string) {
		r, err := semver.Parse(text)
		if err != nil {
			if at, ok := fault.Of(err).Details["offset"].(int); !ok || at < 0 || at > len(text) || !r.Empty() {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		low, ok := r.Lower()
		if ok == r.Empty() || ok && !r.Contains(low) {
			t.Fatalf("%q: least %q", text, low)
		}
		// Of what is below the least version nothing is in.
		if manifest.CheckVersion(version) == nil && manifest.CompareVersions(version, low) < 0 && ok &&
			r.Contains(version) {
			t.Fatalf("%q: %q is below %q", text, version, low)
		}
	})
}
