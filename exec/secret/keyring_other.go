//go:build windows || darwin

package secret

// nobodyThere says no: the system has a keyring.
func nobodyThere(error) bool { return false }
