package cas_test

import (
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/castest"
)

func TestMemory(t *testing.T) {
	castest.Store(t, func(*testing.T) cas.Store { return new(cas.Memory) })
}
