package sign

// Message returns what a line signs.
func Message(c Claim, l Line) []byte { return c.appendMessage(nil, l) }

// V1Payload returns what the first format signs of a file.
func V1Payload(file []byte, style Style) ([]byte, error) { return style.v1Payload(file) }
