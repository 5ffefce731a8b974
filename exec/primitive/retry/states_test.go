package retry

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBreaker: each step of the machine.
func TestBreaker(t *testing.T) {
	now := time.Unix(0, 0)
	b := &breaker{breakerSetting: breakerSetting{failures: 2, successes: 2, cooldown: time.Minute}}
	turns := map[string]int{}
	step := func(what string, want bool) {
		t.Helper()
		turn, _, ok := b.allow(now)
		if ok != want {
			t.Fatalf("%s: allowed is %v in the state %d", what, ok, b.state)
		}
		turns[what] = turn
	}
	done := func(what string, o outcome, want state) {
		t.Helper()
		b.done(turns[what], o, now)
		if b.state != want {
			t.Fatalf("%s: the state is %d, want %d", what, b.state, want)
		}
	}
	for _, what := range []string{"a", "b", "c", "late", "slow"} {
		step(what, true)
	}
	done("a", failed, closed)
	done("b", worked, closed) // what works begins a new row
	done("b", failed, closed)
	done("b", silent, closed) // which what is silent doesn't
	done("c", failed, open)
	done("late", worked, open) // begun before it was open
	step("no", false)
	now = now.Add(time.Minute - 1)
	step("not yet", false)
	now = now.Add(1)
	step("p1", true)
	step("p2", true)
	step("p3", false)
	done("late", failed, halfOpen)
	done("p1", silent, halfOpen)
	step("p4", true)
	step("p5", false)
	done("p2", worked, halfOpen)
	step("p6", false)
	done("p4", failed, open)
	now = now.Add(time.Minute)
	step("q1", true)
	done("q1", worked, halfOpen)
	step("q2", true)
	step("q3", false)
	done("q2", worked, closed)
	done("slow", failed, closed)
	if b.count != 0 {
		t.Error("what was begun long ago counts")
	}
}

// TestBreakerModel: whatever happens, a breaker does as a list of all that happened says.
func TestBreakerModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		set := breakerSetting{failures: 1 + r.IntN(4), successes: 1 + r.IntN(3),
			cooldown: time.Duration(1+r.IntN(5)) * time.Second}
		b := &breaker{breakerSetting: set}
		now := time.Unix(0, 0)
		type begun struct{ turn, era int }
		var running []begun
		// The model: when it was opened, what was let through since it half opened, and the failures in a row before
		// that.
		era, row, openedAt, half, probes, good := 0, 0, time.Time{}, false, 0, 0
		for range 200 {
			switch r.IntN(3) {
			case 0:
				now = now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
			case 1:
				if !openedAt.IsZero() && now.Sub(openedAt) >= set.cooldown {
					openedAt, half, probes, good = time.Time{}, true, 0, 0
					era++
				}
				want := openedAt.IsZero() && (!half || probes < set.successes)
				turn, wait, ok := b.allow(now)
				if ok != want || ok && wait != 0 || wait < 0 || wait > set.cooldown {
					t.Fatalf("seed %d: allowed %v after %s; want %v", seed, ok, wait, want)
				}
				if ok {
					probes++
					running = append(running, begun{turn, era})
				}
			case 2:
				if len(running) == 0 {
					continue
				}
				i := r.IntN(len(running))
				one, o := running[i], outcome(r.IntN(3))
				running = append(running[:i], running[i+1:]...)
				b.done(one.turn, o, now)
				if one.era != era {
					continue
				}
				switch {
				case half && o == silent:
					probes--
				case half && o == failed, !half && o == failed && row+1 == set.failures:
					openedAt, half, row = now, false, 0
					era++
				case half && o == worked:
					if good++; good == set.successes {
						half, row = false, 0
						era++
					}
				case o == failed:
					row++
				case o == worked:
					row = 0
				}
			}
			if got := b.state; (got == halfOpen) != half || (got == open) == openedAt.IsZero() {
				t.Fatalf("seed %d: the state is %d; half open %v, open since %v", seed, got, half, openedAt)
			}
		}
	}
}

// TestBucket: what is there at once, what comes back, and what isn't promised.
func TestBucket(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBucket(rateSetting{perSecond: 2, burst: 3}, now)
	for i, c := range []struct {
		pass, most, wait time.Duration
		ok               bool
	}{
		{0, 0, 0, true}, {0, 0, 0, true}, {0, 0, 0, true},
		{0, time.Second, 500 * time.Millisecond, true},
		{0, time.Second, time.Second, true},
		{0, time.Second, 1500 * time.Millisecond, false},
		{time.Second, 0, 500 * time.Millisecond, false},
		{500 * time.Millisecond, 0, 0, true},
		{-time.Hour, time.Hour, 500 * time.Millisecond, true},
		{2 * time.Hour, 0, 0, true},
	} {
		now = now.Add(c.pass)
		if wait, ok := b.take(now, c.most); wait != c.wait || ok != c.ok {
			t.Errorf("%d: %s %v", i, wait, ok)
		}
	}
	b.give()
	b.give()
	if b.left != 3 {
		t.Errorf("%v are left", b.left)
	}
}

// TestBucketModel: in no stretch of time are there more turns than burst and what came back, and none is late without
// need.
func TestBucketModel(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		set := rateSetting{perSecond: float64(1+r.IntN(40)) / 4, burst: 1 + r.IntN(6)}
		now := time.Unix(0, 0)
		b := newBucket(set, now)
		var turns []time.Time
		for range 60 {
			now = now.Add(time.Duration(r.IntN(600)) * time.Millisecond)
			most := time.Duration(r.IntN(2000)) * time.Millisecond
			wait, ok := b.take(now, most)
			if ok != (wait <= most) {
				t.Fatalf("seed %d: %s of %s is %v", seed, wait, most, ok)
			}
			if ok {
				turns = append(turns, now.Add(wait))
			}
		}
		for i := range turns {
			for j := i; j < len(turns); j++ {
				may := float64(set.burst) + turns[j].Sub(turns[i]).Seconds()*set.perSecond
				if float64(j-i+1) > may+1e-6 {
					t.Fatalf("seed %d: %d turns in %s, of %+v", seed, j-i+1, turns[j].Sub(turns[i]), set)
				}
			}
		}
	}
}
