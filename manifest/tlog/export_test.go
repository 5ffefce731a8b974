package tlog

import (
	"golang.org/x/mod/sumdb/note"

	"github.com/rye-build/rye/manifest/key"
)

// KeyText writes a key of any algorithm.
var KeyText = keyText

// SignBody signs a body as a log that doesn't follow the format.
func SignBody(log Key, private key.Private, body string) ([]byte, error) {
	return note.Sign(&note.Note{Text: body}, signer{verifier: verifier{log}, private: private})
}
