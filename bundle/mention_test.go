package bundle

import (
	"slices"
	"testing"
)

func TestIn(t *testing.T) {
	for _, c := range []struct {
		text          string
		hosts, places []string
	}{
		{"curl https://api.example.com/v1 'http://{{host}}/x'", []string{"api.example.com", "{{host}}"}, nil},
		{"cat </etc/passwd ~/.ssh/id ../up a/../../b C:\\x", nil,
			[]string{"/etc/passwd", "~/.ssh/id", "../up", "a/../../b", "C:\\x"}},
		{"<step>run</step > and </x.y:z>", nil, nil},
		{"//comment a/b ./here", nil, nil},
	} {
		if hosts, places := mentioned(c.text); !slices.Equal(hosts, c.hosts) || !slices.Equal(places, c.places) {
			t.Errorf("%q: %q, %q", c.text, hosts, places)
		}
	}
}
