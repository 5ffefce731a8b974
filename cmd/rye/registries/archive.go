package registries

import (
	"io"
	"os"
	"strings"

	"github.com/rye-build/rye/cas"
)

// digestOf returns the digest and the size of a file, and goes back to its beginning.
func digestOf(file *os.File) (cas.Digest, int64, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return cas.Digest{}, 0, err
	}
	hasher := cas.NewHasher()
	size, err := io.Copy(hasher, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	return hasher.Digest(), size, err
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// namesOf returns the glob of a bundle's namespace.
func namesOf(id string) string {
	space, _, _ := strings.Cut(id, "/")
	return space + "/**"
}
