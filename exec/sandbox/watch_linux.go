package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// The watch looks often at first, because a program can use much in little time.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// usage is the total over all processes of a program.
type usage struct {
	threads int64
	memory  int64 // anonymous and shared
	cpu     time.Duration
	written int64 // to disk, by running processes and by those that were reaped
}

// watch ends the program when all its processes together use too much.
func (s *stage) watch(over <-chan struct{}) {
	if s.Level < floor.Limits {
		<-over
		return
	}
	pause := firstLook
	timer := time.NewTimer(pause)
	defer timer.Stop()
	in := s.memoryDirs()
	before := size(in)
	for n := 0; ; n++ {
		select {
		case <-over:
			s.note(s.look())
			return
		case <-timer.C:
		}
		u := s.look()
		if n%10 == 9 {
			u.written += size(in) - before
		}
		s.note(u)
		switch l := s.Limits; {
		case u.threads > int64(l.Processes):
			s.end("processes")
		case u.memory > l.Memory:
			s.end("memory")
		case u.cpu > l.CPU:
			s.end("cpu")
		case u.written > l.Written:
			s.end("written")
		}
		pause = min(pause*3/2, lastLook)
		timer.Reset(pause)
	}
}

// memoryDirs lists the writable directories in tmpfs, where the kernel counts no writes.
func (s *stage) memoryDirs() (list []string) {
	for _, p := range s.Write {
		var fs unix.Statfs_t
		path := string(p)
		below := func(other []byte) bool { return strings.HasPrefix(path, string(other)+"/") }
		if !slices.ContainsFunc(s.Write, below) && unix.Statfs(path, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
			list = append(list, path)
		}
	}
	return list
}

// maxSeen is how many files in them size looks at. More count as too many, unless there were as many before.
const maxSeen = 20_000

// size returns how much space the files in some directories take.
func size(dirs []string) (total int64) {
	seen := 0
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			var st unix.Stat_t
			if seen++; seen > maxSeen {
				total += 1 << 40
				return filepath.SkipAll
			}
			if unix.Lstat(path, &st) == nil {
				total += st.Blocks * 512
			}
			return nil
		})
	}
	return total
}

func (s *stage) note(u usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak, s.wrote = max(s.peak, u.memory), max(s.wrote, u.written)
}

// look returns what the processes use now.
func (s *stage) look() (u usage) {
	me := os.Getpid()
	pids := proc.Below(me)
	if s.Spaces {
		pids = pids[:0]
		names, _ := os.ReadDir("/proc")
		for _, n := range names {
			if pid, err := strconv.Atoi(n.Name()); err == nil && pid != me {
				pids = append(pids, pid)
			}
		}
	}
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		stat := fields(dir + "/stat")
		u.threads += number(stat, 19)
		u.cpu += ticks(number(stat, 13) + number(stat, 14) + number(stat, 15) + number(stat, 16))
		u.memory += named(dir+"/status", "RssAnon:", "RssShmem:") << 10
		counts, _ := os.ReadFile(dir + "/io")
		u.written += wrote(counts)
	}
	mine := fields("/proc/self/stat")
	u.cpu += ticks(number(mine, 15) + number(mine, 16))
	var dead [512]byte
	n, _ := s.io.ReadAt(dead[:], 0)
	u.written += wrote(dead[:n])
	return u
}

// wrote returns the bytes that were written to disk, less those of files removed before that.
func wrote(counts []byte) int64 {
	return sum(counts, "write_bytes:") - sum(counts, "cancelled_write_bytes:")
}

// ticks converts clock ticks: hundredths of a second on every Linux that Go runs on.
func ticks(n int64) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

// fields reads a /proc/PID/stat file. The name in it, which may contain anything, ends with the last bracket.
func fields(path string) [][]byte {
	data, _ := os.ReadFile(path)
	at := bytes.LastIndexByte(data, ')')
	if at < 0 {
		return nil
	}
	return append([][]byte{nil, nil}, bytes.Fields(data[at+1:])...)
}

func number(list [][]byte, at int) int64 {
	if at >= len(list) {
		return 0
	}
	n, _ := strconv.ParseInt(string(list[at]), 10, 64)
	return n
}

// named adds up the numbers after names at the beginning of lines of a file.
func named(path string, names ...string) int64 {
	data, _ := os.ReadFile(path)
	return sum(data, names...)
}

func sum(data []byte, names ...string) (total int64) {
	for line := range bytes.Lines(data) {
		for _, name := range names {
			if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
				total += number(bytes.Fields(rest), 0)
			}
		}
	}
	return total
}
