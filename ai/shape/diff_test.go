package shape_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/manifest/jcs"
)

func schema(t testing.TB, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	v, err := jcs.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// lines writes a report as one line for each item: class, kind, path.
func lines(r shape.Report) string {
	var s []string
	for _, i := range r.Items {
		s = append(s, fmt.Sprintf("%s %s %s", i.Class, i.Kind, i.Path))
	}
	return strings.Join(s, "\n")
}

func object(properties string, more ...string) string {
	return `{"type":"object","properties":{` + properties + `}` + strings.Join(append([]string{""}, more...),
		",") + `}`
}

// Each row is a change of schemas, and what it is for an input, an output and an error, forwards and backwards. Words
// that aren't there are as in the one before.
func TestSchemaRules(t *testing.T) {
	const closed = `"additionalProperties":false`
	for _, row := range []struct{ name, before, after, input, output, failure, back, backOutput, backFailure string }{
		// The rows of the table, and those that complete it.
		{"required input added", object(`"a":{"type":"string"}`),
			object(`"a":{"type":"string"},"b":{"type":"string"}`, `"required":["b"]`),
			"breaking required_added /required\ncompatible property_added /properties/b",
			"compatible property_added /properties/b\ncompatible required_added /required", "",
			"compatible property_removed /properties/b",
			"breaking property_removed /properties/b",
			"warning property_removed /properties/b"},
		{"optional to required", object(`"a":{"type":"string"}`), object(`"a":{"type":"string"}`, `"required":["a"]`),
			"breaking required_added /required", "compatible required_added /required", "",
			"compatible required_removed /required", "breaking required_removed /required", ""},
		{"required without property", `{"type":"object"}`, `{"type":"object","required":["a","a"]}`,
			"breaking required_added /required", "compatible required_added /required", "",
			"compatible required_removed /required", "breaking required_removed /required", ""},
		{"another type", object(`"a":{"type":"string"}`), object(`"a":{"type":"integer"}`),
			"breaking type_changed /properties/a/type", "", "", "breaking type_changed /properties/a/type", "", ""},
		{"object to array", `{"type":"object"}`, `{"type":"array"}`,
			"breaking type_changed /type", "", "", "breaking type_changed /type", "", ""},
		{"integer to number", `{"type":"integer"}`, `{"type":"number"}`,
			"compatible type_widened /type", "breaking type_widened /type", "",
			"breaking type_narrowed /type", "compatible type_narrowed /type", ""},
		{"a type more", `{"type":"string"}`, `{"type":["string","null"]}`,
			"compatible type_widened /type", "breaking type_widened /type", "",
			"breaking type_narrowed /type", "compatible type_narrowed /type", ""},
		{"nullable", `{"type":"string"}`, `{"type":"string","nullable":true}`,
			"compatible type_widened /type", "breaking type_widened /type", "",
			"breaking type_narrowed /type", "compatible type_narrowed /type", ""},
		{"types in another order", `{"type":["null","string"]}`, `{"type":["string","null"]}`, "", "", "", "", "", ""},
		{"optional property added, open", object(`"a":{}`), object(`"a":{},"b":{"type":"string"}`),
			"compatible property_added /properties/b", "", "",
			"compatible property_removed /properties/b", "breaking property_removed /properties/b",
			"warning property_removed /properties/b"},
		{"optional property added, closed", object(`"a":{}`, closed), object(`"a":{},"b":{"type":"string"}`, closed),
			"compatible property_added /properties/b", "warning property_added /properties/b", "",
			"breaking property_removed /properties/b", "", "warning property_removed /properties/b"},
		{"property added under a schema that covers it", object(``, `"additionalProperties":{"type":"number"}`),
			object(`"b":{"type":"integer"}`, `"additionalProperties":{"type":"number"}`),
			"breaking property_added /properties/b", "compatible property_added /properties/b", "",
			"compatible property_removed /properties/b", "breaking property_removed /properties/b",
			"warning property_removed /properties/b"},
		{"property added under a schema that it covers", object(``, `"additionalProperties":{"type":"integer"}`),
			object(`"b":{"type":"number"}`, `"additionalProperties":{"type":"integer"}`),
			"compatible property_added /properties/b", "breaking property_added /properties/b", "",
			"breaking property_removed /properties/b", "", "warning property_removed /properties/b"},
		{"enum narrowed", `{"enum":["a","b",1]}`, `{"enum":["b","a"]}`,
			"breaking enum_narrowed /enum", "compatible enum_narrowed /enum", "",
			"compatible enum_widened /enum", "breaking enum_widened /enum", ""},
		{"enum changed", `{"enum":["a","b"]}`, `{"enum":["a","c"]}`, "breaking enum_changed /enum", "", "",
			"breaking enum_changed /enum", "", ""},
		{"enum added", `{"type":"string"}`, `{"type":"string","enum":["a"]}`,
			"breaking enum_narrowed /enum", "compatible enum_narrowed /enum", "",
			"compatible enum_widened /enum", "breaking enum_widened /enum", ""},
		{"enum says the type", `{"enum":["a"]}`, `{"type":"string","enum":["a",1]}`, "", "", "", "", "", ""},
		{"enum to type", `{"enum":[1,2]}`, `{"type":"integer"}`,
			"compatible enum_widened /enum", "breaking enum_widened /enum", "",
			"breaking enum_narrowed /enum", "compatible enum_narrowed /enum", ""},
		{"enum to another type", `{"enum":[1,2]}`, `{"type":"string"}`,
			"breaking type_changed /type\ncompatible enum_widened /enum",
			"breaking enum_widened /enum\nbreaking type_changed /type", "",
			"breaking enum_narrowed /enum\nbreaking type_changed /type",
			"breaking type_changed /type\ncompatible enum_narrowed /enum", ""},
		{"const", `{"const":1}`, `{"const":2}`, "breaking const_changed /const", "", "",
			"breaking const_changed /const", "", ""},
		{"const and enum", `{"const":1.0}`, `{"enum":[1]}`, "", "", "", "", "", ""},
		{"const of two", `{"enum":[1,2],"const":2}`, `{"const":2}`, "", "", "", "", "", ""},
		{"minimum", `{"type":"number","minimum":1}`, `{"type":"number","minimum":2}`,
			"breaking minimum_narrowed /minimum", "compatible minimum_narrowed /minimum", "",
			"compatible minimum_widened /minimum", "breaking minimum_widened /minimum", ""},
		{"maximum", `{"type":"number","maximum":2}`, `{"type":"number","maximum":1}`,
			"breaking maximum_narrowed /maximum", "compatible maximum_narrowed /maximum", "",
			"compatible maximum_widened /maximum", "breaking maximum_widened /maximum", ""},
		{"exclusive minimum", `{"type":"number","minimum":1}`, `{"type":"number","minimum":1,"exclusiveMinimum":1}`,
			"breaking exclusiveMinimum_narrowed /exclusiveMinimum",
			"compatible exclusiveMinimum_narrowed /exclusiveMinimum", "",
			"compatible exclusiveMinimum_widened /exclusiveMinimum",
			"breaking exclusiveMinimum_widened /exclusiveMinimum", ""},
		{"exclusive maximum of draft 4", `{"type":"number","maximum":1}`,
			`{"type":"number","maximum":1,"exclusiveMaximum":true}`,
			"breaking exclusiveMaximum_narrowed /exclusiveMaximum",
			"compatible exclusiveMaximum_narrowed /exclusiveMaximum", "",
			"compatible exclusiveMaximum_widened /exclusiveMaximum",
			"breaking exclusiveMaximum_widened /exclusiveMaximum", ""},
		{"an exclusive minimum that changes nothing", `{"type":"number","minimum":1}`,
			`{"type":"number","minimum":1,"exclusiveMinimum":0}`, "", "", "", "", "", ""},
		{"multipleOf", `{"type":"integer","multipleOf":2}`, `{"type":"integer","multipleOf":6}`,
			"breaking multipleOf_narrowed /multipleOf", "compatible multipleOf_narrowed /multipleOf", "",
			"compatible multipleOf_widened /multipleOf", "breaking multipleOf_widened /multipleOf", ""},
		{"multipleOf of fractions", `{"type":"number","multipleOf":0.5}`, `{"type":"number","multipleOf":0.25}`,
			"breaking multipleOf_changed /multipleOf", "", "", "breaking multipleOf_changed /multipleOf", "", ""},
		{"minLength", `{"type":"string"}`, `{"type":"string","minLength":1}`,
			"breaking minLength_narrowed /minLength", "compatible minLength_narrowed /minLength", "",
			"compatible minLength_widened /minLength", "breaking minLength_widened /minLength", ""},
		{"minLength of no string", `{"type":"integer"}`, `{"type":"integer","minLength":1}`, "", "", "", "", "", ""},
		{"maxLength", `{"type":"string"}`, `{"type":"string","maxLength":1}`,
			"breaking maxLength_narrowed /maxLength", "compatible maxLength_narrowed /maxLength", "",
			"compatible maxLength_widened /maxLength", "breaking maxLength_widened /maxLength", ""},
		{"pattern added", `{"type":"string"}`, `{"type":"string","pattern":"^a"}`,
			"breaking pattern_narrowed /pattern", "compatible pattern_narrowed /pattern", "",
			"compatible pattern_widened /pattern", "breaking pattern_widened /pattern", ""},
		{"another pattern", `{"type":"string","pattern":"^b"}`, `{"type":"string","pattern":"^a"}`,
			"breaking pattern_changed /pattern", "", "", "breaking pattern_changed /pattern", "", ""},
		{"format", `{"type":"string","format":"date"}`, `{"type":"string","format":"uri"}`,
			"breaking format_changed /format", "", "", "breaking format_changed /format", "", ""},
		{"closed", object(``), object(``, closed),
			"breaking additionalProperties_narrowed /additionalProperties",
			"compatible additionalProperties_narrowed /additionalProperties", "",
			"compatible additionalProperties_widened /additionalProperties",
			"breaking additionalProperties_widened /additionalProperties", ""},
		{"said to be open", object(``), object(``, `"additionalProperties":true`), "", "", "", "", "", ""},
		{"additional properties of a type", object(``, `"additionalProperties":{"type":"string"}`),
			object(``, `"additionalProperties":{"type":["string","null"]}`),
			"compatible type_widened /additionalProperties/type", "breaking type_widened /additionalProperties/type",
			"",
			"breaking type_narrowed /additionalProperties/type", "compatible type_narrowed /additionalProperties/type",
			""},
		{"a pattern of names", object(``), object(``, `"patternProperties":{"^x":{"type":"string"}}`),
			"breaking patternProperties_changed /patternProperties", "", "",
			"breaking patternProperties_changed /patternProperties", "", ""},
		{"under a pattern of names", object(``, `"patternProperties":{"^x":{"type":"string"}}`),
			object(``, `"patternProperties":{"^x":{}}`),
			"compatible type_widened /patternProperties/^x/type", "breaking type_widened /patternProperties/^x/type",
			"",
			"breaking type_narrowed /patternProperties/^x/type", "compatible type_narrowed /patternProperties/^x/type",
			""},
		{"a property beside patterns", object(``, `"patternProperties":{"^x":{"type":"string"}}`),
			object(`"x":{}`, `"patternProperties":{"^x":{"type":"string"}}`),
			"breaking property_added /properties/x", "", "", "breaking property_removed /properties/x", "",
			"warning property_removed /properties/x"},
		{"names", object(``), object(``, `"propertyNames":{"maxLength":3}`),
			"breaking propertyNames_narrowed /propertyNames", "compatible propertyNames_narrowed /propertyNames", "",
			"compatible propertyNames_widened /propertyNames", "breaking propertyNames_widened /propertyNames", ""},
		{"shorter names", object(``, `"propertyNames":{"maxLength":5}`), object(``, `"propertyNames":{"maxLength":3}`),
			"breaking propertyNames_narrowed /propertyNames", "compatible propertyNames_narrowed /propertyNames", "",
			"compatible propertyNames_widened /propertyNames", "breaking propertyNames_widened /propertyNames", ""},
		{"number of members", object(``), object(``, `"minProperties":1,"maxProperties":2`),
			"breaking maxProperties_narrowed /maxProperties\nbreaking minProperties_narrowed /minProperties",
			"compatible maxProperties_narrowed /maxProperties\ncompatible minProperties_narrowed /minProperties", "",
			"compatible maxProperties_widened /maxProperties\ncompatible minProperties_widened /minProperties",
			"breaking maxProperties_widened /maxProperties\nbreaking minProperties_widened /minProperties", ""},
		{"dependent", object(``), object(``, `"dependentRequired":{"a":["b"]}`),
			"breaking dependentRequired_narrowed /dependentRequired",
			"compatible dependentRequired_narrowed /dependentRequired", "",
			"compatible dependentRequired_widened /dependentRequired",
			"breaking dependentRequired_widened /dependentRequired", ""},
		{"nested", object(`"a":` + object(`"b/~":{"type":"array","items":{"type":"string"}}`)),
			object(`"a":` + object(`"b/~":{"type":"array","items":{"type":["string","null"]}}`)),
			"compatible type_widened /properties/a/properties/b~1~0/items/type",
			"breaking type_widened /properties/a/properties/b~1~0/items/type", "",
			"breaking type_narrowed /properties/a/properties/b~1~0/items/type",
			"compatible type_narrowed /properties/a/properties/b~1~0/items/type", ""},
		{"number of elements", `{"type":"array"}`, `{"type":"array","minItems":1,"maxItems":3,"uniqueItems":true}`,
			"breaking maxItems_narrowed /maxItems\nbreaking minItems_narrowed /minItems\nbreaking uniqueItems_narrowed /uniqueItems",
			"compatible maxItems_narrowed /maxItems\ncompatible minItems_narrowed /minItems\ncompatible uniqueItems_narrowed /uniqueItems",
			"",
			"compatible maxItems_widened /maxItems\ncompatible minItems_widened /minItems\ncompatible uniqueItems_widened /uniqueItems",
			"breaking maxItems_widened /maxItems\nbreaking minItems_widened /minItems\nbreaking uniqueItems_widened /uniqueItems",
			""},
		{"first elements", `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`,
			`{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":{"type":"integer"}}`,
			"compatible type_widened /prefixItems/1/type", "breaking type_widened /prefixItems/1/type", "",
			"breaking type_narrowed /prefixItems/1/type", "compatible type_narrowed /prefixItems/1/type", ""},
		{"first elements in two drafts",
			`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`,
			`{"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"number"}}`,
			"compatible type_widened /additionalItems/type", "breaking type_widened /additionalItems/type", "",
			"breaking type_narrowed /items/type", "compatible type_narrowed /items/type", ""},
		{"contains", `{"type":"array","contains":{"type":"string"}}`,
			`{"type":"array","contains":{"type":["string","null"]}}`,
			"compatible contains_widened /contains", "breaking contains_widened /contains", "",
			"breaking contains_narrowed /contains", "compatible contains_narrowed /contains", ""},
		{"contains, counted", `{"type":"array","contains":{"type":"string"},"maxContains":2}`,
			`{"type":"array","contains":{"type":["string","null"]},"maxContains":2}`,
			"breaking contains_changed /contains", "", "", "breaking contains_changed /contains", "", ""},
		{"counted", `{"type":"array","contains":{}}`, `{"type":"array","contains":{},"minContains":0}`,
			"breaking minContains_changed /minContains", "", "", "breaking minContains_changed /minContains", "", ""},
		{"nothing", `{"not":{"type":"string"}}`, `{"not":{"type":"integer"}}`, "breaking not_changed /not", "", "",
			"breaking not_changed /not", "", ""},
		{"not, another way", `{"not":{"type":["string","null"]}}`, `{"not":{"type":["null","string"]}}`, "", "", "",
			"", "", ""},
		{"not added", `{}`, `{"not":{"const":1}}`,
			"breaking not_narrowed /not", "compatible not_narrowed /not", "",
			"compatible not_widened /not", "breaking not_widened /not", ""},
		{"if", `{"if":{"const":1},"then":{"minimum":3}}`, `{"if":{"const":1},"then":{"minimum":2}}`,
			"compatible then_widened /then", "breaking then_widened /then", "",
			"breaking then_narrowed /then", "compatible then_narrowed /then", ""},
		{"union", `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
			`{"anyOf":[{"type":"null"},{"type":"integer"},{"type":"string"}]}`,
			"compatible anyOf_widened /anyOf", "breaking anyOf_widened /anyOf", "",
			"breaking anyOf_narrowed /anyOf", "compatible anyOf_narrowed /anyOf", ""},
		{"type to union", `{"type":"string"}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
			"compatible type_widened /type", "breaking type_widened /type", "",
			"breaking type_narrowed /type", "compatible type_narrowed /type", ""},
		{"types and union", `{"type":["string","null"]}`, `{"oneOf":[{"type":"null"},{"type":"string"}]}`, "", "", "",
			"", "", ""},
		{"unions in two forms", `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
			`{"oneOf":[{"type":"null"},{"type":"string"}]}`, "", "", "", "", "", ""},
		{"inside a union", `{"anyOf":[` + object(`"a":{"type":"string"}`) + `,{"type":"null"}]}`,
			`{"anyOf":[` + object(`"a":{"type":"integer"}`) + `,{"type":"null"}]}`,
			"breaking type_changed /anyOf/0/properties/a/type", "", "",
			"breaking type_changed /anyOf/0/properties/a/type", "", ""},
		{"one of two that overlap", `{"oneOf":[{"multipleOf":3},{"multipleOf":5}]}`,
			`{"oneOf":[{"multipleOf":3},{"multipleOf":5},{"type":"string"}]}`,
			"breaking oneOf_changed /oneOf", "", "", "breaking oneOf_changed /oneOf", "", ""},
		{"one of the same", `{"oneOf":[{"multipleOf":3},{"type":["null","integer"]}]}`,
			`{"oneOf":[{"multipleOf":3},{"type":["integer","null"]}]}`, "", "", "", "", "", ""},
		{"all of", `{"allOf":[{"minimum":1},{"maximum":3}]}`, `{"allOf":[{"maximum":4},{"minimum":1}]}`,
			"compatible allOf_widened /allOf", "breaking allOf_widened /allOf", "",
			"breaking allOf_narrowed /allOf", "compatible allOf_narrowed /allOf", ""},
		{"inside all of", `{"allOf":[{"minimum":1},{"maximum":3}]}`, `{"allOf":[{"minimum":1},{"maximum":4}]}`,
			"compatible allOf_widened /allOf", "breaking maximum_widened /allOf/1/maximum", "",
			"breaking maximum_narrowed /allOf/1/maximum", "compatible allOf_narrowed /allOf", ""},
		{"one more of all", `{"allOf":[{"minimum":1},{"maximum":3}]}`,
			`{"allOf":[{"minimum":1},{"maximum":3},{"multipleOf":2}]}`,
			"breaking allOf_narrowed /allOf", "compatible allOf_narrowed /allOf", "",
			"compatible allOf_widened /allOf", "breaking allOf_widened /allOf", ""},
		{"all of one", `{"type":"string","maxLength":3}`, `{"allOf":[{"type":"string","maxLength":3}],"title":"x"}`,
			"info title_changed /title", "", "", "info title_changed /title", "", ""},
		{"into all of", `{"type":"string","maxLength":3}`, `{"type":"string","maxLength":3,"allOf":[{"maxLength":5}]}`,
			"", "", "", "", "", ""},
		{"by reference", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `{"type":"string"}`, "", "", "", "",
			"", ""},
		{"behind a reference", `{"$defs":{"a":{"type":"string"}},"items":{"$ref":"#/$defs/a"}}`,
			`{"$defs":{"a":{"type":["null","string"]}},"items":{"$ref":"#/$defs/a"}}`,
			"compatible type_widened /items/type", "breaking type_widened /items/type", "",
			"breaking type_narrowed /items/type", "compatible type_narrowed /items/type", ""},
		{"beside a reference", `{"definitions":{"a":{"type":"string"}},"items":{"$ref":"#/definitions/a"}}`,
			`{"definitions":{"a":{"type":"string"}},"items":{"$ref":"#/definitions/a","maxLength":3}}`,
			"breaking maxLength_narrowed /items/maxLength", "compatible maxLength_narrowed /items/maxLength", "",
			"compatible maxLength_widened /items/maxLength", "breaking maxLength_widened /items/maxLength", ""},
		{"a tree",
			`{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"sub":{"type":"array","items":{"$ref":"#/$defs/t"}},"n":{"type":"integer"}}}}}`,
			`{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"sub":{"type":"array","items":{"$ref":"#/$defs/t"}},"n":{"type":"number"}}}}}`,
			"compatible type_widened /properties/n/type", "breaking type_widened /properties/n/type", "",
			"breaking type_narrowed /properties/n/type", "compatible type_narrowed /properties/n/type", ""},
		{"behind a reference in not", `{"$defs":{"a":{"type":"string"}},"not":{"$ref":"#/$defs/a"}}`,
			`{"$defs":{"a":{"type":"null"}},"not":{"$ref":"#/$defs/a"}}`,
			"breaking not_changed /not", "", "", "breaking not_changed /not", "", ""},
		{"a reference in not to itself",
			`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{"not":{"$ref":"#/$defs/a"}},"y":{"type":"integer"}}}}}`,
			`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{"not":{"$ref":"#/$defs/a"}},"y":{"type":"number"}}}}}`,
			"breaking not_changed /properties/x/not\ncompatible type_widened /properties/y/type",
			"breaking not_changed /properties/x/not\nbreaking type_widened /properties/y/type", "",
			"breaking not_changed /properties/x/not\nbreaking type_narrowed /properties/y/type",
			"breaking not_changed /properties/x/not\ncompatible type_narrowed /properties/y/type", ""},
		{"a reference to itself without a step",
			`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"string"}]}}}`,
			`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"string"}]}},"title":"a"}`,
			"breaking undecided /anyOf/0\ninfo title_changed /title", "", "",
			"breaking undecided /anyOf/0\ninfo title_changed /title", "", ""},
		{"behind a reference where only equal is understood",
			`{"$defs":{"a":{"type":"string"}},"dependentSchemas":{"k":{"$ref":"#/$defs/a"}}}`,
			`{"$defs":{"a":{"type":"null"}},"dependentSchemas":{"k":{"$ref":"#/$defs/a"}}}`,
			"breaking dependentSchemas_changed /dependentSchemas", "", "",
			"breaking dependentSchemas_changed /dependentSchemas", "", ""},
		{"a property of a closed object beside patterns",
			object(``, `"patternProperties":{"^x":{"type":"string"}}`, closed),
			object(`"x":{}`, `"patternProperties":{"^x":{"type":"string"}}`, closed),
			"breaking property_added /properties/x", "", "", "breaking property_removed /properties/x", "",
			"warning property_removed /properties/x"},
		{"a reference to an element", `{"prefixItems":[{"type":"string"}],"items":{"$ref":"#/prefixItems/0"}}`,
			`{"prefixItems":[{"type":"string"}],"items":{"type":"string"}}`, "", "", "", "", "", ""},
		{"a reference to no element", `{"type":"string"}`,
			`{"$ref":"#/prefixItems/00","prefixItems":[{"type":"string"}]}`,
			"breaking allOf_narrowed /allOf\ncompatible type_widened /type",
			"breaking type_widened /type\ncompatible allOf_narrowed /allOf", "",
			"breaking type_narrowed /type\ncompatible allOf_widened /allOf",
			"breaking allOf_widened /allOf\ncompatible type_narrowed /type", ""},
		{"a reference with escapes", `{"items":{"$ref":"#/%24defs/a~1b~0c"},"$defs":{"a/b~c":{"type":"string"}}}`,
			`{"items":{"type":"string"}}`, "", "", "", "", "", ""},
		{"a reference into a text", `{"type":"string"}`, `{"$ref":"#/title/0","title":"x"}`,
			"breaking undecided \ninfo title_changed /title", "", "", "breaking undecided \ninfo title_changed /title",
			"", ""},
		{"a reference by name", `{"type":"string"}`, `{"$ref":"#name"}`, "breaking undecided ", "", "",
			"breaking undecided ", "", ""},
		{"a reference of no form", `{"type":"string"}`, `{"$ref":"#/%zz"}`, "breaking undecided ", "", "",
			"breaking undecided ", "", ""},
		{"a reference that is none", `{"type":"string"}`, `{"$ref":7}`, "breaking undecided ", "", "",
			"breaking undecided ", "", ""},
		{"a reference beside something odd", `{"type":"string"}`, `{"$ref":"#","allOf":7}`, "breaking undecided ", "",
			"", "breaking undecided ", "", ""},
		{"a reference to the whole", `{"properties":{"a":{"$ref":"#"}},"title":"a"}`,
			`{"properties":{"a":{"$ref":"#"}}}`, "info title_changed /title", "", "", "info title_changed /title", "",
			""},
		{"an element of no form", `{"type":"array","items":[{}],"prefixItems":[{}]}`, `{"type":"array"}`,
			"breaking items_changed /items\nbreaking prefixItems_changed /prefixItems", "", "",
			"breaking items_changed /items\nbreaking prefixItems_changed /prefixItems", "", ""},
		{"an odd constant", `{"type":"words","const":1}`, `{"type":"string"}`,
			"breaking const_changed /const\nbreaking type_changed /type", "", "",
			"breaking const_changed /const\nbreaking type_changed /type", "", ""},
		{"a pattern of no form", object(``, `"patternProperties":1`), object(``),
			"breaking patternProperties_changed /patternProperties", "", "",
			"breaking patternProperties_changed /patternProperties", "", ""},
		{"a reference that leads nowhere", `{"type":"string"}`, `{"$ref":"#/$defs/none"}`, "breaking undecided ", "",
			"", "breaking undecided ", "", ""},
		{"a reference in circles", `{"type":"string"}`,
			`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "breaking undecided ",
			"", "", "breaking undecided ", "", ""},
		{"another document", `{"items":{"$ref":"other.json"},"title":"a"}`, `{"items":{"$ref":"other.json"}}`,
			"info title_changed /title", "", "", "info title_changed /title", "", ""},
		{"other documents", `{"items":{"$ref":"other.json"}}`, `{"items":{"$ref":"another.json"}}`,
			"breaking undecided /items", "", "", "breaking undecided /items", "", ""},
		{"not a schema", `{"items":{"type":"string"}}`, `{"items":7}`, "breaking undecided /items", "", "",
			"breaking undecided /items", "", ""},
		{"nothing is valid", object(`"a":true`), object(`"a":false`),
			"breaking schema_narrowed /properties/a", "compatible schema_narrowed /properties/a", "",
			"compatible schema_widened /properties/a", "breaking schema_widened /properties/a", ""},
		{"unevaluated", `{"unevaluatedProperties":false,"properties":{"a":{}}}`,
			`{"unevaluatedProperties":false,"properties":{"a":{},"b":{}}}`,
			"breaking unevaluatedProperties_changed /unevaluatedProperties\ncompatible property_added /properties/b",
			"", "",
			"breaking unevaluatedProperties_changed /unevaluatedProperties\ncompatible property_removed /properties/b",
			"breaking property_removed /properties/b\nbreaking unevaluatedProperties_changed /unevaluatedProperties",
			"breaking unevaluatedProperties_changed /unevaluatedProperties\nwarning property_removed /properties/b"},
		{"an unknown keyword", `{}`, `{"x-type":"keyword","x-hint":1,"units":"m"}`,
			"breaking units_changed /units\nbreaking x-type_changed /x-type\ninfo x-hint_changed /x-hint", "", "",
			"breaking units_changed /units\nbreaking x-type_changed /x-type\ninfo x-hint_changed /x-hint", "", ""},
		{"texts", `{"title":"a","default":1}`,
			`{"title":"b","description":"c","examples":[1],"$schema":"http://json-schema.org/draft-07/schema#"}`,
			"warning $schema_changed /$schema\ninfo default_changed /default\ninfo description_changed /description\ninfo examples_changed /examples\ninfo title_changed /title",
			"", "",
			"warning $schema_changed /$schema\ninfo default_changed /default\ninfo description_changed /description\ninfo examples_changed /examples\ninfo title_changed /title",
			"", ""},
		{"malformed",
			`{"type":"text","minLength":"1","maxLength":-1,"minimum":"1","uniqueItems":1,"items":[1],"prefixItems":2,"enum":3,"anyOf":[],"allOf":{},"exclusiveMaximum":null,"required":[1],"properties":[]}`,
			`{}`,
			"breaking allOf_changed /allOf\nbreaking anyOf_changed /anyOf\nbreaking enum_changed /enum\nbreaking exclusiveMaximum_changed /exclusiveMaximum\nbreaking items_changed /items\nbreaking maxLength_changed /maxLength\nbreaking minLength_changed /minLength\nbreaking minimum_changed /minimum\nbreaking prefixItems_changed /prefixItems\nbreaking properties_changed /properties\nbreaking required_changed /required\nbreaking type_changed /type\nbreaking uniqueItems_changed /uniqueItems",
			"", "",
			"breaking allOf_changed /allOf\nbreaking anyOf_changed /anyOf\nbreaking enum_changed /enum\nbreaking exclusiveMaximum_changed /exclusiveMaximum\nbreaking items_changed /items\nbreaking maxLength_changed /maxLength\nbreaking minLength_changed /minLength\nbreaking minimum_changed /minimum\nbreaking prefixItems_changed /prefixItems\nbreaking properties_changed /properties\nbreaking required_changed /required\nbreaking type_changed /type\nbreaking uniqueItems_changed /uniqueItems",
			"", ""},
		{"malformed alike", `{"type":"text","minLength":"1","title":"a"}`,
			`{"type":"text","minLength":"1","title":"b"}`, "info title_changed /title", "", "",
			"info title_changed /title", "", ""},
		{"a schema where none was", ``, `{"type":"object"}`,
			"breaking schema_added ", "compatible schema_added ", "",
			"compatible schema_removed ", "breaking schema_removed ", ""},
		{"a schema that says nothing", ``, `{}`, "compatible schema_added ", "", "", "compatible schema_removed ", "",
			""},
	} {
		or := func(a, b string) string {
			if a == "" {
				return b
			}
			return a
		}
		before, after := schema(t, row.before), schema(t, row.after)
		for _, dir := range []struct {
			name                   string
			from, to               any
			input, output, failure string
		}{
			{"forwards", before, after, row.input, or(row.output, row.input),
				or(row.failure, or(row.output, row.input))},
			{"backwards", after, before, row.back, or(row.backOutput, row.back),
				or(row.backFailure, or(row.backOutput, row.back))},
		} {
			t.Run(row.name+"/"+dir.name, func(t *testing.T) {
				for _, c := range []struct {
					section  string
					from, to shape.Interface
					want     string
				}{
					{"input", shape.Interface{Input: dir.from}, shape.Interface{Input: dir.to}, dir.input},
					{"output", shape.Interface{Output: dir.from}, shape.Interface{Output: dir.to}, dir.output},
					{"error", shape.Interface{Error: dir.from}, shape.Interface{Error: dir.to}, dir.failure},
				} {
					r := shape.Diff(&shape.Shape{Interface: c.from}, &shape.Shape{Interface: c.to})
					got := strings.ReplaceAll(lines(r), "/"+c.section, "")
					if got != c.want {
						t.Errorf("%s:\n%s\nwant\n%s", c.section, got, c.want)
					}
					if r.Breaking != strings.Contains(c.want, "breaking ") {
						t.Errorf("%s: breaking %v", c.section, r.Breaking)
					}
				}
			})
		}
	}
}

