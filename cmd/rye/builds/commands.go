// Package builds has the command "rye build", which runs the build steps of bundle.yaml.
//
// How a build goes through here: buildRun.Run reads bundle.yaml (recipe.Read), turns the arguments into step names
// (stepsOf) and calls Building.Build. That opens the store, the caches and a session with the lock's tools, and
// hands them to build.Build as functions. A reporter prints each step when it ends and keeps the end of its output;
// reporter.verdict turns failed steps into the command's error. rye bundle create uses Building for a dry run.
package builds

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "build", Quiet: true, Group: "run", Help: "Run the build steps of bundle.yaml that are out of date.",
			More: "Each step under build: in bundle.yaml generates files from other files with a pure tool. If a step with the same inputs, parameters, " +
				"tool and programs ran before, its outputs come from the store, and if they are already in place, nothing happens. Independent steps run " +
				"in parallel.\n\nrye bundle create adds the outputs to the bundle, and refuses while they are out of date.\n\nExamples:\n\n" +
				"    rye build\n    rye build app --why\n    rye build --dry-run\n    rye build --check    (is each tool as pure as it says?)",
			Aka: []string{"make", "compile"},
			New: func() cli.Runner { return new(buildRun) }, Schema: "build/1", Output: &built{},
		},
	}
}
