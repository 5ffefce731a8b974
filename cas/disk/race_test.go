//go:build race

package disk

// Under the race detector, which is about goroutines, tests that go through many states of files take one in so many.
const sample = 17
