package env

import (
	"os"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
)

// TestKnown: a program is not read again while its file looks the same, and is as soon as it doesn't, or may not tell.
func TestKnown(t *testing.T) {
	w := newWorld(t)
	w.link("tool", `env_config: {interpreter: {type: system_binary, binary: python3, var: RYE_PYTHON}}`)
	now := time.Minute // after the files were made
	clock := statcache.NewClock()
	w.Host.Known = &Known{clock: func() statcache.Moment {
		m := clock()
		return statcache.Moment{Wall: m.Wall + int64(now), Up: m.Up + int64(now), Boot: m.Boot}
	}}
	digest := func() cas.Digest {
		t.Helper()
		p := w.resolve().Programs
		if len(p) != 1 || p[0].Path != w.at("bin/python3") || p[0].Size != int64(len("python of the system")) {
			t.Fatalf("%+v", p)
		}
		return p[0].Digest
	}
	first, other := cas.Sum([]byte("python of the system")), cas.Sum(nil)
	poison := func() {
		t.Helper()
		if len(w.Host.Known.of) != 1 {
			t.Fatalf("%d programs are remembered", len(w.Host.Known.of))
		}
		for stamp, k := range w.Host.Known.of {
			k.digest = other
			w.Host.Known.of[stamp] = k
		}
	}
	if digest() != first {
		t.Fatal("the digest is wrong")
	}
	poison()
	if digest() != other {
		t.Error("a program is read twice")
	}
	now = 0
	if digest() != first {
		t.Error("what is remembered counts after the clock was set back")
	}
	now = time.Minute
	poison()
	if err := os.WriteFile(w.at("bin/python3"), []byte("python of the others"), 0o755); err != nil {
		t.Fatal(err)
	}
	if digest() != cas.Sum([]byte("python of the others")) {
		t.Error("a program that was changed is remembered")
	}
	// What was written just now may be written again without a trace.
	now, w.Host.Known.of = 0, nil
	if digest(); len(w.Host.Known.of) != 0 {
		t.Error("a new program is remembered")
	}
}
