package cli

import (
	"errors"

	"github.com/alecthomas/kong"
)

// A Choice is a flag whose value may be left out: --flag alone, or --flag=VALUE.
type Choice struct {
	Set   bool
	Value string // "" if the flag stands alone
}

// IsBool implements kong.BoolMapperValue: the word after the flag isn't its value.
func (c *Choice) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (c *Choice) Decode(ctx *kong.DecodeContext) error {
	c.Set = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	if err := ctx.Scan.PopValueInto("text", &c.Value); err != nil {
		return err
	}
	if c.Value == "" {
		return errors.New("empty value (is a variable unset?)")
	}
	return nil
}
