// Package witness has the checkpoints of a log cosigned by witnesses (C2SP tlog-witness).
//
// How a checkpoint goes through here: Cosign asks all witnesses of the policy that have an address, at once (ask).
// Each gets the checkpoint with a proof that it continues the last one that it has signed; a witness that
// knows another one answers with its size, and is asked once more. Signatures that verify are added to the checkpoint.
// If they are fewer than the policy's quorum, the checkpoint isn't shown: clients would refuse it.
package witness

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Client asks witnesses. It is safe for concurrent use.
type Client struct {
	Policy *tlog.Policy // its witnesses with an address are asked
	Log    tlog.Key
	Web    *web.Client
	Wait   time.Duration // for each witness; 0: 5 seconds
	Warn   func(error)   // of witnesses that don't answer; may be nil

	mu   sync.Mutex
	seen map[string]int64 // by key, the size of the last checkpoint that a witness has signed
}

const (
	defaultWait = 5 * time.Second
	maxAnswer   = 64 << 10
)

// Cosign returns a checkpoint with the signatures of the witnesses. tree is the checkpoint's.
func (c *Client) Cosign(ctx context.Context, checkpoint *tlog.Checkpoint, tree tlog.Tree) (*tlog.Checkpoint, error) {
	answers := c.askAll(ctx, checkpoint, tree)
	cosigned := checkpoint
	for i, lines := range answers {
		if lines == nil {
			continue
		}
		merged, err := cosigned.Merge(lines, c.Log, c.Policy.Witnesses[i].Key, c.Policy.Keys()...)
		if err != nil {
			if c.Warn != nil {
				c.Warn(err)
			}
			continue
		}
		cosigned = merged
	}
	if err := c.Policy.Check(cosigned, c.Log); err != nil {
		return nil, fault.New(fault.Unavailable, "too few witnesses have signed the log's checkpoint at size %d",
			checkpoint.Size).From(err).Because(fault.Of(err).Why...)
	}
	return cosigned, nil
}

// askAll asks all witnesses that have an address at once, and returns their lines; nil for one without an answer.
func (c *Client) askAll(ctx context.Context, checkpoint *tlog.Checkpoint, tree tlog.Tree) [][]byte {
	wait := c.Wait
	if wait == 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answers := make([][]byte, len(c.Policy.Witnesses))
	var all sync.WaitGroup
	for i, witness := range c.Policy.Witnesses {
		if witness.URL == "" || !witness.Key.IsWitness() {
			continue
		}
		all.Go(func() {
			var err error
			if answers[i], err = c.ask(ctx, witness, checkpoint, tree); err != nil && c.Warn != nil {
				c.Warn(fault.Wrap(err, "the witness %s: %v", witness.Name, err))
			}
		})
	}
	all.Wait()
	return answers
}

// Confirm returns nil if every witness of the policy has signed this checkpoint, and none newer. It is for a registry
// whose rows come from a backup: a witness that doesn't answer may be the one that knows more.
func (c *Client) Confirm(ctx context.Context, checkpoint *tlog.Checkpoint, tree tlog.Tree) error {
	answers := c.askAll(ctx, checkpoint, tree)
	for i, lines := range answers {
		witness := c.Policy.Witnesses[i]
		if lines != nil {
			if _, err := checkpoint.Merge(lines, c.Log, witness.Key, c.Policy.Keys()...); err == nil {
				continue
			}
		}
		return fault.New(fault.Unavailable,
			"the witness %s has not confirmed that %d entries are all that the log has", witness.Name, checkpoint.Size)
	}
	if len(answers) == 0 {
		return fault.New(fault.Unavailable, "the policy names no witness that could be asked")
	}
	return nil
}

// ask asks one witness, and returns its lines.
func (c *Client) ask(ctx context.Context, w tlog.Witness, checkpoint *tlog.Checkpoint, tree tlog.Tree) ([]byte,
	error) {
	old := c.known(w)
	for range 2 {
		body, err := request(ctx, old, checkpoint, tree)
		if err != nil {
			return nil, err
		}
		status, answer, err := c.Web.Send(ctx, web.Request{Method: "POST",
			Address: strings.TrimSuffix(w.URL, "/") + "/add-checkpoint", Type: "text/plain; charset=utf-8",
			Body: strings.NewReader(body), Size: int64(len(body))}, maxAnswer)
		switch {
		case err != nil:
			return nil, err
		case status == 200:
			c.remember(w, checkpoint.Size)
			return answer, nil
		case status != 409:
			return nil, fault.New(fault.Registry, "it answers with HTTP status %d: %s", status,
				fault.Clip(strings.TrimSpace(string(answer)), 200))
		}
		text := strings.TrimSuffix(string(answer), "\n")
		if old, err = strconv.ParseInt(text, 10, 64); err != nil || old < 0 || strconv.FormatInt(old, 10) != text {
			return nil, fault.New(fault.Registry, "it answers with a size that is none: %q", fault.Clip(text, 100))
		}
		if old > checkpoint.Size {
			return nil, fault.New(fault.Registry, "it has signed a checkpoint with %d entries, and this log has %d",
				old, checkpoint.Size).Because("the registry has lost entries: restore a newer backup")
		}
		c.remember(w, old)
	}
	return nil, fault.New(fault.Registry, "it knows another checkpoint each time")
}

// request returns the body of add-checkpoint.
func request(ctx context.Context, old int64, checkpoint *tlog.Checkpoint, tree tlog.Tree) (string, error) {
	hashes, err := tree.Consistency(ctx, old)
	if err != nil {
		return "", err
	}
	var body strings.Builder
	fmt.Fprintf(&body, "old %d\n", old)
	for i := range hashes {
		body.WriteString(base64.StdEncoding.EncodeToString(hashes[i][:]) + "\n")
	}
	body.WriteString("\n")
	body.Write(checkpoint.Text)
	return body.String(), nil
}

func (c *Client) known(w tlog.Witness) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[w.Key.String()]
}

func (c *Client) remember(w tlog.Witness, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int64{}
	}
	c.seen[w.Key.String()] = size
}
