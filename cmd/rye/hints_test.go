package main

import (
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas/fault"
)

// shows are the commands that only show something: as hints they name what the refusal is about. A page of docs or
// help is about its topic.
var shows = regexp.MustCompile(`^rye (?:-\S+ (?:\S+ )?)*` +
	`(?:ls|show|search|diff|why|tree|verify|check|doctor|trust (?:check|list)|key list|` +
	`bundle (?:verify|inspect|list|diff)|audit (?:list|verify)|approvals|mcp (?:show|list)|` +
	`thread (?:show|list|logs)|outdated|store (?:fsck|ls)|info|owner (?:publisher )?list|release (?:show|list)|docs|help)\b`)

var (
	// varying are the parts of a message that differ between two runs.
	varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[0-9:]+Z|\d+`)
	named   = regexp.MustCompile(`"([^"]+)"|([\w./-]+-\d{10}-[a-z0-9]{5}\b)|` +
		`\b(?:tool|directive|knowledge|config|bundle|npm|pypi):([\w./@*-]*\w)`)
	// capitals are words that the reader replaces.
	capitals = regexp.MustCompile(`\b[A-Z]{2,}\b`)
)

// outside are hints that no script can follow: they need the history of a repository, a secret that is typed, another
// version of rye, or only show a file.
var outside = regexp.MustCompile(
	`^(?:git |ls |export |USER_SPACE=|rye (?:auth (?:set|login)|version|bundle install)\b)`)

// final are refusals whose hints are right, but change nothing in the script that meets them; with the reason.
var final = map[string]string{
	"rye is offline|--offline":                     "a script reaches no other machine",
	"a person does that":                           "the tool stays refused for a tool",
	"--dev is refused in CI":                       "the environment stays CI",
	"rye.yaml has changed since the lock was":      "the new requirement has no source",
	"--dev runs it unsigned":                       "the call without --dev is the way",
	`needs the package .* the tool's list has`:     "a line of rye.lock is removed by hand",
	`executor .* is not locked`:                    "the executor of the script is invalid",
	`"directive:acme/none" is not locked`:          "it doesn't exist: a new item is the way",
	"conflicting requirements for":                 "another range is the way",
	"the token is unknown or has expired":          "a person logs in with a browser",
	"the token .* makes no others":                 "a person allows another one in a browser",
	"is unsigned; \"bundle:":                       "only its publisher can sign it",
	"differs from the manifest of":                 "the policy that verify needs is missing too",
	"archive refused, and nothing was written":     "the archive has no readable name",
	"is signed by 1 of the 2 keys":                 "the version with the new key isn't out yet",
	"the audit log is corrupt":                     "what is named are the positions",
	"does not match its signed digest":             "the source is shown as it is",
	"the project cannot be locked: 1 problem":      "the user's own lock has no project to diff",
	`turns_exceeded \(10 of 10\)`:                  "an endless graph reaches each limit",
	"the working tree differs .* \"tool:acme/join": "rye build names the ways on",
}

// followed are the refusals of each script whose hints were followed, and followedCodes their codes.
var followed, followedCodes sync.Map

// holding are the scripts in which the model answers only when the script lets it: a hint would take that answer.
var holding = sync.OnceValue(func() map[string]bool {
	found := map[string]bool{"thread_lock": true} // a child in the background outlives the hint
	scripts, _ := filepath.Glob("../../testdata/script/model/*.txtar")
	for _, name := range scripts {
		if text, _ := os.ReadFile(name); regexp.MustCompile(`(?m)^held `).Match(text) {
			found[strings.TrimSuffix(filepath.Base(name), ".txtar")] = true
		}
	}
	return found
})

// unfollowed are the codes of refusals without a hint that a script follows, each with the reason.
var unfollowed = map[fault.Code]string{
	fault.Offline:          "a script reaches no other machine",
	fault.Sandbox:          "a machine that can't confine: tests of exec/sandbox meet it",
	fault.SignatureInvalid: "a changed signature differs from the lock first, and rye verify only answers no",
}

// checkFollowed reports the refusals of the error table that no script met and followed.
func checkFollowed(t *testing.T) {
	for _, line := range fault.Table() {
		_, met := followedCodes.Load(line.Code)
		if line.Exit == fault.ExitRefused && met == (unfollowed[line.Code] != "") {
			t.Errorf("%s: its hints were followed: %v; in unfollowed it has the reason %q", line.Code, met,
				unfollowed[line.Code])
		}
	}
}

