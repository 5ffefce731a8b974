package yamltree

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cas/suggest"
)

// The methods below read fields of a node.

// Fields returns an error for any entry of n except these.
func (n *Node) Fields(known ...string) error {
	if n.Shape != Mapping {
		return n.Errorf("expected fields, as in {%s: …}", known[0])
	}
	for _, kid := range n.Kids {
		if !slices.Contains(known, kid.Key) {
			return kid.Errorf("%q is unknown here%s", Clip(kid.Key), Suggest(kid.Key, known))
		}
	}
	return nil
}

// TextOf returns the text of a field, or "" for an absent one.
func (n *Node) TextOf(field string) (string, error) {
	f := n.Get(field)
	switch {
	case f == nil:
		return "", nil
	case f.Shape != Scalar:
		return "", f.Errorf("expected a text after %q", field)
	case f.Text == "":
		return "", f.Errorf("%q is empty", field)
	}
	return f.Text, nil
}

// Need is TextOf for a required field.
func (n *Node) Need(field string) (string, error) {
	if n.Get(field) == nil {
		return "", n.Errorf("%q has no field %q", Clip(n.Key), field)
	}
	return n.TextOf(field)
}

// Choice returns the text of a field, which must be one of the words, or "" for an absent field.
func (n *Node) Choice(field string, words ...string) (string, error) {
	text, err := n.TextOf(field)
	if err == nil && text != "" && !slices.Contains(words, text) {
		err = n.Get(field).Errorf("%q is not one of %s%s", Clip(text), strings.Join(words, ", "), Suggest(text, words))
	}
	return text, err
}

// Words returns the list in a field, or nil for an absent one.
func (n *Node) Words(field string) ([]string, error) {
	f := n.Get(field)
	if f == nil {
		return nil, nil
	}
	return f.ItemWords()
}

// ItemWords returns the words of a list, which may not have duplicates.
func (n *Node) ItemWords() ([]string, error) {
	if n.Shape != List {
		return nil, n.Errorf("expected a list, as in [a, b]")
	}
	words := make([]string, 0, len(n.Kids))
	seen := make(map[string]bool, len(n.Kids))
	for _, kid := range n.Kids {
		if kid.Text == "" || strings.Contains(kid.Text, " ") {
			return nil, kid.Errorf("%q is not one word", Clip(kid.Text))
		}
		if seen[kid.Text] {
			return nil, kid.Errorf("%q stands here a second time", Clip(kid.Text))
		}
		seen[kid.Text] = true
		words = append(words, kid.Text)
	}
	return words, nil
}

const maxWord = 64

const (
	dayForm  = time.DateOnly
	timeForm = "2006-01-02T15:04:05Z"
)

// Date reads a day, meaning its first moment, or a second, both in UTC.
func (n *Node) Date(field string) (time.Time, error) {
	text, err := n.TextOf(field)
	if err != nil || text == "" {
		return time.Time{}, err
	}
	for _, form := range []string{dayForm, timeForm} {
		// The zero time means no date.
		if t, err := time.Parse(form, text); err == nil && t.Format(form) == text && t.Year() >= 1970 {
			return t, nil
		}
	}
	return time.Time{}, n.Get(field).Errorf("expected a day such as %q or a time such as %q", "2027-01-31",
		"2027-01-31T18:00:00Z")
}

// DateText writes what Date reads.
func DateText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if t = t.UTC().Truncate(time.Second); t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format(dayForm)
	}
	return t.Format(timeForm)
}

// CheckWord returns an error for a name that would need quotes where it is shown or typed.
func (n *Node) CheckWord(s, what string) error {
	if !portable.Spelled(s, portable.Letters+portable.Digits, "._-", maxWord) {
		return n.Errorf("%q can't be %s: expected letters, digits, . _ -, at most %d", Clip(s), what, maxWord)
	}
	return nil
}

// Suggest returns a suggestion of the known word that resembles a mistyped one most, or "" if none does.
func Suggest(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := suggest.Distance([]byte(word), []byte(k), 2); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + strconv.Quote(best) + "?"
}

// Age reads a number of hours or days, at least one and at most most.
func (n *Node) Age(field string, most time.Duration) (time.Duration, error) {
	text, err := n.Need(field)
	if err != nil {
		return 0, err
	}
	unit := 24 * time.Hour
	number, ok := strings.CutSuffix(text, "d")
	if !ok {
		unit = time.Hour
		number, ok = strings.CutSuffix(text, "h")
	}
	v, err := strconv.Atoi(number)
	if !ok || err != nil || !IsNumber(number) || v < 1 || v > int(most/unit) {
		return 0, n.Get(field).Errorf("expected a number of days or hours, such as 7d or 36h")
	}
	return time.Duration(v) * unit, nil
}

// AgeText writes what Age reads.
func AgeText(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return fmt.Sprintf("%dh", d/time.Hour)
}
