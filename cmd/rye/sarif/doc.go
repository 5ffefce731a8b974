// Package sarif writes the findings of a check for other programs: SARIF for code scanning, Markdown for job
// summaries.
//
// A command that checks something embeds Flag for --format and returns an answer with findings; Flag.Render writes
// them:
//
//	func (c *checkRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
//		return c.Render(a, "check", func() (cli.Answer, error) { return c.run(ctx, a) })
//	}
//
// For JSON there is only the global flag --json, which prints the answer itself.
//
// How a report is made: Flag.Render runs the command, and asks its answer for findings if it is a Source. explain
// adds the command's error if no finding explains the exit status. relative and shorten take the directories of
// this machine out of places and texts, sort orders the findings, and SARIF or Markdown writes them. Renderers of
// findings use OfProblems and OfChanges to make them from problems and changes.
//
// # SARIF
//
// A log of SARIF 2.1.0 with one run, indented by two spaces, with a final line end. The same findings give the same
// bytes: there is no time, no machine and no absolute path in it.
//
//	rule      the code of an error; its help is that of the table of codes (package fault)
//	result    ruleId, level, message, and one place. The message ends with the command to paste, if there is one
//	place     a URI relative to the directory that holds .git, else to the project, and a line. A finding about a
//	          whole file is on line 1 and has "wholeFile": true among its properties. Columns count characters
//	category  automationDetails.id is "rye/COMMAND/", so that uploads of several commands don't replace each other
//
// An error that ended the command before it could look at everything is a notification of the invocation, whose
// executionSuccessful is then false. If there is no finding that explains the exit status, the error is a finding too.
//
// # Markdown
//
// A heading, a sentence with counts, a table with a line for each finding, and the commands to paste. A text from
// outside can't leave its cell or become markup: see Code. A table has at most 300 rows, and fewer in a report of 900
// KiB, and says how many more there are.
package sarif
