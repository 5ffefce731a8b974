// S3 is a server of the protocol of Amazon S3, gofakes3, for tests: it keeps objects in memory, has the buckets that its
// arguments name, prints its address, and ends with its standard input.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		os.Exit(1)
	}
}

func run(buckets []string) error {
	objects := s3mem.New()
	for _, name := range buckets {
		if err := objects.CreateBucket(name); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(l.Addr())
	return http.Serve(l, gofakes3.New(objects).Server())
}