func TestToolRules(t *testing.T) {
	none := shape.Shape{}
	grants := func(g shape.Grants) *shape.Shape { return &shape.Shape{Grants: g} }
	risk := func(r string) *shape.Shape { return grants(shape.Grants{Risk: r}) }
	may := func(s ...string) *shape.Shape { return grants(shape.Grants{Permissions: s}) }
	secrets := func(s ...string) *shape.Shape { return grants(shape.Grants{Secrets: s}) }
	net := func(v any) *shape.Shape { return grants(shape.Grants{Network: v}) }
	read := func(s ...string) *shape.Shape { return grants(shape.Grants{Files: map[string]any{"read": s}}) }
	write := func(s ...string) *shape.Shape { return grants(shape.Grants{Files: map[string]any{"write": s}}) }
	limits := func(v any) *shape.Shape { return grants(shape.Grants{Limits: v}) }
	for _, row := range []struct {
		name          string
		before, after *shape.Shape
		want, back    string
	}{
		{"removed", &none, nil, "breaking tool_removed ", "compatible tool_added "},
		{"none", nil, nil, "", ""},
		{"nothing", &none, &none, "", ""},
		{"read to money", risk("read"), risk("money"), "breaking risk_raised /grants/risk",
			"warning risk_lowered /grants/risk"},
		{"write to destructive", risk("write"), risk("destructive"), "breaking risk_raised /grants/risk",
			"warning risk_lowered /grants/risk"},
		{"read to write", risk("read"), risk("write"), "breaking risk_raised /grants/risk",
			"warning risk_lowered /grants/risk"},
		{"infra to money", risk("infra"), risk("money"), "breaking risk_raised /grants/risk",
			"warning risk_lowered /grants/risk"},
		{"unknown risk", risk("money"), risk("odd"), "breaking risk_raised /grants/risk",
			"warning risk_lowered /grants/risk"},
		{"no risk", risk("odd"), risk(""), "breaking risk_raised /grants/risk", "breaking risk_raised /grants/risk"},
		{"permission", may("rye.load.*"), may("rye.load.*", "execute:tool:a"),
			"breaking permission_added /grants/permissions", "compatible permission_removed /grants/permissions"},
		{"narrower permission", may("rye.execute.tool.a.*"), may("execute:tool:a/b"),
			"compatible permission_removed /grants/permissions", "breaking permission_added /grants/permissions"},
		{"permission in another form", may("rye.execute.tool.a.*", "search:tool"),
			may("search:tool", "execute:tool:a/*", "search:tool"), "", ""},
		{"no capability", may("rye.load.*"), may("everything"), "breaking undecided /grants/permissions",
			"breaking undecided /grants/permissions"},
		{"no capability twice", may("everything"), may("everything"), "", ""},
		{"secret", secrets("a"), secrets("b", "a"), "breaking secret_added /grants/secrets",
			"compatible secret_removed /grants/secrets"},
		{"network", net(nil), net("all"), "breaking network_widened /grants/network",
			"compatible network_narrowed /grants/network"},
		{"no network", net(nil), net("none"), "", ""},
		{"hosts", net([]any{"a"}), net([]any{"b", "a"}), "breaking network_widened /grants/network",
			"compatible network_narrowed /grants/network"},
		{"other hosts", net([]string{"a"}), net([]string{"b"}), "breaking network_widened /grants/network",
			"breaking network_widened /grants/network"},
		{"hosts in another order", net([]string{"a", "b"}), net([]any{"b", "a"}), "", ""},
		{"hosts of all", net([]string{"a"}), net("all"), "breaking network_widened /grants/network",
			"compatible network_narrowed /grants/network"},
		{"odd network", net("all"), net("some"), "breaking undecided /grants/network",
			"breaking undecided /grants/network"},
		{"odd host", net("all"), net([]any{1}), "breaking undecided /grants/network",
			"breaking undecided /grants/network"},
		{"files", &none, read("a"), "breaking files_widened /grants/files", "compatible files_narrowed /grants/files"},
		{"no files", &none, read(), "", ""},
		{"files below", read("a"), read("a/b", "a/c"), "compatible files_narrowed /grants/files",
			"breaking files_widened /grants/files"},
		{"all files", read("a"), read("."), "breaking files_widened /grants/files",
			"compatible files_narrowed /grants/files"},
		{"files beside", read("a/b"), read("a/bc"), "breaking files_widened /grants/files",
			"breaking files_widened /grants/files"},
		{"files that are said twice", read("a", "b"), read("b", "a", "a/c"), "", ""},
		{"written files", read("a"), write("a"), "breaking files_widened /grants/files",
			"compatible files_narrowed /grants/files"},
		{"files below written", write("a"), grants(shape.Grants{Files: map[string]any{"read": []any{"a/c"},
			"write": []any{"a/b"}}}), "compatible files_narrowed /grants/files",
			"breaking files_widened /grants/files"},
		{"what all written files leave out", write("."), read(".ai"), "breaking files_widened /grants/files",
			"breaking files_widened /grants/files"},
		{"outputs", write("."), read(".ai/outputs"), "compatible files_narrowed /grants/files",
			"breaking files_widened /grants/files"},
		{"all and all written files", write("."), read("."), "breaking files_widened /grants/files",
			"breaking files_widened /grants/files"},
		{"odd files", read("a"), read("../a"), "breaking undecided /grants/files", "breaking undecided /grants/files"},
		{"equal odd files", grants(shape.Grants{Files: "all"}), grants(shape.Grants{Files: "all"}), "", ""},
		{"limit", limits(map[string]any{"turns": 4}), limits(map[string]any{"turns": 5.0}),
			"breaking limit_raised /grants/limits/turns", "compatible limit_lowered /grants/limits/turns"},
		{"equal limit", limits(map[string]any{"turns": int64(4)}), limits(map[string]any{"turns": 4.0}), "", ""},
		{"limit added", limits(nil), limits(map[string]any{"a/b": 4}), "breaking limit_added /grants/limits/a~1b",
			"breaking limit_removed /grants/limits/a~1b"},
		{"odd limit", limits(map[string]any{"turns": 4}), limits(map[string]any{"turns": "4"}),
			"breaking limit_changed /grants/limits/turns", "breaking limit_changed /grants/limits/turns"},
		{"equal odd limit", limits(map[string]any{"turns": nil}), limits(map[string]any{"turns": nil}), "", ""},
		{"limit that is no JSON", limits(map[string]any{"turns": struct{}{}}),
			limits(map[string]any{"turns": struct{}{}}), "breaking limit_changed /grants/limits/turns",
			"breaking limit_changed /grants/limits/turns"},
		{"odd limits", limits(nil), limits("none"), "breaking undecided /grants/limits",
			"breaking undecided /grants/limits"},
		{"description", &none, &shape.Shape{Description: "d", Tags: []string{"t"}, Examples: []any{1}},
			"info description_changed /description\ninfo examples_changed /examples\ninfo tags_changed /tags",
			"info description_changed /description\ninfo examples_changed /examples\ninfo tags_changed /tags"},
		{"tags in another order", &shape.Shape{Tags: []string{"a", "b"}}, &shape.Shape{Tags: []string{"b", "a"}}, "",
			""},
		{"no JSON", &none, &shape.Shape{Interface: shape.Interface{Input: func() {}}}, "breaking undecided /input",
			"breaking undecided /input"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, c := range []struct {
				from, to *shape.Shape
				want     string
			}{{row.before, row.after, row.want}, {row.after, row.before, row.back}} {
				r := shape.Diff(c.from, c.to)
				if got := lines(r); got != c.want || r.Breaking != strings.Contains(c.want, "breaking") {
					t.Errorf("%v:\n%s\nwant\n%s", r.Breaking, got, c.want)
				}
				if c.from == nil || c.to == nil {
					continue
				}
				var breaking []shape.Item
				for _, i := range r.Items {
					if i.Class == shape.Breaking && strings.HasPrefix(i.Path, "/grants") {
						breaking = append(breaking, i)
					}
				}
				if got := shape.Widened(c.from.Grants, c.to.Grants); fmt.Sprint(got) != fmt.Sprint(breaking) {
					t.Errorf("widened: %v", got)
				}
			}
		})
	}
}
