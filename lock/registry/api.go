package registry

// What a client sends to a registry's routes below /v1.

// A Withdrawal yanks a version, or unpublishes it.
type Withdrawal struct {
	Bundle    string `json:"bundle"`
	Version   string `json:"version"`
	Unpublish bool   `json:"unpublish,omitempty"`
}

// An OwnerChange adds an owner to a namespace, or removes one.
type OwnerChange struct {
	Account string `json:"account"`
	Add     bool   `json:"add"`
}
