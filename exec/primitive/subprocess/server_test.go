package subprocess_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// server listens on this machine, and reports whether there was a connection.
func server(t testing.TB) (address string, reached func() bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var came atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			c.Close()
		}
	}()
	own := int64(0)
	return l.Addr().String(), func() bool {
		// Earlier connections are accepted first, and this one when its end is seen.
		c, err := net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		own++
		c.Read(make([]byte, 1))
		return came.Load() > own
	}
}
