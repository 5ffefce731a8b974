package places

import (
	"context"

	"github.com/rye-build/rye/cas"
)

// InParallel calls f for 0 to n-1, several at once, until the context ends.
func InParallel(ctx context.Context, n int, f func(i int)) error {
	return cas.Parallel(ctx, 0, n, func(_ context.Context, i int) error {
		f(i)
		return nil
	})
}
