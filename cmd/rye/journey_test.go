package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/rye-build/rye/cmd/rye/initcmd"
)

// TestJourneys: every command line of rye in a script journey_*.txtar is in the page of rye docs that the comment
// above it names, so a reader of the pages gets as far as the script.
//
//	# docs: release, with Bob for Ann, 1.5.0 for 1.4.0
//
// holds until the next empty line or the next such comment: the script has Bob where the page has Ann. A page's words
// in capitals, such as DIGITS, and its "…" match any text. The script answers questions by --yes, and leaves out the
// file to which a page's shell writes the output.
func TestJourneys(t *testing.T) {
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]*regexp.Regexp{}
	for _, it := range topics {
		pages[strings.TrimPrefix(it.ID, "rye/")] = shownLines(it.Model.Body)
	}
	scripts, _ := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "journey_*.txtar"))
	more, _ := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "*", "journey_*.txtar"))
	if scripts = append(scripts, more...); len(scripts) == 0 {
		t.Fatal("no journey")
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		page, as := "", strings.NewReplacer()
		for i, line := range strings.Split(string(txtar.Parse(text).Comment), "\n") {
			if marked, ok := strings.CutPrefix(line, "# docs: "); ok {
				page, as = journeyPage(marked)
				if pages[page] == nil {
					t.Errorf("%s:%d: rye docs has no page %q with a command", name, i+1, page)
				}
				continue
			}
			if line == "" {
				page = ""
			}
			command := journeyCommand.FindStringSubmatch(line)
			if command == nil {
				continue
			}
			found++
			for _, args := range shellLines(strings.TrimRight(command[1], " &")) {
				args = slices.DeleteFunc(args, func(word string) bool { return word == "--yes" })
				shown := as.Replace(strings.Join(args, " "))
				if !slices.ContainsFunc(pages[page], func(r *regexp.Regexp) bool { return r.MatchString(shown) }) {
					t.Errorf("%s:%d: the page %q doesn't have %q", name, i+1, page, "rye "+shown)
				}
			}
		}
		if found < 10 {
			t.Errorf("%s: only %d commands", name, found)
		}
	}
}

// journeyCommand is a line of a script that runs rye, and its command line.
var journeyCommand = regexp.MustCompile(`^(?:\[[^]]*\] *)*(?:! |\? )?(?:exec|status \d+) (rye .*)$`)

// journeyPage returns the page of a comment, and what makes the page's words of the script's.
func journeyPage(marked string) (page string, as *strings.Replacer) {
	page, with, _ := strings.Cut(marked, ", with ")
	var pairs []string
	for pair := range strings.SplitSeq(with, ", ") {
		if script, shown, ok := strings.Cut(pair, " for "); ok {
			pairs = append(pairs, script, shown)
		}
	}
	return page, strings.NewReplacer(pairs...)
}

// shownLines returns a pattern for each command line that a page shows, in code and in sentences.
func shownLines(body string) (all []*regexp.Regexp) {
	add := func(line string) {
		for _, args := range shellLines(line) {
			pattern := placeholders.ReplaceAllString(regexp.QuoteMeta(strings.Join(args, " ")), `.+`)
			all = append(all, regexp.MustCompile("^"+pattern+"$"))
		}
	}
	for line := range strings.Lines(body) {
		if code, ok := strings.CutPrefix(line, "$ "); ok {
			add(code)
		}
	}
	for _, span := range shownSpans.FindAllStringSubmatch(body, -1) {
		add(strings.Join(strings.Fields(span[1]), " "))
	}
	return all
}

var (
	shownSpans   = regexp.MustCompile("`(rye\\s[^`]+)`")
	placeholders = regexp.MustCompile(`\b[A-Z][A-Z-]+\b|…`)
)
