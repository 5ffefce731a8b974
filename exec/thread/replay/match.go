package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Difference is the first event that isn't as it was recorded.
type Difference struct {
	Line     int64           `json:"line"`
	Turn     int64           `json:"turn"`
	Type     transcript.Type `json:"type"`               // as recorded
	Recorded map[string]any  `json:"recorded,omitempty"` // the part that is compared
	Now      map[string]any  `json:"now,omitempty"`
	NowType  transcript.Type `json:"now_type,omitempty"` // "" if nothing is written now
}

// Fault returns the difference as an error: CONFLICT.
func (d *Difference) Fault() *fault.Error {
	return fault.New(fault.Conflict, "%s", d).On("line", d.Line).On("turn",
		d.Turn).From(d).Permanent().Because(d.Lines()...)
}

// Error implements error.
func (d *Difference) Error() string {
	return fmt.Sprintf("the thread does something else than the record: line %d, turn %d", d.Line, d.Turn)
}

// Lines shows the difference, two lines for each member.
func (d *Difference) Lines() (lines []string) {
	if d.Type != d.NowType {
		return []string{"recorded: " + string(d.Type), "now:      " + cmp.Or(string(d.NowType), nothing)}
	}
	all := map[string]any{}
	maps.Copy(all, d.Recorded)
	maps.Copy(all, d.Now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was, is := short(d.Recorded, d.Now, name); was != is {
			lines = append(lines, fmt.Sprintf("recorded: %s %s", name, was), fmt.Sprintf("now:      %s %s", name, is))
		}
	}
	return lines
}

// nothing is shown of what isn't there.
const nothing = "nothing"

// short shows a member of two objects as JSON, long ones as Apart does.
func short(a, b map[string]any, name string) (string, string) {
	return Apart(text(a, name), text(b, name))
}

// Apart shows two texts. Of long ones it shows the part where they begin to differ.
func Apart(was, is string) (string, string) {
	const before, most = 100, 400
	same := 0
	for same < min(len(was), len(is)) && was[same] == is[same] {
		same++
	}
	from := max(same-before, 0)
	if max(len(was), len(is)) <= most {
		from = 0
	}
	part := func(s string) string {
		s, begin, end := s[from:], "", ""
		if from > 0 {
			begin = "…"
		}
		if len(s) > most {
			s, end = s[:most], "…"
		}
		return begin + strings.ToValidUTF8(s, "") + end
	}
	return part(was), part(is)
}

// text returns a member of what package jcs has parsed as JSON.
func text(of map[string]any, name string) string {
	v, ok := of[name]
	if !ok {
		return nothing
	}
	b, _ := jcs.Append(nil, v)
	return string(b)
}

// apart are the members that are never compared: times, ids and signatures.
var apart = map[transcript.Type][]string{
	transcript.TypeStarted: {"agents", "continues", "directive", "lock", "loop", "model", "parent", "policy",
		"principal",
		"provider", "set"},
	transcript.TypeRequest:     {"provider"},
	transcript.TypeClassified:  {"delay"},
	transcript.TypeAnswer:      {"duration"},
	transcript.TypeCallStarted: {"child", "digest", "key"},
	transcript.TypeCallResult:  {"duration", "exec", "receipt"},
	transcript.TypeWaiting:     {"on", "until"},
	transcript.TypeCheckpoint:  {"sig"},
	transcript.TypeCancelled:   {"by"},
	transcript.TypeHandedOff:   {"next"},
}

// alone are the only members that a thread which goes on has to have as recorded.
var alone = map[transcript.Type][]string{
	transcript.TypeRequest:     {"turn", "attempt", "digest"},
	transcript.TypeCallStarted: {"turn", "call", "id", "name", "input"},
	transcript.TypeHook:        {"id", "event"},
	transcript.TypeNodeStarted: {"step", "node", "attempt"},
	transcript.TypeNodeResult:  {"step", "node", "status", "next"},
	transcript.TypeState:       {"step", "digest"},
	transcript.TypeReturned:    {"step", "digest"},
}

