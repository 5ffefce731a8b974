package serves

import "testing"

// TestPercentage: little that lives leaves room for more garbage, much doesn't.
func TestPercentage(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		due     uint64
		percent int
		want    int
	}{
		{10 * mib, 250, 250}, // 2.9 MiB live
		{10 * mib, 100, 200},
		{18 * mib, 250, 194}, // 5.1
		{20 * mib, 100, 100}, // 10
		{1 << 40, 100, 100},
		{0, 400, 250},
	} {
		if got := percentage(c.due, c.percent); got != c.want {
			t.Errorf("%d, %d%%: %d%%, not %d", c.due, c.percent, got, c.want)
		}
	}
}
