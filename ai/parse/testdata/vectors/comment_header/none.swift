// Package x has no header.
package x
// ---
// a: 1
// ---