// unfilled are the words for which no script has anything, with the reason. Their hints only have to parse.
var unfilled = map[string]string{
	"REDACTED": "the user has the secret, rye doesn't show it",
	"COMMAND":  "it stands for any command",
	"FILE":     "a list that is only on a server",
}

// fill replaces the words in capitals of a hint by what the script has in their places. For the words rest it has
// nothing.
func fill(ts *testscript.TestScript, hint, refusal string) (filled string, rest []string) {
	words := strings.Fields(hint)
	for i, word := range words {
		before := words[max(i-1, 0)]
		words[i] = capitals.ReplaceAllStringFunc(word, func(name string) string {
			with := ""
			switch name {
			case "OTHER": // a key of the user, or a new name for one
				if with = "other"; before == "--key" {
					with = otherKey(ts)
				}
			case "KEYFILE", "PUBKEY":
				with = found(ts, "*.pem", "PUBLIC KEY")
			case "FILE":
				switch {
				case before == "--lock":
					with = "rye.lock"
				case before == "--from":
					with = found(ts, "*.yaml", "rye: revocations/")
				default:
					with = cmp.Or(found(ts, "*.tar.zst", ""), found(ts, "*.yaml", ""))
				}
			case "ARCHIVE":
				with = found(ts, "*.tar.zst", "")
			case "DIR":
				with = "."
			case "ITEM", "REF", "ID", "NAME":
				if match := named.FindStringSubmatch(refusal); match != nil {
					with = match[1] + match[2] + match[3]
				}
				if strings.HasPrefix(word, "NAME=N") { // of a limit
					with = "turns"
				}
			case "LIST":
				with = "acme"
			case "OWNER", "REASON", "TEXT", "QUERY":
				with = "words"
			case "RANGE":
				with = "^1"
			case "N":
				with = "9"
			}
			if with == "" {
				rest = append(rest, name)
				return name
			}
			return with
		})
	}
	return strings.Join(words, " "), rest
}

// found returns a file of the script with the name and the text.
func found(ts *testscript.TestScript, pattern, text string) (path string) {
	_ = filepath.WalkDir(ts.MkAbs("."), func(at string, d fs.DirEntry, err error) error {
		if is, _ := filepath.Match(pattern, filepath.Base(at)); err == nil && is && !d.IsDir() && path == "" {
			if b, _ := os.ReadFile(at); strings.Contains(string(b), text) {
				path = at
			}
		}
		return nil
	})
	return path
}

// otherKey returns the name of a private key that isn't the default one.
func otherKey(ts *testscript.TestScript) string {
	space := cmp.Or(ts.Getenv("USER_SPACE"), ts.Getenv("HOME"))
	names, _ := filepath.Glob(filepath.Join(ts.MkAbs(space), ".ai", "keys", "*.private.pem"))
	for _, name := range names {
		return strings.TrimSuffix(filepath.Base(name), ".private.pem")
	}
	return ""
}

