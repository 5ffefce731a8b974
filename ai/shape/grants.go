package shape

import (
	"bytes"
	"slices"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/manifest/jcs"
)

// Widened returns the changes by which an item asks for more than before: wider grants, higher risk. The list is
// empty if before covers after.
func Widened(before, after Grants) []Item {
	list := slices.DeleteFunc(diffGrants(before, after), func(i Item) bool { return i.Class != Breaking })
	sortItems(list)
	return list
}

func diffGrants(before, after Grants) []Item {
	list := diffPermissions(before.Permissions, after.Permissions)
	list = append(list, diffSecrets(sorted(before.Secrets), sorted(after.Secrets))...)
	list = append(list, diffNetwork(before.Network, after.Network)...)
	list = append(list, diffFiles(before.Files, after.Files)...)
	list = append(list, diffLimits(before.Limits, after.Limits)...)
	if x, y := rank(before.Risk), rank(after.Risk); before.Risk != after.Risk {
		i := Item{Kind: "risk_raised", Path: "/grants/risk", From: raw(before.Risk), To: raw(after.Risk),
			Class: Breaking, Note: after.RiskNote}
		if y < x {
			i.Kind, i.Class = "risk_lowered", Warning
		}
		list = append(list, i)
	}
	return list
}

var risks = []string{"read", "write", "infra", "money", "destructive"}

func rank(risk string) int {
	if i := slices.Index(risks, risk); i >= 0 {
		return i
	}
	return len(risks) - 1
}

func diffPermissions(before, after []string) (list []Item) {
	const path = "/grants/permissions"
	old, err := capability.ParseSet(before)
	if err != nil {
		return undecided(path, values(before), values(after))
	}
	now, err := capability.ParseSet(after)
	if err != nil {
		return undecided(path, values(before), values(after))
	}
	for _, c := range now.List() {
		if !old.Covers(c) {
			list = append(list, Item{Kind: "permission_added", Path: path, To: raw(c.String()), Class: Breaking})
		}
	}
	for _, c := range old.List() {
		if !now.Covers(c) {
			list = append(list, Item{Kind: "permission_removed", Path: path, From: raw(c.String()), Class: Compatible})
		}
	}
	return list
}

// undecided returns an item about values that can't be compared; nothing if they are equal.
func undecided(path string, from, to any) []Item {
	if equal(from, to) {
		return nil
	}
	return unjudged(path, from, to)
}

// unjudged returns an item about a change that can't be judged.
func unjudged(path string, from, to any) []Item {
	return []Item{{Kind: "undecided", Path: path, From: raw(from), To: raw(to), Class: Breaking}}
}

func diffSecrets(before, after []string) (list []Item) {
	const path = "/grants/secrets"
	for _, s := range after {
		if _, found := slices.BinarySearch(before, s); !found {
			list = append(list, Item{Kind: "secret_added", Path: path, To: raw(s), Class: Breaking})
		}
	}
	for _, s := range before {
		if _, found := slices.BinarySearch(after, s); !found {
			list = append(list, Item{Kind: "secret_removed", Path: path, From: raw(s), Class: Compatible})
		}
	}
	return list
}

func diffNetwork(before, after any) []Item {
	const path = "/grants/network"
	old, err := networkOf(before)
	if err != nil {
		return undecided(path, before, after)
	}
	now, err := networkOf(after)
	if err != nil {
		return undecided(path, before, after)
	}
	i := Item{Path: path, From: raw(old.value()), To: raw(now.value())}
	switch {
	case !old.covers(now):
		i.Kind, i.Class = "network_widened", Breaking
	case !now.covers(old):
		i.Kind, i.Class = "network_narrowed", Compatible
	default:
		return nil
	}
	return []Item{i}
}

func diffLimits(before, after any) (list []Item) {
	const path = "/grants/limits"
	old, err := limitsOf(before)
	if err != nil {
		return undecided(path, before, after)
	}
	now, err := limitsOf(after)
	if err != nil {
		return undecided(path, before, after)
	}
	for _, name := range names(old, now) {
		from, was := old[name]
		to, is := now[name]
		i := Item{Path: path + "/" + escape(name), From: raw(from), To: raw(to), Class: Breaking}
		a, isNumber := number(from)
		b, isNumber2 := number(to)
		switch {
		case !was:
			i.Kind = "limit_added"
		case !is:
			i.Kind = "limit_removed"
		case isNumber && isNumber2 && a == b, !isNumber && equal(from, to):
			continue
		case isNumber && isNumber2 && a < b:
			i.Kind = "limit_raised"
		case isNumber && isNumber2:
			i.Kind, i.Class = "limit_lowered", Compatible
		default:
			i.Kind = "limit_changed"
		}
		list = append(list, i)
	}
	return list
}

// equal reports whether two values have one JSON form.
func equal(a, b any) bool {
	x, err := jcs.Append(nil, a)
	if err != nil {
		return false
	}
	y, err := jcs.Append(nil, b)
	return err == nil && bytes.Equal(x, y)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, v == v
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	}
	return 0, false
}
