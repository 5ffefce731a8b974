package stage

import (
	"os"
	"syscall"
	"time"
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
	written int64 // to disk, by running processes and by reaped ones
}

// watch ends the program when its processes together exceed a limit.
func (s *stage) watch(over <-chan struct{}) {
	if !s.Watch {
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
			s.note(usage{written: s.dead()}) // no processes are left
			return
		case <-timer.C:
		}
		usage := s.look()
		if n%10 == 9 {
			usage.written += size(in) - before
		}
		s.note(usage)
		switch l := s.Limits; {
		case usage.threads > l.Processes:
			s.end("processes")
		case usage.memory > l.Memory:
			s.end("memory")
		case usage.cpu > l.CPU:
			s.end("cpu")
		case usage.written > l.Written:
			s.end("written")
		}
		pause = min(pause*3/2, lastLook)
		timer.Reset(pause)
	}
}

// memoryDirs lists the writable directories in tmpfs, where the kernel counts no writes.
func (s *stage) memoryDirs() (list []string) {
	for _, p := range s.Write {
		var fs syscall.Statfs_t
		path := string(p)
		below := false
		for _, other := range s.Write {
			n := len(other)
			below = below || len(path) > n && path[:n] == string(other) && path[n] == '/'
		}
		if !below && syscall.Statfs(path, &fs) == nil && fs.Type == tmpfsMagic {
			list = append(list, path)
		}
	}
	return list
}

// maxSeen is how many files size examines. More exceed any limit, unless there were as many before.
const maxSeen = 20_000

// size returns the space that the files in some directories use.
func size(dirs []string) (total int64) {
	seen := 0
	var add func(path string)
	add = func(path string) {
		var st syscall.Stat_t
		if seen++; seen > maxSeen {
			total += 1 << 40
			return
		}
		if syscall.Lstat(path, &st) != nil {
			return
		}
		total += st.Blocks * 512
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return
		}
		names, _ := os.ReadDir(path)
		for _, n := range names {
			if seen > maxSeen {
				return
			}
			add(path + "/" + n.Name())
		}
	}
	for _, dir := range dirs {
		add(dir)
	}
	return total
}

func (s *stage) note(u usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak, s.wrote = max(s.peak, u.memory), max(s.wrote, u.written)
}

// look returns the current usage of the processes.
func (s *stage) look() (usage usage) {
	me := os.Getpid()
	pids := Below(me)
	if s.Spaces {
		pids = pids[:0]
		names, _ := os.ReadDir("/proc")
		for _, n := range names {
			if pid, ok := parse([]byte(n.Name())); ok && int(pid) != me {
				pids = append(pids, int(pid))
			}
		}
	}
	for _, pid := range pids {
		dir := "/proc/" + digits(pid)
		stat := fields(dir + "/stat")
		usage.threads += at(stat, 19)
		usage.cpu += ticks(at(stat, 13) + at(stat, 14) + at(stat, 15) + at(stat, 16))
		usage.memory += named(dir+"/status", "RssAnon:", "RssShmem:") << 10
		counts, _ := Read(dir + "/io")
		usage.written += wrote(counts)
	}
	mine := fields("/proc/self/stat")
	usage.cpu += ticks(at(mine, 15) + at(mine, 16))
	usage.written += s.dead()
	return usage
}

// dead returns the bytes that ended processes wrote to disk.
func (s *stage) dead() int64 {
	var counts [512]byte
	n, _ := s.io.ReadAt(counts[:], 0)
	return wrote(counts[:n])
}

// wrote returns the bytes written to disk, less those of files removed before that.
func wrote(counts []byte) int64 {
	return sum(counts, "write_bytes:") - sum(counts, "cancelled_write_bytes:")
}

// ticks converts clock ticks: hundredths of a second on every Linux that Go runs on.
func ticks(n int64) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

// fields reads a /proc/PID/stat file. The process name in it may contain anything, and ends at the last bracket.
func fields(path string) [][]byte {
	data, _ := Read(path)
	for i := len(data) - 1; i >= 0; i-- {
		if data[i] == ')' {
			return append([][]byte{nil, nil}, words(data[i+1:])...)
		}
	}
	return nil
}

// words splits a text at white space.
func words(text []byte) (list [][]byte) {
	begin := -1
	for i, c := range text {
		white := c == ' ' || c == '\n' || c == '\t'
		switch {
		case white && begin >= 0:
			list, begin = append(list, text[begin:i]), -1
		case !white && begin < 0:
			begin = i
		}
	}
	if begin >= 0 {
		list = append(list, text[begin:])
	}
	return list
}

func at(list [][]byte, i int) (n int64) {
	if i < len(list) {
		n, _ = parse(list[i])
	}
	return n
}

// parse reads a number that isn't negative.
func parse(text []byte) (n int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<58 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(text) > 0
}

func digits(n int) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = '0' + byte(n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

// named adds up the numbers after names at the beginning of lines of a file.
func named(path string, names ...string) int64 {
	data, _ := Read(path)
	return sum(data, names...)
}

func sum(data []byte, names ...string) (total int64) {
	for len(data) > 0 {
		end := 0
		for end < len(data) && data[end] != '\n' {
			end++
		}
		line := data[:end]
		data = data[min(end+1, len(data)):]
		for _, name := range names {
			if len(line) > len(name) && string(line[:len(name)]) == name {
				total += at(words(line[len(name):]), 0)
			}
		}
	}
	return total
}
