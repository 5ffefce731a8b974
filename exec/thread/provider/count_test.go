package provider_test

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/thread/provider"
)

func said(n, bytes int) (all []provider.Message) {
	for range n {
		all = append(all, provider.Message{Role: "user", Text: strings.Repeat("x", bytes)})
	}
	return all
}

// TestMost: whatever a request has that the service didn't count is bounded by its bytes.
func TestMost(t *testing.T) {
	offered := []provider.Tool{{Name: "a", Description: strings.Repeat("d", 1000)}}
	one := provider.Size(said(1, 100)) + 1 // with a comma
	for name, c := range map[string]struct {
		messages int
		tools    []provider.Tool
		kept     []int // of the requests since the one that was counted
		least    int64
		most     int64
	}{
		"the same again":            {3, offered, []int{3}, 50, 60},
		"one more":                  {4, offered, []int{3}, 50 + 100, 60 + one},
		"one more, tried again":     {4, offered, []int{3, 4}, 50 + 100, 60 + one},
		"two more, in two requests": {5, offered, []int{3, 4}, 50 + 200, 60 + 2*one},
		"others":                    {3, offered, []int{0}, 50 + 300, 60 + 3*one},
		"other tools":               {3, append(offered, provider.Tool{Name: "b"}), []int{3}, 50 + 1000, 1200},
		"no tools":                  {3, nil, []int{3}, 50, 60},
		"fewer messages":            {2, offered, []int{2}, 50, 60},
	} {
		var count provider.Count
		first := &provider.Request{Messages: said(3, 100), Tools: offered}
		if got := count.Most(first, 7); got != 7+provider.Size(first.Messages)+provider.Size(first.Tools) {
			t.Errorf("%s: at first %d", name, got)
		}
		count.Answered(first, 50)
		for _, kept := range c.kept {
			count.Next(kept)
		}
		q := &provider.Request{Messages: said(c.messages, 100), Tools: c.tools}
		got := count.Most(q, 7)
		if got < c.least || got > c.most {
			t.Errorf("%s: %d, want %d to %d", name, got, c.least, c.most)
		}
		if about := count.About(q, 7); about > got || about < 50+(got-50)/provider.PerToken {
			t.Errorf("%s: about %d of %d", name, about, got)
		}
		count.Forget()
		if got := count.Most(q, 7); got != 7+provider.Size(q.Messages)+provider.Size(q.Tools) {
			t.Errorf("%s: forgotten %d", name, got)
		}
	}
}

func TestFilled(t *testing.T) {
	var count provider.Count
	count.Answered(&provider.Request{}, 500)
	count.Add(400)
	if got := count.Filled(); got != 600 {
		t.Error(got)
	}
}
