package osfile

import "os"

// A Scratch is a file without a name, which the system removes when the process ends. The first write creates it.
// The caller closes it.
type Scratch struct {
	Dir string
	End int64 // length of the written bytes

	f *os.File
}

// Append writes b at the end.
func (s *Scratch) Append(b []byte) (err error) {
	if s.f == nil {
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return err
		}
		if s.f, err = os.CreateTemp(s.Dir, Unfinished+"*"); err != nil {
			return err
		}
		_ = os.Remove(s.f.Name()) // now, because this process may be killed later
	}
	n, err := s.f.WriteAt(b, s.End)
	s.End += int64(n)
	return err
}

// ReadAt implements io.ReaderAt. It needs an earlier Append.
func (s *Scratch) ReadAt(b []byte, at int64) (int, error) { return s.f.ReadAt(b, at) }

// Close removes the file.
func (s *Scratch) Close() {
	if s.f != nil {
		s.f.Close()
		_ = os.Remove(s.f.Name())
	}
}
