package declared

import "github.com/rye-build/rye/ai/value"

// Plain returns a value as JSON's readers have it. Read told of the numbers that they disagree about; there the
// error stands in the value's place, so that an item which is invalid has no hash instead of that of another.
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
