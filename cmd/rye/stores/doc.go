// Package stores has the commands for the object store and the caches.
package stores
