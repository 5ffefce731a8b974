package rows

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// The limits of a row.
const (
	MaxName  = 500
	MaxValue = 256 << 10
)

// Compact returns the form in which stores keep a value: JSON without spaces between its parts, and with "<", ">" and
// "&" escaped. It refuses what isn't a JSON object, and a value that is too large.
func Compact(value []byte) ([]byte, error) {
	b, err := json.Marshal(json.RawMessage(value))
	if err != nil {
		return nil, fault.New(fault.Validation, "invalid JSON: %v", err).From(err)
	}
	if b[0] != '{' {
		return nil, fault.New(fault.Validation, "invalid value: expected a JSON object")
	}
	if len(b) > MaxValue {
		return nil, fault.New(fault.Limit, "the value has %d bytes, at most %d are allowed", len(b), MaxValue).
			On("bytes", len(b)).On("most", MaxValue)
	}
	return b, nil
}

// CheckName refuses an invalid name of a row.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !visible(name) {
		return fault.New(fault.Validation, "invalid name %.40q: expected 1 to %d visible ASCII characters", name,
			MaxName)
	}
	return nil
}

// visible reports whether a text has only visible ASCII characters.
func visible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// View calls look with a Reader over a store's state. That Reader checks names before it asks the store.
func View(state Reader, look func(Reader) error) error { return look(&pending{state: state}) }

// Change calls change with a Writer over a store's state, and returns what it wrote, sorted by name. A row without a
// value is to be deleted. Change writes nothing itself.
func Change(state Reader, change func(Writer) error) ([]Row, error) {
	p := &pending{state: state, writes: map[string][]byte{}}
	if err := change(p); err != nil {
		return nil, err
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.sorted("", ""), nil
}

// pending shows writes that the store doesn't have yet over the store's state.
type pending struct {
	state  Reader
	writes map[string][]byte // nil: to be deleted
	err    error             // of the first invalid write
}

// Get implements Reader.
func (p *pending) Get(name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if value, ok := p.writes[name]; ok {
		return value, nil
	}
	return p.state.Get(name)
}

// Put implements Writer.
func (p *pending) Put(name string, value []byte) {
	err := CheckName(name)
	if err == nil {
		value, err = Compact(value)
		if err != nil {
			err = fault.Wrap(err, "%s: %v", name, err)
		}
	}
	p.write(name, value, err)
}

// Delete implements Writer.
func (p *pending) Delete(name string) { p.write(name, nil, CheckName(name)) }

func (p *pending) write(name string, value []byte, err error) {
	if err == nil {
		p.writes[name] = value
	} else if p.err == nil {
		p.err = err
	}
}

// sorted returns the writes that a Scan would show.
func (p *pending) sorted(prefix, after string) (all []Row) {
	for _, name := range slices.Sorted(maps.Keys(p.writes)) {
		if strings.HasPrefix(name, prefix) && name > after {
			all = append(all, Row{name, p.writes[name]})
		}
	}
	return all
}

// Scan implements Reader.
func (p *pending) Scan(prefix, after string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for _, text := range []string{prefix, after} {
			if len(text) > MaxName || !visible(text) {
				yield(Row{}, fault.New(fault.Validation, "invalid name %.40q to scan from", text))
				return
			}
		}
		written := p.sorted(prefix, after)
		// before yields the writes before a name, and leaves out deleted rows.
		before := func(name string) bool {
			for len(written) > 0 && (name == "" || written[0].Name < name) {
				row := written[0]
				written = written[1:]
				if row.Value != nil && !yield(row, nil) {
					return false
				}
			}
			return true
		}
		for row, err := range p.state.Scan(prefix, after) {
			if err != nil {
				yield(Row{}, err)
				return
			}
			if !before(row.Name) {
				return
			}
			if len(written) > 0 && written[0].Name == row.Name {
				continue // the write takes its place
			}
			if !yield(row, nil) {
				return
			}
		}
		before("")
	}
}
