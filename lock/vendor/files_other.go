//go:build !unix

package vendor

// nonblock is nothing here: there are no FIFOs among files.
const nonblock = 0
