package classify

import (
	"errors"

	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/build"
)

// ofBuilds recognises what the room exec/build says.
func ofBuilds(f *fault.Error) bool {
	var (
		step   *build.StepError
		input  *build.InputError
		output *build.OutputError
		differ *build.DifferError
		stray  *build.StrayError
		pure   *exec.PureError
	)
	switch {
	case errors.As(f.Err, &step):
		f.Code, f.Details = fault.NotFound, map[string]any{"step": step.Step}
		f.Hint = []string{"rye build --dry-run"}
		if meant := near.Names(step.Step, step.Known); len(meant) > 0 {
			f.Why = append(f.Why, "did you mean "+meant[0]+"?")
		}
	case errors.As(f.Err, &input):
		f.Code, f.Exit, f.Details = fault.Files, fault.ExitMissing, map[string]any{"step": input.Step, "path": input.Glob}
		f.Why = append(f.Why, "inputs: in "+recipe.File+" names files of the project, and what other steps make")
	case errors.As(f.Err, &output):
		f.Code, f.Exit, f.Details = fault.Validation, fault.ExitNo, map[string]any{"step": output.Step, "path": output.Path}
		f.Why = append(f.Why, "the tool writes its outputs in the directory that it works in, at the paths that "+recipe.File+" names")
	case errors.As(f.Err, &differ):
		f.Code, f.Details = fault.Failed, map[string]any{"step": differ.Step, "ref": differ.Tool, "differences": differ.Files}
		f.Why, f.Hint = append(f.Why, differ.Files...), []string{"rye show " + fault.Quote(differ.Tool)}
	case errors.As(f.Err, &stray):
		f.Code, f.Exit, f.Final, f.Details = fault.Conflict, fault.ExitNo, true, map[string]any{"step": stray.Step, "strays": stray.Files}
		for i, path := range stray.Files {
			if i == fault.MaxLines {
				break
			}
			f.Why = append(f.Why, path)
		}
		f.Why = append(f.Why, "what a build can't make again is not removed by one: take it away, or name its directory in no outputs")
	case errors.As(f.Err, &pure):
		f.Code, f.Details = fault.Validation, map[string]any{"ref": pure.Ref.String()}
		f.Why, f.Hint = append(f.Why, "pure: true in a tool says that it makes the same of the same, without network and files of its own"), []string{"rye docs build"}
	default:
		return false
	}
	return true
}
