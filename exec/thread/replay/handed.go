package replay

import (
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// Hand returns what the record has of the messages that a thread was handed by another one: nothing if it wasn't.
func Hand(messages []any) ([]transcript.Payload, error) {
	if messages == nil {
		return nil, nil
	}
	text, err := jcs.Append(nil, messages)
	return []transcript.Payload{transcript.Artifact{Call: "handoff", Digest: cas.Sum(text), Media: "application/json",
		Content: string(text)}}, err
}

// Handed takes the messages that a thread was handed by the one before it.
func (r *Recorder) Handed(thread, before string) ([]any, error) {
	e, err := r.Take()
	if err != nil {
		return nil, err
	}
	var a transcript.Artifact
	if e == nil || e.Type != transcript.TypeArtifact {
		return nil, fault.New(fault.Conflict, "the thread %s was not handed its work: resume %s", thread,
			before).Permanent()
	}
	if err := e.Decode(&a); err != nil {
		return nil, err
	}
	v, err := jcs.Parse([]byte(a.Content))
	messages, _ := v.([]any)
	return messages, err
}

// Unknown is the error of a call whose result isn't in the record: its process ended, or the disk was full.
func Unknown(what string) *fault.Error {
	return fault.New(fault.Unknown, "the result of %s was not recorded: whether it had an effect is unknown", what)
}
