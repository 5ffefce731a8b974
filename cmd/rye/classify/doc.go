// Package classify gives the errors of rooms that have no fault of their own yet a code, a cause and hints.
package classify
