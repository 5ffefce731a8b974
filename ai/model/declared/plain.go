package declared

import "github.com/rye-build/rye/ai/value"

// Plain returns a value as JSON readers see it. Numbers on which they disagree, which Read reported, become errors,
// so that an invalid item doesn't get the hash of another one.
func Plain(v *value.Value) any {
	if v.IsNull() {
		return nil
	}
	j, err := v.JSON()
	if err != nil {
		return err
	}
	return j
}
