//go:build unix

package worker

import (
	"encoding/binary"
	"runtime"
	"syscall"
)

// appendUsed appends a frame with the usage of this process.
func appendUsed(to []byte) ([]byte, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return nil, err
	}
	rss := int64(u.Maxrss)
	if runtime.GOOS != "darwin" {
		rss <<= 10
	}
	cpu := (u.Utime.Nano() + u.Stime.Nano()) / 1e6
	return appendFrame(to, Used, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(cpu)),
		uint64(rss))), nil
}
