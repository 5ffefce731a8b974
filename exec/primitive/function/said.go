package function

import (
	"context"

	"github.com/rye-build/rye/cas/fault"
)

// Yes is the answer of a function that has done it.
func Yes(data any) (any, error) { return map[string]any{"success": true, "data": data}, nil }

// No is a function's answer to an error, in the words of the command that does the same. If the call was cancelled, it
// is the cause.
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
