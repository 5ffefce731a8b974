package bundle

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/value"
)

// sections are the fields of an item that decide what a run executes. The other fields execute nothing.
var sections = []string{"config", "env_config", "answer", "retry", "checks", "resilience"}

// wholeSections are the sections in which every part counts, as in hooks: conditions and parameters decide what is
// executed, too.
var wholeSections = []string{"answer", "retry", "checks"}

// mentionWords are the keys in a section whose values are executed or sent.
var mentionWords = []string{"command", "commands", "cmd", "args", "env", "cwd", "url", "endpoint", "headers", "body",
	"script", "shell", "run", "exec", "execute",
	"binary", "fallback", "entrypoint", "function", "action", "actions", "tool", "item_id", "directive", "hooks",
	"checks", "check", "retry", "when", "input_data"}

// mentionedFields returns the parts of an item that it executes or sends, in the order of the file, as
// "config.command: node". It cuts long values.
func mentionedFields(fields *value.Value) []string {
	var all []string
	for i := range fields.Map {
		e := &fields.Map[i]
		hooks := strings.HasSuffix(e.Key, "hooks") // config has several kinds of hooks
		if hooks || slices.Contains(sections, e.Key) {
			all = walk(all, e.Key, e.Value, hooks || slices.Contains(wholeSections, e.Key))
		}
	}
	return all
}

// walk adds the scalars of a value; unless counts, only those below one of the mentionWords.
func walk(all []string, at string, val *value.Value, counts bool) []string {
	if val.IsNull() {
		return all
	}
	for i, item := range val.Items {
		all = walk(all, at+"["+strconv.Itoa(i)+"]", item, counts)
	}
	for i := range val.Map {
		e := &val.Map[i]
		all = walk(all, at+"."+e.Key, e.Value, counts || slices.Contains(mentionWords, strings.ToLower(e.Key)))
	}
	if counts && val.Kind != value.List && val.Kind != value.Map && val.Text != "" {
		all = append(all, at+": "+cut(val.Text))
	}
	return all
}

// longest is the longest value that is shown, in characters.
const longest = 200

func cut(text string) string {
	r := []rune(text)
	if len(r) <= longest {
		return text
	}
	return string(r[:longest]) + "…"
}
