package function

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
)

// Yes is the answer of a successful function.
func Yes(data any) (any, error) { return map[string]any{"success": true, "data": data}, nil }

// No is the answer of a failed function, in the words of the command that does the same. If the call was cancelled,
// No returns the cause as error.
func No(ctx context.Context, err error) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f := fault.Of(err)
	v := map[string]any{"success": false, "error": f.Text, "code": f.Code}
	if len(f.Why) > 0 {
		v["why"] = f.Why
	}
	if len(f.Hint) > 0 {
		v["hint"] = f.Hint
	}
	return v, nil
}
