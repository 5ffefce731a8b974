package reply

import "testing"

type inner struct {
	Names []string `json:"names"`
}

type outer struct {
	inner
	Lines  []inner        `json:"lines"`
	Next   *inner         `json:"next"`
	None   *inner         `json:"none"`
	Bytes  []byte         `json:"bytes"`
	Absent []string       `json:"absent,omitempty"`
	Zero   []string       `json:"zero,omitzero"`
	Any    map[string]any `json:"any"`
	hidden []string
}

// TestLists: a list that is nil is written as an empty one, wherever it is.
func TestLists(t *testing.T) {
	const want = `{"success":true,"data":{"schema":"x/1","names":[],"lines":[{"names":[]}],"next":{"names":[]},"none":null,"bytes":null,"any":null}}` + "\n"
	v := outer{Lines: []inner{{}}, Next: new(inner)}
	for _, ans := range []any{v, &v} {
		line, err := Data("x/1", ans)
		if err != nil || string(line) != want {
			t.Errorf("%v: %s", err, line)
		}
	}
	if v.hidden != nil {
		t.Error("a field that isn't written was changed")
	}
}
