package main

import (
	"context"
	"strings"
)

func keyListCommand() command {
	return command{
		path: "key list", group: "trust", help: "List the keys of this user.",
		more: "* is the key that signs where no other is named.\n\nExamples:\n\n    rye key list\n    rye key list --json",
		aka:  []string{"key ls"},
		new:  func() runner { return new(keyListRun) }, schema: "key-list/1", output: keyListAnswer{},
	}
}

type keyListRun struct{}

type keyListAnswer struct {
	Keys []keyLine `json:"keys"`
}

func (*keyListRun) run(_ context.Context, a *app) (answer, error) {
	lines, err := a.keyLines()
	if a.env(envKey) != "" {
		for i := range lines {
			lines[i].Default = false
		}
		a.term.note("%s signs where no other is named: rye key show", envKey)
	}
	if len(lines) == 0 && err == nil {
		a.term.note("there are no keys yet: rye key new makes one")
	}
	return keyListAnswer{append([]keyLine{}, lines...)}, err
}

func (k keyListAnswer) text(t *terminal) {
	var rows [][]string
	for _, l := range k.Keys {
		mark := " "
		if l.Default {
			mark = "*"
		}
		rows = append(rows, []string{mark + " " + l.Name, orDash(short(l.Fingerprint)), l.state()})
	}
	t.rows(rows)
}

// state says in a few words what is to be known of a key.
func (l *keyLine) state() string {
	var words []string
	if l.Error != "" {
		return "can't be used: " + l.Error
	}
	if l.Locked {
		words = append(words, "locked")
	}
	switch {
	case l.InPolicy == "":
		words = append(words, "not in the policy")
	case l.Fault != "":
		words = append(words, strings.ReplaceAll(l.Fault, "-", " ")+", vouches for nothing")
	case len(l.Vouches) == 0:
		words = append(words, "in the policy, vouches for nothing")
	default:
		words = append(words, "vouches for "+strings.Join(l.Vouches, " "))
	}
	return strings.Join(words, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
