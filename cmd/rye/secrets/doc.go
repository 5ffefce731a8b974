// Package secrets has the commands that manage the secrets of tools: auth set, auth list, auth remove.
package secrets
