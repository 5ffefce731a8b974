package hook

import (
	"fmt"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/manifest/condition"
	"github.com/rye-build/rye/manifest/jcs"
)

// variable matches a variable of the event's data.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{([^{}]+)\}`)
})

// fill replaces the variables in a value. A text that is exactly one variable becomes its value.
func fill(given any, data map[string]any) any {
	switch val := given.(type) {
	case string:
		if m := variable().FindStringSubmatch(val); m != nil && m[0] == val {
			return plain(condition.At(data, m[1]))
		}
		return variable().ReplaceAllStringFunc(val, func(name string) string {
			return asText(plain(condition.At(data, name[2:len(name)-1])))
		})
	case []any:
		out := make([]any, len(val))
		for i := range val {
			out[i] = fill(val[i], data)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(val))
		for key, value := range val {
			out[key] = fill(value, data)
		}
		return out
	}
	return given
}

// plain converts event data to JSON values.
func plain(val any) any {
	switch v := val.(type) {
	case condition.Names:
		if len(v) == 0 {
			return nil
		}
		return v[0]
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = plain(value)
		}
		return out
	}
	return val
}

// asText returns a value as text: a string as it is, null as nothing, anything else as JSON.
func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := jcs.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func asAny(list []string) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, s := range list {
			if !yield(s) {
				return
			}
		}
	}
}

// maxDelay is the longest delay of a hook.
const maxDelay = 24 * time.Hour

// seconds reads a delay, or nil if v is nil. XML attributes and elements have it as text.
func seconds(v any) (*time.Duration, error) {
	if v == nil {
		return nil, nil
	}
	n, ok := jcs.Number(v)
	if text, isText := v.(string); isText {
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		n, ok = f, err == nil
	}
	if !ok || math.IsNaN(n) || n < 0 || n > maxDelay.Seconds() {
		return nil, fmt.Errorf("expected between 0 and %d seconds", int(maxDelay.Seconds()))
	}
	d := time.Duration(n * float64(time.Second))
	return &d, nil
}
