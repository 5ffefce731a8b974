package statcache

import (
	"runtime"
	"testing"
	"time"
)

func TestSettled(t *testing.T) {
	const second = int64(time.Second)
	now := Moment{Wall: 1_800_000_000 * second}
	for _, c := range []struct {
		mtime, ctime int64 // before now
		want         bool
	}{
		{10*second + 1, 10*second + 1, true},
		{margin + 1, margin + 1, true},
		{margin, margin + 1, false},
		{10 * second, margin - 1, false},
		{margin - 1, 10*second + 1, false},
		{-second, 10*second + 1, false},
		{10*second + 1, -1, false},
		{10 * second, 10*second + 1, true}, // mtime may be anything, as archives set it
		{10*second + 1, 10 * second, false},
		{10 * second, 10 * second, false},
	} {
		if now.Settled(now.Wall-c.mtime, now.Wall-c.ctime) != c.want {
			t.Errorf("mtime %d, ctime %d before now: not %v", c.mtime, c.ctime, c.want)
		}
	}
}

func TestMachineClock(t *testing.T) {
	for _, clock := range []func() Moment{NewClock(), processClock()} {
		a := clock()
		b := clock()
		if b.SetBackSince(a) || a.Boot == 0 || a.Boot != b.Boot || b.Up < a.Up {
			t.Errorf("from %+v to %+v", a, b)
		}
		if d := time.Since(time.Unix(0, b.Wall)); d < -time.Hour || d > time.Hour {
			t.Errorf("the clock is %v off", d)
		}
	}
	if a, b := NewClock()(), NewClock()(); runtime.GOOS == "linux" && a.Boot != b.Boot {
		t.Error("two clocks of one machine are of different boots")
	}
}
