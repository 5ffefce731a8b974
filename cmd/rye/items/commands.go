package items

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
)

// Commands lists the commands of this package, in the order in which the help shows them. rye new calls lock, which
// updates the project's lock if it has one.
func Commands(lock func(context.Context, *cli.App) (bool, error)) []cli.Command {
	return []cli.Command{
		{
			Path: "new", Quiet: true, Group: "items", Help: "Create an item from a template or a file and sign it.",
			More: "KIND is directive, tool, knowledge, config, or a kind that an extractor adds. ID is the path below the kind's directory, such as " +
				"acme/fetch. --ext chooses a tool's template. --from uses a file instead, without its signatures; the file must have the metadata that " +
				"its kind requires.\n\nExamples:\n\n    rye new tool acme/fetch --description 'Fetch a page'\n    rye new tool acme/count --ext sh\n" +
				"    rye new tool acme/parse --from ./parse.py\n    rye new directive acme/review --no-sign",
			Aka: []string{"generate", "scaffold"},
			New: func() cli.Runner { return &newRun{lock: lock} }, Schema: "new/1", Output: newAnswer{},
		},
		{
			Path: "ls", Group: "items", Help: "List items with version, space and trust.",
			More: "Without arguments it lists all. An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', '**'), or a file or " +
				"directory below .ai. Hidden items (a higher space has the same id) and invalid or unreadable ones are listed and marked.\n\n" +
				"Examples:\n\n    rye ls\n    rye ls 'tool:acme/**'\n    rye ls --kind tool --space project\n    rye ls --json",
			Aka: []string{"items"},
			New: func() cli.Runner { return new(lsRun) }, Schema: "ls/1", Output: &lsAnswer{},
		},
		{
			Path: "show", Group: "items", Help: "Show an item's metadata, signatures and chain of executors.",
			More: "It also shows items that may not be used, and says so. --source prints the file, --body only the text of a directive or of knowledge. " +
				"On a terminal, control characters are escaped; otherwise the bytes are exact.\n\nExamples:\n\n    rye show tool:acme/fetch\n" +
				"    rye show directive:acme/review --body\n    rye show tool:acme/fetch --source > fetch.py\n    rye show .ai/tools/acme/fetch.py --json",
			Aka: []string{"inspect", "view"},
			New: func() cli.Runner { return new(showRun) }, Schema: "show/1", Output: &ShowAnswer{},
		},
		{
			Path: "load", Quiet: true, Group: "items", Help: "Copy an item and its signatures to another space.",
			More: "The copy has the same bytes and id, so its signatures stay valid. The other files of a tool are copied too. An item that the policy " +
				"doesn't let rye show is not copied, and a different file that exists is never overwritten. To change the id, run rye mv afterwards.\n\n" +
				"Examples:\n\n    rye load tool:acme/fetch --to project\n    rye load directive:acme/review --to user",
			Aka: []string{"copy", "cp"},
			New: func() cli.Runner { return new(loadRun) }, Schema: "load/1", Output: loadAnswer{},
		},
		{
			Path: "mv", Quiet: true, Group: "items", Help: "Rename an item of the project.",
			More: "The name, the category and the id in the file change too. A signature covers the id, so the item is signed again: " +
				"automatically if your key's signature is valid, else with --sign. Signatures of other keys are lost, with a warning. A tool's other " +
				"files move with it unless its directory holds another item. Items that name it get a warning and stay as they are.\n\n" +
				"Examples:\n\n    rye mv tool:acme/fetch acme/web/fetch\n    rye mv --dry-run directive:acme/old acme/new\n    rye mv --sign tool:theirs/x acme/x",
			Aka: []string{"rename", "move"},
			New: func() cli.Runner { return new(mvRun) }, Schema: "mv/1", Output: mvAnswer{},
		},
		{
			Path: "rm", Quiet: true, Group: "items", Help: "Remove items from the project.",
			More: "An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**'), or a file below .ai. Globs match items of the project, or " +
				"of the user space outside of projects. A tool's other files are removed with it, unless another item is in its directory. rye shows " +
				"what it will remove, asks, and warns about items that name a removed one.\n\nExamples:\n\n    rye rm tool:acme/fetch\n" +
				"    rye rm --dry-run 'tool:acme/**'\n    rye --yes rm directive:acme/old",
			Aka: []string{"delete"},
			New: func() cli.Runner { return new(rmRun) }, Schema: "rm/1", Output: rmAnswer{},
		},
		{
			Path: "search", Group: "items", Help: "Search items by their text.",
			More: "It searches everything that rye ls lists, the library and its documentation included. A QUERY may be\n\n    shell command            " +
				"both words, anywhere; or shell AND command\n    shell OR bash            either\n    NOT shell, -shell        not " +
				"that word\n    (read OR write) -bash    parentheses\n    \"run a command\"          the words in a row\n    \"run command\"~5          " +
				"both, at most five words apart\n    deploy*, *sys*, wr?te    any characters, one character\n    kubernets~, kubernets~2  at most one or " +
				"two typing errors away\n    name:bash                the word in that field: id, name, title,\n" +
				"                             description, category, tags, content\n\n" +
				"NOT binds strongest, then AND, then OR; write them in capitals. Otherwise case and word order don't matter. Put words that begin with a " +
				"minus after \"--\". Rare words, titles and names rank higher.\n\nSCOPE is a kind and ids: tool:acme/web, '*:acme/**', or in the older " +
				"form tool.acme.web.*. Each search updates the index, a cache (rye cache list); -v shows what was read for it.\n\n" +
				"--registry asks the registries of rye.yaml for bundles whose id or description has all words; what they answer " +
				"is their word alone, and marked \"not locked\" until rye add has proven it.\n\nExamples:\n\n" +
				"    rye search fetch page\n    rye search '\"signed bundle\" OR lock*' --kind knowledge\n" +
				"    rye search --scope tool:acme --limit 50 --json -- name:web -legacy\n" +
				"    rye search --registry=https://registry.example.com web",
			Aka: []string{"find", "grep"},
			New: func() cli.Runner { return new(SearchRun) }, Schema: "search/1", Output: searchAnswer{},
		},
		{
			Path: "check", Group: "items", Help: "Validate items.",
			More: "Without arguments it checks every item of the project. An argument is a ref (tool:acme/fetch), a glob over refs ('tool:acme/**', " +
				"'**'), or a file or directory below .ai. For a tool it follows the executors down to the primitive. Each problem is one line that " +
				"begins with FILE:LINE:COLUMN. A file that looks like an item but isn't one is a warning. If a problem is an error, the exit status is " +
				"1. To check signatures, use rye verify. --format sarif writes a report for code scanning, --format markdown one for a job summary.\n\nExamples:\n\n    rye check\n    rye check tool:acme/fetch 'directive:**'\n" +
				"    rye check .ai/tools/acme --json",
			Aka: []string{"validate", "lint"},
			New: func() cli.Runner { return new(checkRun) }, Schema: "check/1", Output: checkAnswer{},
		},
	}
}
