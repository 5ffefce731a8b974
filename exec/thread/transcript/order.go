package transcript

import (
	"fmt"
	"maps"

	"github.com/rye-build/rye/manifest/key"
)

// maxOpen bounds the calls that run in parallel.
const maxOpen = 1024

// An order is the state that decides which event may come next.
type order struct {
	lines         int64
	ended         Type // "" before the end
	epoch         int64
	key           key.Public // of the driver
	turn, attempt float64    // of the unanswered request; 0 without one
	open          map[string]bool
}

// next accepts the next event, or refuses it without a change.
func (o *order) next(e *Event) error {
	switch first := e.Type == TypeStarted; {
	case first != (o.lines == 0):
		return fmt.Errorf("unexpected %s: thread_started is the first event, and only the first", e.Type)
	case o.lines == 1 && e.Type != TypeDriver:
		return fmt.Errorf("unexpected %s: the second event is driver", e.Type)
	case o.ended != "" && e.Type != TypeCheckpoint:
		return fmt.Errorf("%s can't follow %s: the thread has ended", e.Type, o.ended)
	}
	if err := o.content(e); err != nil {
		return err
	}
	o.lines++
	return nil
}

func (o *order) content(event *Event) error {
	switch object := event.value; event.Type {
	case TypeStarted:
		o.open = map[string]bool{}
	case TypeDriver:
		epoch := int64(object["epoch"].(float64))
		if epoch <= o.epoch {
			return fmt.Errorf("epoch %d after epoch %d", epoch, o.epoch)
		}
		k, err := key.ParsePublic(object["key"].(string))
		if err != nil {
			return err
		}
		o.epoch, o.key = epoch, k
	case TypeRequest:
		o.turn, o.attempt = object["turn"].(float64), object["attempt"].(float64)
	case TypeAnswer, TypeClassified:
		if o.turn == 0 || object["turn"] != o.turn || object["attempt"] != o.attempt {
			return fmt.Errorf("%s without a request: turn %v, attempt %v", event.Type, object["turn"],
				object["attempt"])
		}
		o.turn, o.attempt = 0, 0
	case TypeCallStarted:
		return o.begin(object["call"].(string))
	case TypeCallResult:
		call := object["call"].(string)
		if !o.open[call] {
			return fmt.Errorf("call %s ends without having begun", call)
		}
		delete(o.open, call)
	default:
		if event.Type.IsEnd() {
			o.ended = event.Type
		}
	}
	return nil
}

// clone returns an independent copy.
func (o *order) clone() *order {
	c := *o
	c.open = maps.Clone(o.open)
	return &c
}

func (o *order) begin(call string) error {
	switch {
	case o.open[call]:
		return fmt.Errorf("call %s begins twice", call)
	case len(o.open) == maxOpen:
		return fmt.Errorf("more than %d calls run in parallel", maxOpen)
	}
	o.open[call] = true
	return nil
}