// followHints follows the hints of a refusal, in a copy of all files, as a person who says yes and fills in the words
// in capitals, and then makes the call again. A hint that shows something names what the refusal is about. The others,
// one after the other, change the outcome, or are the same call with another flag and another outcome, or resume the
// thread that the call began. None prints the same refusal with the same hints.
func followHints(ts *testscript.TestScript, args, hints []string) {
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	first, before := refusal(stderr), varying.ReplaceAllString(refusal(stderr)+stdout, "N")
	key := ts.Name() + varying.ReplaceAllString(first+strings.Join(hints, "\n"), "N")
	if _, twice := followed.LoadOrStore(key, true); twice || len(hints) == 0 || len(ts.BackgroundCmds()) > 0 ||
		holding()[ts.Name()] {
		return
	}
	for pattern := range final {
		if regexp.MustCompile(pattern).MatchString(first) {
			return
		}
	}
	work := ts.Getenv("WORK")
	aside := work + ".aside"
	move(ts, work, aside)
	var wrong []string
	again := func(hint string) (changed bool) {
		command := hint
		if arguments, is := strings.CutPrefix(hint, "rye "); is {
			command = "rye --yes " + arguments
		}
		err := ts.Exec("sh", "-c", command)
		if ts.ReadFile("stderr") == stderr && hint != "rye "+strings.Join(args, " ") {
			wrong = append(wrong, "prints the same refusal with the same hints: "+hint)
		}
		further := strings.HasPrefix(hint, "rye thread resume ") && refusal(ts.ReadFile("stderr")) != first
		return err == nil || further || outcome(ts) != before // further: it is at the next limit, or the next question
	}
	ts.Check(exec.Command("cp", "-a", aside+"/.", work).Run())
	_ = ts.Exec("rye", append([]string{"--json"}, args...)...)
	if code := regexp.MustCompile(`"code":"([A-Z_]+)"`).FindStringSubmatch(ts.ReadFile("stdout")); code != nil {
		followedCodes.Store(fault.Code(code[1]), ts.Name())
	}
	for i, hint := range hints {
		if filled, rest := fill(ts, hint, stderr+stdout); len(rest) == 0 {
			hints[i] = filled
		} else if i := slices.IndexFunc(rest, func(word string) bool {
			return unfilled[word] == "" && !strings.Contains(strings.Join(args, " "), word) // the user's own word
		}); i >= 0 {
			ts.Fatalf("the hint %q: nothing for the word %s", hint, rest[i])
		}
	}
	acts, changed := false, false
	for _, hint := range hints { // first of all, before another hint changes what there is to see
		if shows.MatchString(hint) && !capitals.MatchString(hint) {
			if changed := again(hint); changed && strings.HasPrefix(hint, "rye "+strings.Join(args, " ")) {
				continue // the call itself, with what it lacked
			}
			if out := ts.ReadFile("stdout") + ts.ReadFile("stderr"); !names(out, stderr+stdout) &&
				!regexp.MustCompile(`\b(docs|help|trust list|fsck)\b`).MatchString(hint) {
				wrong = append(wrong, "names nothing of the refusal: "+hint)
			}
		}
	}
	for _, hint := range hints {
		switch {
		case capitals.MatchString(hint), outside.MatchString(hint):
			changed = true
		case !shows.MatchString(hint):
			acts = true
			variant := strings.HasPrefix(hint, "rye ") && sameVerb(hint, args) ||
				strings.HasPrefix(hint, "rye thread resume ") // what rye run began
			if did := again(hint); variant && did {
				changed = true
			}
		}
	}
	if acts && !changed {
		err := ts.Exec("rye", args...)
		changed = err == nil || outcome(ts) != before
		if !changed {
			wrong = append(wrong, "change nothing: "+strings.Join(hints, "; "))
		}
	}
	remove(ts, work)
	move(ts, aside, work)
	ts.Check(os.Remove(aside))
	// What the script looks at next is what the refused call printed.
	ts.Check(os.WriteFile(aside+".out", []byte(stdout), 0o600))
	ts.Check(os.WriteFile(aside+".err", []byte(stderr), 0o600))
	ts.Check(ts.Exec("replay", aside+".out", aside+".err"))
	ts.Check(os.Remove(aside + ".out"))
	ts.Check(os.Remove(aside + ".err"))
	if len(wrong) > 0 {
		ts.Fatalf("rye %s: %s\n%s", strings.Join(args, " "), first, strings.Join(wrong, "\n"))
	}
}

// refusal returns the first line of an error.
func refusal(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "error: ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// outcome returns what a call said of its refusal, without what differs between two runs.
func outcome(ts *testscript.TestScript) string {
	return varying.ReplaceAllString(refusal(ts.ReadFile("stderr"))+ts.ReadFile("stdout"), "N")
}

// names reports whether an output has a name that is in a refusal.
func names(out, refusal string) bool {
	for _, match := range named.FindAllStringSubmatch(refusal, -1) {
		name, _, _ := strings.Cut(match[1]+match[2]+match[3], "@")
		if strings.Contains(out, name) || strings.Contains(out, filepath.Base(name)) {
			return true
		}
	}
	return false
}

// sameVerb reports whether a hint is the call with other arguments.
func sameVerb(hint string, args []string) bool {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	return i >= 0 && slices.Contains(strings.Fields(hint), args[i])
}

// move moves all files of a directory into another one, and so keeps what caches know of them.
func move(ts *testscript.TestScript, from, to string) {
	ts.Check(os.MkdirAll(to, 0o700))
	entries, err := os.ReadDir(from)
	ts.Check(err)
	for _, e := range entries {
		// A thread of a hint may have written once more.
		ts.Check(os.RemoveAll(filepath.Join(to, e.Name())))
		ts.Check(os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
}

// remove removes all files of a directory, also from directories that can't be written.
func remove(ts *testscript.TestScript, dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	entries, err := os.ReadDir(dir)
	ts.Check(err)
	for _, e := range entries {
		ts.Check(os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

// replayMain prints two files, the second to stderr.
func replayMain() {
	for i, to := range []*os.File{os.Stdout, os.Stderr} {
		text, err := os.ReadFile(os.Args[i+1])
		if err != nil {
			panic(err)
		}
		_, _ = to.Write(text)
	}
}
