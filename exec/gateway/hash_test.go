package gateway

import (
	"encoding/json"
	"slices"
	"testing"
)

var empty = object{"type": "object", "properties": object{}}

func text() object { return object{"type": "string"} }

func echoTool() *Tool {
	return &Tool{Name: "echo",
		Input: object{"type": "object", "properties": object{"message": text()}, "required": []any{"message"},
			"additionalProperties": false},
		Output: object{"type": "object", "properties": object{"message": text(),
			"tenant_id": object{"type": []any{"string", "null"}}}, "required": []any{"message", "tenant_id"},
			"additionalProperties": false},
		Error: object{"type": "object"}}
}

// TestInterfaceHash: the hashes are those that RGP's own servers give, so that a client can compare them.
func TestInterfaceHash(t *testing.T) {
	other := &Tool{Name: "b_tool", Input: empty, Output: empty, Error: empty}
	for _, c := range []struct {
		tools []*Tool
		hash  string
	}{
		{nil, "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"},
		{[]*Tool{echoTool()}, "f603c9a7acd9d787936f87b9f86b53c377903f520c9a7aa0d765da5bcbf84102"},
		{[]*Tool{other}, "adf651ba67ae17c66e993e64163b29a272fafa28c16510039ba890513b2ab74f"},
		{[]*Tool{other, echoTool()}, "ffe1db1def19680fa9a2fe2016c4459bb12d51e4ca060a2a3ba08cf23b2664b3"},
	} {
		if got, err := interfaceHash(c.tools); err != nil || got != c.hash {
			t.Errorf("%d tools: %s, %v", len(c.tools), got, err)
		}
	}
	// What isn't part of the interface changes nothing; each of its four parts does.
	before, _ := interfaceHash([]*Tool{echoTool()})
	said := echoTool()
	said.Description, said.Risk, said.Tags, said.Secrets = "other", "money", []string{"x"}, []string{"KEY"}
	if got, _ := interfaceHash([]*Tool{said}); got != before {
		t.Error("a description changes the hash")
	}
	seen := []string{before}
	for _, change := range []func(*Tool){func(x *Tool) { x.Name = "echo2" }, func(x *Tool) { x.Input = empty },
		func(x *Tool) { x.Output = empty }, func(x *Tool) { x.Error = empty }} {
		x := echoTool()
		change(x)
		got, err := interfaceHash([]*Tool{x})
		if err != nil || slices.Contains(seen, got) {
			t.Errorf("%s: %s, %v", x.Name, got, err)
		}
		seen = append(seen, got)
	}
}

// TestHashOf has the vectors of RGP for arguments.
func TestHashOf(t *testing.T) {
	for _, c := range []struct {
		value      any
		text, hash string
	}{
		{object{}, `{}`, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},
		{object{"name": "Alice", "age": int64(30)}, `{"age":30,"name":"Alice"}`,
			"1b3d1428a344b4a5f9e479024cd76449100aec4c3ace922a317dd45696412f77"},
		{object{"name": "Bob", "age": int64(30)}, ``,
			"e5e43c8503c8548dd46203dd7dc9c2d255917d55b0c28e1aa22fa34eea08fb65"},
		{object{"message": "hi"}, ``, "adbd982b8fe0bbd8477f09262028d3ac264001dc36e3c7579905e72c0b718755"},
		{object{"x": int64(1)}, `{"x":1}`, "5041bf1f713df204784353e82f6a4a535931cb64f1f4b4a5aeaffcb720918b22"},
		{object{"x": 1.0}, `{"x":1.0}`, "bf32f56236899e13ef54db875d136c6cbcc65244464829c54911aa9069b0ae25"},
		{object{"s": "é"}, `{"s":"\u00e9"}`, "a2a87295805f4aec2222b5f1299cf6b5ab78f56800b1aeb4c1994f3d5805415f"},
		{object{"s": "😀"}, `{"s":"\ud83d\ude00"}`, "11d71e3fb7ffcf52e38e0829b6d444cab3387957d76af6752cae8ed265bb0cb3"},
		{object{"s": "a/b<>&"}, ``, "d023d6368a23f2ddd16836f29d5270071e29f43b675a651f119a4c2996e848ce"},
		{object{"s": "\u2028"}, `{"s":"\u2028"}`, "3ae2ec9d6d322c7716a40d937d4d56d7a951f1e709909d0aae26ab2d15696213"},
		{object{"n": 1e21}, `{"n":1e+21}`, "f1ee2b60ee95a3170fdc07a577e5f3514ced26867443d69da265acadead81007"},
		{object{"n": 1e-7}, `{"n":1e-07}`, "ff7a1315299260617fe404199e54e6d976a0b03e47da54fccec073c2fa48ff5c"},
		{object{"b": true, "z": nil, "l": []any{int64(1), "2"}}, ``,
			"6147a596a927979e994eee8e1b0e0a1c1672f1576e7d34d0b015b7ddeb515214"},
	} {
		got, err := appendPython(nil, c.value)
		if err != nil || c.text != "" && string(got) != c.text || !json.Valid(got) {
			t.Errorf("%v: %s, %v", c.value, got, err)
		}
		if hash, err := hashOf(c.value); err != nil || hash != c.hash {
			t.Errorf("%s: %s, %v", got, hash, err)
		}
	}
	if _, err := hashOf(object{"f": func() {}}); err == nil {
		t.Error("a function has a hash")
	}
	const controls = "\"\\\n\r\t\b\f\x01\x7f"
	if got, _ := appendPython(nil, controls); string(got) != `"\"\\\n\r\t\b\f\u0001\u007f"` {
		t.Errorf("%s", got)
	}
	for f, want := range map[float64]string{0: "0.0", 0.0001: "0.0001", 123456789012345680: "1.2345678901234568e+17",
		1e15: "1000000000000000.0", 1e16: "1e+16", 0.00001: "1e-05", -2.5: "-2.5"} {
		if got := appendFloat(nil, f); string(got) != want {
			t.Errorf("%v: %s", f, got)
		}
	}
}
