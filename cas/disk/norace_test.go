//go:build !race

package disk

const sample = 1
