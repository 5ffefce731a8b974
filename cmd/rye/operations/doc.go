// Package operations has the commands that act on threads which have begun, whichever process drives them.
package operations
