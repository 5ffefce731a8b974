package worker

// appendUsed says nothing: nothing runs here, since there is no sandbox.
func appendUsed(to []byte) ([]byte, error) { return to, nil }
