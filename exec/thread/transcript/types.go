package transcript

import "github.com/rye-build/rye/exec/thread/transcript/payload"

// What events say: package payload.
type (
	Type        = payload.Type
	Payload     = payload.Payload
	Item        = payload.Item
	Limits      = payload.Limits
	Usage       = payload.Usage
	Cost        = payload.Cost
	Fault       = payload.Fault
	Started     = payload.Started
	Driver      = payload.Driver
	Request     = payload.Request
	Message     = payload.Message
	ToolCall    = payload.ToolCall
	Answer      = payload.Answer
	Classified  = payload.Classified
	CallStarted = payload.CallStarted
	CallResult  = payload.CallResult
	Artifact    = payload.Artifact
	Hook        = payload.Hook
	Limit       = payload.Limit
	Waiting     = payload.Waiting
	Continued   = payload.Continued
	Completed   = payload.Completed
	Failed      = payload.Failed
	Cancelled   = payload.Cancelled
	HandedOff   = payload.HandedOff
	NodeStarted = payload.NodeStarted
	NodeResult  = payload.NodeResult
	State       = payload.State
	Returned    = payload.Returned
	Checkpoint  = payload.Checkpoint
)

// The types of events.
const (
	TypeStarted     = payload.TypeStarted
	TypeDriver      = payload.TypeDriver
	TypeRequest     = payload.TypeRequest
	TypeAnswer      = payload.TypeAnswer
	TypeClassified  = payload.TypeClassified
	TypeCallStarted = payload.TypeCallStarted
	TypeCallResult  = payload.TypeCallResult
	TypeArtifact    = payload.TypeArtifact
	TypeHook        = payload.TypeHook
	TypeLimit       = payload.TypeLimit
	TypeWaiting     = payload.TypeWaiting
	TypeContinued   = payload.TypeContinued
	TypeCheckpoint  = payload.TypeCheckpoint
	TypeCompleted   = payload.TypeCompleted
	TypeFailed      = payload.TypeFailed
	TypeCancelled   = payload.TypeCancelled
	TypeHandedOff   = payload.TypeHandedOff
	TypeNodeStarted = payload.TypeNodeStarted
	TypeNodeResult  = payload.TypeNodeResult
	TypeState       = payload.TypeState
	TypeReturned    = payload.TypeReturned
)

// Format is the member format of thread_started.
const Format = payload.Format

// The states of calls.
const (
	CallOK        = payload.CallOK
	CallFailed    = payload.CallFailed
	CallRefused   = payload.CallRefused
	CallTimeout   = payload.CallTimeout
	CallCancelled = payload.CallCancelled
	CallUnknown   = payload.CallUnknown
)
