package parse

import (
	"os"
	"strings"
	"testing"
)

// BenchmarkParse reads typical items of 2 to 4 KiB.
func BenchmarkParse(b *testing.B) {
	for _, name := range []string{
		"markdown_xml/everything.md", "markdown_frontmatter/front.md", "yaml/tool.yaml", "comment_header/tool.sh",
		"python_ast/tool.py", "pattern/query.sql",
	} {
		content, err := os.ReadFile("testdata/vectors/" + name)
		if err != nil {
			b.Fatal(err)
		}
		folder, _, _ := strings.Cut(name, "/")
		p := parserOf(b, folder)
		for len(content) < 2<<10 {
			content = append(content, "\n# some more text, as prose or program have it"...)
		}
		b.Run(folder, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				if d := p.Parse(content); len(d.Fields.Map) == 0 {
					b.Fatal(dump(d))
				}
			}
		})
	}
}
