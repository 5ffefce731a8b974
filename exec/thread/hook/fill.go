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

// variable matches what the data of an event fills in.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{([^{}]+)\}`)
})

// fill fills data into a value. A text that is one variable gets its value.
func fill(v any, data map[string]any) any {
	switch v := v.(type) {
	case string:
		if m := variable().FindStringSubmatch(v); m != nil && m[0] == v {
			return plain(condition.At(data, m[1]))
		}
		return variable().ReplaceAllStringFunc(v, func(name string) string {
			return asText(plain(condition.At(data, name[2:len(name)-1])))
		})
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = fill(v[i], data)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = fill(value, data)
		}
		return out
	}
	return v
}

// plain returns a value of an event's data as JSON's values.
func plain(v any) any {
	switch v := v.(type) {
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
	return v
}

// asText returns a value as text: a string as it is, null as nothing, all else as JSON.
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

// maxDelay is the longest that a hook may have a thread wait.
const maxDelay = 24 * time.Hour

// seconds reads a time to wait; nil if there is none. Attributes and elements of XML have it as text.
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
