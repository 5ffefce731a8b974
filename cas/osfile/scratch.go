package osfile

import "os"

// A Scratch is a file without a name, which goes with the process. It is made when something is written to it.
type Scratch struct {
	Dir string
	End int64 // of what was written

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
		_ = os.Remove(s.f.Name()) // where that works the name is gone even if this process is killed
	}
	n, err := s.f.WriteAt(b, s.End)
	s.End += int64(n)
	return err
}

// ReadAt implements io.ReaderAt. Something was written before.
func (s *Scratch) ReadAt(b []byte, at int64) (int, error) { return s.f.ReadAt(b, at) }

// Close removes the file.
func (s *Scratch) Close() {
	if s.f != nil {
		s.f.Close()
		_ = os.Remove(s.f.Name())
	}
}
