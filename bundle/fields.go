package bundle

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/value"
)

// sections are the fields of an item that say what happens when it is run, or while it is. Of the others nothing is
// executed.
var sections = []string{"config", "env_config", "answer", "retry", "checks", "resilience"}

// whole are those in which every part counts, as in hooks: a condition and a parameter decide what is executed, too.
var whole = []string{"answer", "retry", "checks"}

// mentionWords are the names under which a section says what is started, or what is sent where.
var mentionWords = []string{"command", "commands", "cmd", "args", "env", "cwd", "url", "endpoint", "headers", "body",
	"script", "shell", "run", "exec", "execute",
	"binary", "fallback", "entrypoint", "function", "action", "actions", "tool", "item_id", "directive", "hooks",
	"checks", "check", "retry", "when", "input_data"}

// mentionedFields returns what an item executes, or sends, by the fields of its file: "config.command: node", each
// with its place and value, in the order of the file. What is longer than a line is cut.
func mentionedFields(fields *value.Value) []string {
	var all []string
	for i := range fields.Map {
		e := &fields.Map[i]
		hooks := strings.HasSuffix(e.Key, "hooks") // config has hooks of several names
		if hooks || slices.Contains(sections, e.Key) {
			all = walk(all, e.Key, e.Value, hooks || slices.Contains(whole, e.Key))
		}
	}
	return all
}

// walk adds the scalars of a value; only those below one of the mentionWords unless all count.
func walk(all []string, at string, v *value.Value, counts bool) []string {
	if v.IsNull() {
		return all
	}
	for i, item := range v.Items {
		all = walk(all, at+"["+strconv.Itoa(i)+"]", item, counts)
	}
	for i := range v.Map {
		e := &v.Map[i]
		all = walk(all, at+"."+e.Key, e.Value, counts || slices.Contains(mentionWords, strings.ToLower(e.Key)))
	}
	if counts && v.Kind != value.List && v.Kind != value.Map && v.Text != "" {
		all = append(all, at+": "+cut(v.Text))
	}
	return all
}

// longest is how much of a value is shown, in characters.
const longest = 200

func cut(text string) string {
	r := []rune(text)
	if len(r) <= longest {
		return text
	}
	return string(r[:longest]) + "…"
}
