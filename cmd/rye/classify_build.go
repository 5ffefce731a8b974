package main

import (
	"errors"

	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/build"
)

// ofBuilds recognises what the room exec/build says.
func (f *fault) ofBuilds() bool {
	var (
		step   *build.StepError
		input  *build.InputError
		output *build.OutputError
		differ *build.DifferError
		stray  *build.StrayError
		pure   *exec.PureError
	)
	switch {
	case errors.As(f.err, &step):
		f.code, f.details = codeItem, map[string]any{"step": step.Step}
		f.hint = []string{"rye build --dry-run"}
		if meant := near(step.Step, step.Known); len(meant) > 0 {
			f.why = append(f.why, "did you mean "+meant[0]+"?")
		}
	case errors.As(f.err, &input):
		f.code, f.exit, f.details = codeFiles, exitMissing, map[string]any{"step": input.Step, "path": input.Glob}
		f.why = append(f.why, "inputs: in "+recipe.File+" names files of the project, and what other steps make")
	case errors.As(f.err, &output):
		f.code, f.exit, f.details = codeValidation, exitNo, map[string]any{"step": output.Step, "path": output.Path}
		f.why = append(f.why, "the tool writes its outputs in the directory that it works in, at the paths that "+recipe.File+" names")
	case errors.As(f.err, &differ):
		f.code, f.details = "EXECUTION_FAILED", map[string]any{"step": differ.Step, "ref": differ.Tool, "differences": differ.Files}
		f.why, f.hint = append(f.why, differ.Files...), []string{"rye show " + quoteArg(differ.Tool)}
	case errors.As(f.err, &stray):
		f.code, f.exit, f.stays, f.details = "CONFLICT", exitNo, true, map[string]any{"step": stray.Step, "strays": stray.Files}
		for i, path := range stray.Files {
			if i == mostTold {
				break
			}
			f.why = append(f.why, path)
		}
		f.why = append(f.why, "what a build can't make again is not removed by one: take it away, or name its directory in no outputs")
	case errors.As(f.err, &pure):
		f.code, f.details = codeValidation, map[string]any{"ref": pure.Ref.String()}
		f.why, f.hint = append(f.why, "pure: true in a tool says that it makes the same of the same, without network and files of its own"), []string{"rye docs build"}
	default:
		return false
	}
	return true
}