// compared returns the part of an event that is compared.
func compared(kind transcript.Type, payload []byte, all bool) (map[string]any, error) {
	v, err := jcs.Parse(payload)
	if err != nil {
		return nil, err
	}
	fields, _ := v.(map[string]any)
	if !all {
		maps.DeleteFunc(fields, func(name string, _ any) bool { return !slices.Contains(alone[kind], name) })
		return fields, nil
	}
	for _, name := range apart[kind] {
		delete(fields, name)
	}
	if cost, ok := fields["cost"].(map[string]any); ok {
		delete(cost, "elapsed")
	}
	if kind == transcript.TypeLimit && fields["code"] == Time {
		delete(fields, "current")
	}
	return fields, nil
}

// Match compares the next event with one that the thread would write now, and takes it. done is true if the record has
// ended: nothing is compared then. With all set everything is compared but times, ids and signatures, else what a
// thread that goes on has to have in common. A difference is an error of its Fault.
func (p *Player) Match(payload transcript.Payload, turn int64, all bool) (event *transcript.Event, done bool,
	err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	event, err = p.peek()
	if err != nil || event == nil {
		return nil, err == nil, err
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return nil, false, err
	}
	now, err := compared(payload.Type(), text, all)
	d, worse := difference(event, turn, all)
	if err = cmp.Or(err, worse); err != nil {
		return nil, false, err
	}
	if d.Now, d.NowType = now, payload.Type(); d.Type != d.NowType || !reflect.DeepEqual(d.Recorded, d.Now) {
		return nil, false, d.Fault()
	}
	p.take()
	return event, false, nil
}

// difference returns that to an event with nothing in its place.
func difference(e *transcript.Event, turn int64, all bool) (*Difference, error) {
	was, err := compared(e.Type, e.Payload, all)
	return &Difference{Line: e.Seq, Turn: turn, Type: e.Type, Recorded: was}, err
}

// Rest returns a difference if the record goes on, nil if it has ended.
func (p *Player) Rest(turn int64) error {
	e, err := p.Peek()
	if e == nil || err != nil {
		return err
	}
	d, err := difference(e, turn, true)
	return cmp.Or(err, error(d.Fault()))
}

// Cut returns a difference if the record goes on, where the thread can't because an answer or a result is missing.
// Only these may follow: results of calls that were made at the same time, and the end of a thread that stopped in the
// middle, by an error, by a request, or to wait.
func (p *Player) Cut(turn int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.peek(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		payload, err := p.look(i)
		if payload == nil || err != nil {
			return err
		}
		switch payload.(type) {
		case transcript.Failed, transcript.Cancelled:
			return nil
		case transcript.Artifact, transcript.CallResult, transcript.Driver, transcript.Continued, transcript.Waiting,
			transcript.Checkpoint:
		default:
			d, err := difference(p.ahead[i], turn, true)
			return cmp.Or(err, error(d.Fault()))
		}
	}
}

// Differs reports whether an error is a difference between a thread and its record.
func Differs(err error) bool {
	_, is := errors.AsType[*Difference](err)
	return is
}

// A Played is what came of a thread that was run again from its record.
type Played struct {
	Thread     string      `json:"thread"`
	Directive  string      `json:"directive"`
	Status     string      `json:"status"` // that the thread has now, "unfinished" where the record ends before
	Turns      int64       `json:"turns"`
	Difference *Difference `json:"difference,omitempty"` // nil if everything was as it was recorded
}

// Whole returns why a thread isn't as its recording: what differs, or that the recording ends before the thread.
func (p *Played) Whole() error {
	switch {
	case p.Difference != nil:
		return p.Difference.Fault()
	case p.Status == transcript.StatusUnfinished:
		return fault.New(fault.Conflict, "the recording ends before the thread does: turn %d", p.Turns).On("turn",
			p.Turns).Permanent()
	}
	return nil
}

// Take takes an error that is a difference, and returns any other.
func (p *Played) Take(err error) error {
	if d, is := errors.AsType[*Difference](err); is {
		p.Difference = d
		return nil
	}
	return err
}
