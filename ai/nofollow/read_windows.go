package nofollow

import "os"

func (f *folder) file() *os.File { return nil }

func readEntry(*os.File, string, int64) ([]byte, error) { panic("there is no file to read it with") }
