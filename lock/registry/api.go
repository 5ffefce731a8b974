package registry

// What a client sends to a registry's routes below /v1.

// A Withdrawal yanks a version, or unpublishes it.
type Withdrawal struct {
	Bundle    string `json:"bundle"`
	Version   string `json:"version"`
	Unpublish bool   `json:"unpublish,omitempty"`
}

// An OwnerAction is what changes about the owners of a namespace.
type OwnerAction string

// The actions. A transfer puts an account in the caller's place, in one step.
const (
	AddOwner      OwnerAction = "add"
	RemoveOwner   OwnerAction = "remove"
	TransferOwner OwnerAction = "transfer"
)

// An OwnerChange changes the owners of a namespace.
type OwnerChange struct {
	Account string      `json:"account"`
	Action  OwnerAction `json:"action"`
}
