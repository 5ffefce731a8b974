package agenttools

import (
	"reflect"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestRefAsID says that item_id may be a ref, as a search answers it: the same item, and the same permission for it.
func TestRefAsID(t *testing.T) {
	for _, id := range []string{"my/add", "tool:my/add"} {
		a := ReadArguments(map[string]any{"item_type": "tool", "item_id": id})
		if ref, err := a.Ref(); err != nil || ref.String() != "tool:my/add" || a.ID != "my/add" {
			t.Errorf("%s: %v, %v, id %s", id, ref, err, a.ID)
		}
		if ref, err := (item{"tool", id}).ref(); err != nil || ref.String() != "tool:my/add" {
			t.Errorf("%s: %v, %v", id, ref, err)
		}
		if got, want := (item{"tool", id}).loads(), (item{"tool", "my/add"}).loads(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: loading needs %v, not %v", id, got, want)
		}
		got, want := execution{Kind: "tool", ID: id}.needs(), execution{Kind: "tool", ID: "my/add"}.needs()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: executing needs %v, not %v", id, got, want)
		}
	}
	for _, id := range []string{"directive:my/add", "tool:tool:my/add", ":my/add"} {
		_, err := item{"tool", id}.ref()
		if f := fault.Of(err); err == nil || f.Code != fault.Validation || len(f.Why) == 0 {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := (item{"tool", "my//add"}).ref(); fault.CodeOf(err) != fault.Validation {
		t.Errorf("an id of no item: %v", err)
	}
}
