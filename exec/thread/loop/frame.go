package loop

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// MaxFrame is the longest frame.
const MaxFrame = 64 << 20

// A frame is one message between the processes.
type frame struct {
	Loop int64 `json:"loop"`

	Start  *start          `json:"start,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cancel string          `json:"cancel,omitempty"`

	Ask   string          `json:"ask,omitempty"`
	Args  json.RawMessage `json:"args,omitempty"`
	Print string          `json:"print,omitempty"`
	End   *end            `json:"end,omitempty"`
}

type start struct {
	Files  map[string]string `json:"files"`
	Main   string            `json:"main"`
	Steps  uint64            `json:"steps"`
	Memory int64             `json:"memory"` // of the whole child
	Config json.RawMessage   `json:"config"`
}

type end struct {
	Value  json.RawMessage `json:"value,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Ended  string          `json:"ended,omitempty"`
}

// A wire writes frames. It is safe for concurrent use.
type wire struct {
	mu sync.Mutex
	to io.Writer
}

func (w *wire) send(f *frame) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(text) > MaxFrame {
		return fmt.Errorf("%d bytes between a loop and its thread; at most %d are allowed", len(text), MaxFrame)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// receive reads frames until the input ends or take returns an error.
func receive(in io.Reader, take func(*frame) error) error {
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		var size [4]byte
		if _, err := io.ReadFull(reader, size[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > MaxFrame {
			return fmt.Errorf("a frame of %d bytes", n)
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(reader, text); err != nil {
			return err
		}
		f := new(frame)
		if err := json.Unmarshal(text, f); err != nil {
			return err
		}
		if err := take(f); err != nil {
			return err
		}
	}
}
