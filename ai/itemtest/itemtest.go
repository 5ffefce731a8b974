// Package itemtest has items for tests, and signs them.
package itemtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

// Tool returns a tool in YAML of the name and category of its id, with more lines.
func Tool(id, executor string, more ...string) string {
	ref := model.Ref{ID: id}
	return fmt.Sprintf(
		"name: %s\ncategory: %q\nversion: 1.2.3\ntool_type: test\ndescription: a test\nexecutor_id: %s\n%s\n",
		ref.Name(), ref.Category(), executor, strings.Join(more, "\n"))
}

// PyTool is the same in Python.
func PyTool(id, executor string) string {
	return fmt.Sprintf(
		"__version__ = \"1.2.3\"\n__tool_type__ = \"python\"\n__executor_id__ = %q\n__category__ = %q\n__tool_description__ = \"a test\"\n",
		executor, model.Ref{ID: id}.Category())
}

// Signed returns what an item is when it is signed.
func Signed(t testing.TB, admit *ai.Admitter, it *ai.Item, at time.Time, keys ...key.Private) []byte {
	t.Helper()
	subject, _, err := admit.Subject(t.Context(), it)
	if err != nil {
		t.Fatal(err)
	}
	text := it.Bytes
	for _, k := range keys {
		if text, err = sign.Sign(text, subject.Signing(), subject.Claim(), k, at, nil); err != nil {
			t.Fatal(err)
		}
	}
	return text
}
