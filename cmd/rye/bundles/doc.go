// Package bundles has the commands for bundles.
package bundles
