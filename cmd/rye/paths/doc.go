// Package paths turns flags and environment variables into what commands work on: the project, the policies, the keys,
// the store and the caches.
package paths
