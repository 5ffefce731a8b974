package declared

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/value"
)

// A limitRule is the range of one limit.
type limitRule struct {
	name   string
	places int    // decimals allowed
	least  string // the smallest allowed
	most   string // the largest allowed
}

// commonLimits are the limits of directives and tools. Their maxima keep sums of many within an int64, also in bytes
// for those in MiB, and every value exact as a double.
var commonLimits = []limitRule{
	{"depth", 0, "0", "1000"},
	{"duration_seconds", 6, "0", "315360000"}, // ten years
	{"spawns", 0, "0", "1000000"},
	{"spend", 9, "0", "1000000"},
	{"tokens", 0, "0", "1000000000000"},
	{"turns", 0, "0", "1000000"},
}

// toolLimits are the limits of tools: those of a process, and the common ones. A process can't run with a limit of
// zero.
var toolLimits = append([]limitRule{
	{"cpu_seconds", 0, "1", "315360000"},
	{"memory_mib", 0, "1", "16777216"}, // 16 TiB
	{"open_files", 0, "1", "1000000"},
	{"output_mib", 0, "1", "1048576"}, // 1 TiB
	{"processes", 0, "1", "1000000"},
	{"written_mib", 0, "1", "16777216"},
}, commonLimits...)

const currencyField = "spend_currency"

func limitNames(rules []limitRule) []string {
	names := make([]string, 0, len(rules)+1)
	for _, rule := range rules {
		names = append(names, rule.name)
	}
	return append(names, currencyField)
}

// Limit returns one of a model's normalized limits: spend in nano-dollars, duration_seconds in microseconds, the
// others unchanged. ok is false without the limit.
func Limit(limits *value.Value, name string) (n int64, ok bool) {
	v := limits.Get(name)
	if v.IsNull() {
		return 0, false
	}
	for _, rule := range toolLimits {
		if rule.name == name {
			if d, good := fields.ParseDecimal(v.Text); good {
				return d.Scaled(rule.places)
			}
		}
	}
	return 0, false
}

// Duration returns a normalized limit in seconds as a duration; 0 without it.
func Duration(limits *value.Value, name string) time.Duration {
	n, _ := Limit(limits, name)
	for _, rule := range toolLimits {
		if rule.name == name {
			return time.Duration(n) * (time.Second / time.Duration(math.Pow10(rule.places)))
		}
	}
	return 0
}

// limits returns the limits in the order of rules, each under its own name and in canonical form. The file may have
// "max_" before a name, and texts for numbers. nil means no limits.
func (d *reader) limits(rules []limitRule) *value.Value {
	given := d.Object("limits")
	if given == nil {
		return nil
	}
	seen := map[string]string{}
	out := &value.Value{Kind: value.Map, At: given.At}
	for i := range given.Map {
		entry := &given.Map[i]
		if d.Full() {
			return nil
		}
		name := strings.TrimPrefix(entry.Key, "max_")
		if name == currencyField {
			d.currency(entry.Value)
			continue
		}
		at := slices.IndexFunc(rules, func(r limitRule) bool { return r.name == name })
		if at < 0 {
			d.Add(entry.At, false, "limits."+fields.Clip(entry.Key), "unknown limit %s%s", fields.Single(entry.Key),
				fields.Suggest(name, limitNames(rules)))
			continue
		}
		val := d.limit("limits."+entry.Key, entry.Value, rules[at])
		if val == nil {
			continue
		}
		if other, twice := seen[name]; twice {
			if before := out.Get(name); before.Text != val.Text {
				d.Add(entry.At, false, "limits."+entry.Key, "the limit %s is given twice: %s is %s, %s is %s", name,
					other,
					before.Text, entry.Key, val.Text)
			}
			continue
		}
		seen[name] = entry.Key
		out.Map = append(out.Map, value.Entry{Key: name, At: entry.At, Value: val})
	}
	if len(out.Map) == 0 {
		return nil
	}
	slices.SortFunc(out.Map, func(a, b value.Entry) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// currency accepts only dollars, the currency of prices.
func (d *reader) currency(v *value.Value) {
	if !v.IsNull() && !strings.EqualFold(v.String(), "USD") {
		d.Bad(v, "limits."+currencyField, "Field 'limits.%s' must be one of ['USD'], got %s", currencyField,
			fields.Show(v))
	}
}

// limit returns one number in canonical form, or nil.
func (d *reader) limit(path string, val *value.Value, rule limitRule) *value.Value {
	kind, what := value.Int, "an integer"
	if rule.places > 0 {
		kind, what = value.Float, "a number"
	}
	var text string
	switch {
	case val.IsNull():
		return nil
	case val.Kind == value.Int || val.Kind == value.Float:
		text = val.Text
	case val.Kind == value.Text:
		text = strings.TrimSpace(val.Text)
	}
	n, ok := fields.ParseDecimal(text)
	if !ok && val.Kind != value.Text && text != "" {
		d.Once(val, path, "Field '%s' is a number that is out of range: %s", path, fields.Clip(text))
		return nil
	}
	if !ok {
		got := fields.TypeName(val)
		if val.Kind == value.Text {
			got = fields.Single(val.Text)
		}
		d.Once(val, path, "Field '%s' must be %s, got %s", path, what, got)
		return nil
	}
	least, _ := fields.ParseDecimal(rule.least)
	most, _ := fields.ParseDecimal(rule.most)
	switch _, exact := n.Scaled(rule.places); {
	case n.Compare(least) < 0:
		d.Once(val, path, "Field '%s' must be >= %s, got %s", path, rule.least, fields.Clip(text))
	case n.Compare(most) > 0:
		d.Once(val, path, "Field '%s' must be <= %s, got %s", path, rule.most, fields.Clip(text))
	case !exact && rule.places == 0:
		d.Once(val, path, "Field '%s' must be an integer, got %s", path, fields.Clip(text))
	case !exact:
		d.Once(val, path, "Field '%s' must have at most %d decimals, got %s", path, rule.places, fields.Clip(text))
	default:
		canonical := n.String()
		if !strings.Contains(canonical, ".") {
			kind = value.Int
		}
		return &value.Value{Kind: kind, At: val.At, Text: canonical}
	}
	return nil
}

// Limits normalizes the limits of a directive from another source, such as config.
func Limits(given *value.Value) (normal *value.Value, problems []*value.Problem) {
	d := &reader{&fields.Reader{Report: new(fields.Report),
		Fields: &value.Value{Kind: value.Map, Map: []value.Entry{{Key: "limits", Value: given}}}}}
	normal = d.limits(commonLimits)
	return normal, d.Problems
}
