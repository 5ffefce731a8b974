package tlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// The limits of a policy.
const (
	MaxPolicy      = 1 << 20 // bytes
	maxPolicyNames = 1024    // witnesses and groups
)

// A Policy says which logs are believed, and which witnesses must have signed their checkpoints. Its form is that of
// tlog-policy:
//
//	log NAME+HASH+BASE64 [URL]
//	witness NAME KEY [URL]
//	group NAME all|any|NUMBER MEMBER…
//	quorum NAME|none
//
// Without a log line any log is believed that is known otherwise. It is immutable.
type Policy struct {
	Logs      []Address
	Witnesses []Witness

	groups []group
	quorum string // "" for none
}

// An Address is a key and where its owner can be reached.
type Address struct {
	Key Key
	URL string
}

// A Witness is a witness by the name that the policy gives it.
type Witness struct {
	Name string
	Address
}

type group struct {
	name    string
	least   int
	members []string
}

// ParsePolicy reads a policy.
func ParsePolicy(b []byte) (*Policy, error) {
	if len(b) > MaxPolicy {
		return nil, fault.New(fault.Parsing, "log policy: it has more than %d bytes", MaxPolicy)
	}
	parser := policyParser{policy: &Policy{}, used: map[string]bool{}, names: map[string]bool{"none": true}}
	for n, line := range bytes.Split(b, []byte("\n")) {
		if err := parser.line(line); err != nil {
			return nil, fault.New(fault.Parsing, "log policy: line %d: %v", n+1, err).From(err).On("line", n+1)
		}
	}
	if !parser.decided {
		return nil, fault.New(fault.Parsing, "log policy: expected one line quorum NAME, or quorum none")
	}
	return parser.policy, nil
}

type policyParser struct {
	policy  *Policy
	names   map[string]bool // witnesses and groups, and "none"
	used    map[string]bool // members of a group
	decided bool
}

func (p *policyParser) line(line []byte) error {
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return errors.New("it has a control character")
		}
	}
	words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	switch args := words[1:]; {
	case words[0] == "log" && (len(args) == 1 || len(args) == 2):
		return p.log(args)
	case words[0] == "witness" && (len(args) == 2 || len(args) == 3):
		return p.witness(args)
	case words[0] == "group" && len(args) >= 3:
		return p.group(args[0], args[1], args[2:])
	case words[0] == "quorum" && len(args) == 1:
		return p.quorum(args[0])
	}
	return errors.New("expected log KEY [URL], witness NAME KEY [URL], group NAME all|any|NUMBER MEMBER… or " +
		"quorum NAME")
}

func address(words []string) (a Address, err error) {
	if a.Key, err = ParseKey(words[0]); err != nil {
		return a, err
	}
	if len(words) > 1 {
		a.URL = words[1]
	}
	return a, nil
}

// sameKey reports whether two keys are one, whatever their names.
func sameKey(a, b Key) bool {
	return a.algorithm == b.algorithm && a.public == b.public && (!a.public.IsZero() || a.text == b.text)
}

func (p *policyParser) log(args []string) error {
	log, err := address(args)
	if err != nil {
		return err
	}
	if !log.Key.IsLog() {
		return errors.New("it is not the key of a log: expected Ed25519 (algorithm 1)")
	}
	if slices.ContainsFunc(p.policy.Logs, func(other Address) bool { return sameKey(other.Key, log.Key) }) {
		return errors.New("another line has the same key")
	}
	p.policy.Logs = append(p.policy.Logs, log)
	return nil
}

func (p *policyParser) name(name string) error {
	if p.names[name] {
		return fmt.Errorf("the name %+q is taken", name)
	}
	if len(p.names) > maxPolicyNames {
		return fmt.Errorf("more than %d witnesses and groups", maxPolicyNames)
	}
	p.names[name] = true
	return nil
}

func (p *policyParser) witness(args []string) error {
	at, err := address(args[1:])
	if err != nil {
		return err
	}
	if at.Key.IsLog() {
		return errors.New("it is the key of a log: expected the key of a witness, such as algorithm 4")
	}
	if slices.ContainsFunc(p.policy.Witnesses, func(other Witness) bool { return sameKey(other.Key, at.Key) }) {
		return errors.New("another line has the same key")
	}
	if err := p.name(args[0]); err != nil {
		return err
	}
	p.policy.Witnesses = append(p.policy.Witnesses, Witness{args[0], at})
	return nil
}

func (p *policyParser) group(name, least string, members []string) error {
	g := group{name: name, members: members}
	switch least {
	case "all":
		g.least = len(members)
	case "any":
		g.least = 1
	default:
		n, err := strconv.Atoi(least)
		if err != nil || strconv.Itoa(n) != least || n < 1 || n > len(members) {
			return fmt.Errorf("%+q is not all, any or a number from 1 to %d", least, len(members))
		}
		g.least = n
	}
	for _, member := range members {
		switch {
		case member == "none" || !p.names[member]:
			return fmt.Errorf("%+q is not a witness or group of a line above", member)
		case p.used[member]:
			return fmt.Errorf("%+q is a member already: one counts once", member)
		}
		p.used[member] = true
	}
	if err := p.name(name); err != nil {
		return err
	}
	p.policy.groups = append(p.policy.groups, g)
	return nil
}

func (p *policyParser) quorum(name string) error {
	switch {
	case p.decided:
		return errors.New("another line has the quorum")
	case !p.names[name]:
		return fmt.Errorf("%+q is not a witness or group of a line above", name)
	}
	p.decided = true
	if name != "none" {
		p.policy.quorum = name
	}
	return nil
}

// Keys returns the keys of the witnesses, as Open takes them.
func (p *Policy) Keys() []Key {
	if p == nil {
		return nil
	}
	keys := make([]Key, len(p.Witnesses))
	for i, w := range p.Witnesses {
		keys[i] = w.Key
	}
	return keys
}

// Check returns why the policy doesn't believe a checkpoint, which must have been opened with the policy's Keys. A nil
// policy believes every log.
func (p *Policy) Check(c *Checkpoint, log Key) error {
	if p == nil {
		return nil
	}
	if len(p.Logs) > 0 && !slices.ContainsFunc(p.Logs, func(a Address) bool { return a.Key == log }) {
		return fault.New(fault.UntrustedKey, "the log policy doesn't list the log %q", log.Name).
			Because("its key is "+log.String()).On("log", log.Name)
	}
	if p.quorum == "" {
		return nil
	}
	var signed, missing []string
	met := map[string]bool{}
	for _, w := range p.Witnesses {
		_, met[w.Name] = c.CosignedAt(w.Key)
		switch {
		case met[w.Name]:
			signed = append(signed, w.Name)
		case !w.Key.IsWitness():
			missing = append(missing, w.Name+" (a kind of signature that rye doesn't verify)")
		default:
			missing = append(missing, w.Name)
		}
	}
	for _, g := range p.groups {
		count := 0
		for _, member := range g.members {
			if met[member] {
				count++
			}
		}
		met[g.name] = count >= g.least
	}
	if met[p.quorum] {
		return nil
	}
	return fault.New(fault.BelowThreshold, "too few witnesses have signed the checkpoint of the log %q at size %d",
		log.Name, c.Size).
		Because("signed: "+listed(signed)+"; missing: "+listed(missing)+"; the quorum is "+p.quorum).
		On("log", log.Name).On("size", c.Size).On("signed", signed).On("missing", missing)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
