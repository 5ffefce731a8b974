package model

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/sign"
)

const (
	maxExtensions = 50
	maxFields     = 200
)

var extractorFields = []string{
	"category", "comment", "description", "directory", "executor_id", "extensions", "extraction_rules", "kind", "name",
	"parser", "search_fields", "signature_format", "tags", "tool_type", "validation_schema", "version",
}

// An extractor is the state of reading an extractor into a kind.
type extractor struct {
	*fields.Reader
	kind *Kind
}

// ReadExtractor reads an extractor from the parsed file doc; id is its own. It returns a kind only if all problems
// are warnings.
func ReadExtractor(doc *parse.Doc, id string) (*Kind, []*value.Problem) {
	r := &fields.Report{At: doc.Fields.At, Problems: slices.Clip(doc.Problems)}
	if r.At.Line == 0 {
		r.At = value.Pos{Line: 1, Column: 1}
	}
	x := &extractor{&fields.Reader{Report: r, Fields: doc.Fields}, &Kind{
		From: id, names: map[string]string{}, parsers: map[string]parse.Parser{}, styles: map[string]sign.Style{},
	}}
	for i := range doc.Fields.Map {
		if e := &doc.Fields.Map[i]; !slices.Contains(extractorFields, e.Key) && !x.Full() {
			x.Add(e.At, false, fields.Clip(e.Key), "an extractor has no field %s%s", fields.Single(e.Key),
				fields.Suggest(e.Key, extractorFields))
		}
	}
	if v := doc.Fields.Get("tool_type"); v.String() != "extractor" {
		x.Bad(v, "tool_type", "Field 'tool_type' must be one of ['extractor'], got %s", fields.Show(v))
	}
	if v := doc.Fields.Get("executor_id"); !v.IsNull() {
		x.Bad(v, "executor_id", "an extractor isn't run: Field 'executor_id' must be null, got %s", fields.Show(v))
	}
	x.identity(path.Base(id))
	x.extensions()
	x.comments()
	x.parserField()
	x.rules()
	x.weights()
	x.validation()
	problems := x.Sorted()
	if slices.ContainsFunc(problems, func(p *value.Problem) bool { return !p.Warning }) {
		return nil, problems
	}
	x.kind.index()
	return x.kind, problems
}

// identity reads the kind's name and directory.
func (x *extractor) identity(stem string) {
	k := x.kind
	k.Name = strings.TrimSuffix(stem, "_extractor")
	v := x.Fields.Get("kind")
	if !v.IsNull() {
		k.Name = x.Text("kind")
	}
	if err := CheckKind(k.Name); err != nil {
		x.Once(v, "kind", "%v", err)
		return
	}
	k.Dir = builtinDir(k.Name)
	v = x.Fields.Get("directory")
	dir := x.Text("directory")
	switch {
	case v.IsNull() && k.Dir == "":
		x.Bad(v, "directory", "the kind %s needs a directory: it isn't one of the kernel's", fields.Single(k.Name))
	case v.IsNull() || dir == k.Dir && dir != "":
	case k.Dir != "":
		x.Once(v, "directory", "the directory of %s is %s, not %s", k.Name, k.Dir, fields.Show(v))
	default:
		k.Dir = dir
		if why := badDirectory(dir); why != "" {
			x.Once(v, "directory", "%s can't be the directory of a kind: %s", fields.Show(v), why)
		}
	}
}

// badDirectory returns why a directory can't be that of an added kind; "" if it can.
func badDirectory(dir string) string {
	folded := portable.Fold(dir)
	for _, kind := range []string{directiveKind, toolKind, knowledgeKind, configKind} {
		if folded == builtinDir(kind) {
			return "it is that of " + kind
		}
	}
	switch folded {
	case "auth", "bundles", "cache", "keys", "lockfiles", "logs", "outputs", "parsers", "threads", "trusted_keys",
		"vendor":
		return "it is reserved"
	}
	if IsAsset(dir) {
		return `what begins with "_" or "." holds no items`
	}
	if err := portable.CheckID(dir); err != nil || strings.Contains(dir, "/") {
		return "expected one name of letters, digits, . _ -"
	}
	return ""
}

// extensions reads the extensions of the kind's files.
func (x *extractor) extensions() {
	v := x.Fields.Get("extensions")
	if v.IsNull() || v.Kind == value.List && len(v.Items) == 0 {
		x.Bad(fields.OrElse(v, x.Fields), "extensions", "Missing required field: extensions")
		return
	}
	if v.Kind == value.List && len(v.Items) > maxExtensions {
		x.Bad(v, "extensions", "Field 'extensions' has %d entries, more than %d", len(v.Items), maxExtensions)
		return
	}
	x.List("extensions", v)
	for i, item := range v.Items {
		path, ext := fmt.Sprintf("extensions[%d]", i), item.String()
		switch {
		case item.Kind != value.Text:
		case !isExtension(ext):
			x.Bad(item, path,
				"Field '%s' must be an extension, as in .md: a dot, then lower-case letters and digits, at most 16, got %s",
				path, fields.Single(ext))
		case ext == ".json" || ext == ".toml":
			x.Warn(item, path, "files with %s are not items: they are left out", ext)
		case slices.Contains(x.kind.Extensions, ext):
			x.Warn(item, path, "the extension %s is listed twice", ext)
		default:
			x.kind.Extensions = append(x.kind.Extensions, ext)
		}
	}
	if len(x.kind.Extensions) == 0 && !slices.ContainsFunc(x.Problems, func(p *value.Problem) bool {
		return strings.HasPrefix(p.Field, "extensions") && !p.Warning
	}) {
		x.Bad(v, "extensions", "no extension is left")
	}
}

func isExtension(s string) bool {
	return len(s) >= 2 && len(s) <= 17 && s[0] == '.' &&
		strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// comments reads the form of signature lines in files that the kernel doesn't know.
func (x *extractor) comments() {
	format := x.Object("signature_format")
	open := format.Get("prefix")
	if format != nil {
		x.Unknown("signature_format", format, "after_shebang", "prefix", "suffix")
		x.Bool("signature_format.after_shebang", format.Get("after_shebang"))
		x.String("signature_format.suffix", format.Get("suffix"))
	}
	styles := x.Object("comment")
	if styles != nil {
		for i := range styles.Map {
			if e := &styles.Map[i]; !slices.Contains(x.kind.Extensions, e.Key) {
				x.Add(e.At, false, "comment."+fields.Clip(e.Key), "the extension %s is not listed in extensions",
					fields.Single(e.Key))
			}
		}
	}
	for _, ext := range x.kind.Extensions {
		v, field := styles.Get(ext), "comment."+ext
		if v == nil {
			v, field = open, "signature_format.prefix"
		}
		kernel := sign.StyleOf("x" + ext)
		style, ok := sign.ParseStyle(strings.TrimSpace(v.String()))
		switch {
		case v.IsNull() && kernel == sign.NoStyle:
			x.Warn(v, "comment", "files with %s can't be signed: say their comments in comment", ext)
		case v.IsNull():
		case !ok:
			x.Once(v, field, `Field '%s' must be one of ['#', '//', '<!--', '--'], got %s`, field, fields.Show(v))
		case kernel != sign.NoStyle && kernel != style && field != "signature_format.prefix":
			x.Bad(v, field, "how comments stand in files with %s can't be changed", ext)
		case kernel == sign.NoStyle:
			x.kind.styles[ext] = style
		}
	}
}

// parserField reads the parsers of extensions.
func (x *extractor) parserField() {
	v := x.Fields.Get("parser")
	table := v != nil && v.Kind == value.Map && v.Get("pattern") == nil
	if table {
		for i := range v.Map {
			if e := &v.Map[i]; !slices.Contains(x.kind.Extensions, e.Key) {
				x.Add(e.At, false, "parser."+fields.Clip(e.Key), "the extension %s is not listed in extensions",
					fields.Single(e.Key))
			}
		}
	}
	for _, ext := range x.kind.Extensions {
		given, field := v, "parser"
		if table {
			given, field = v.Get(ext), "parser."+ext
		}
		name := kernelParser(x.kind.Name, ext)
		switch {
		case name != "" && table && given != nil && given.String() != name:
			x.Bad(given, field, "files with %s are read by %s: that can't be changed", ext, name)
			continue
		case name == "" && given.IsNull():
			x.Bad(fields.OrElse(given, v), field, "files with %s need a parser: one of %s, or a pattern", ext,
				strings.Join(parse.Names(), ", "))
			continue
		case name == "" && given.Kind == value.Map:
			x.pattern(ext, field, given)
			continue
		case name == "":
			name = given.String()
		}
		parser, ok := parse.ByName(name)
		if !ok {
			x.Once(given, field, "Field '%s' must be one of ['%s'] or a pattern, got %s%s", field,
				strings.Join(parse.Names(), "', '"), fields.Show(given), fields.Suggest(name, parse.Names()))
		}
		x.kind.names[ext], x.kind.parsers[ext] = name, parser
	}
}

// pattern reads a declarative pattern. A pattern can't find prompts and fields that decide what is executed.
func (x *extractor) pattern(ext, field string, v *value.Value) {
	if x.kind.Name == toolKind || x.kind.Name == directiveKind {
		x.Once(v, field, "the fields of a %s aren't found by patterns", x.kind.Name)
		return
	}
	x.Unknown(field, v, "pattern")
	spec := v.Get("pattern")
	named := spec.Get("fields")
	if named != nil && named.Kind == value.Map {
		for i := range named.Map {
			if e := &named.Map[i]; kept("", e.Key) {
				x.Add(e.At, false, field+".pattern.fields."+fields.Clip(e.Key), "no pattern may give the field %s",
					fields.Single(e.Key))
			}
		}
	}
	parser, problems := parse.Pattern(spec)
	if !x.Has(field) { // a pattern for several extensions is reported once
		x.Problems = append(x.Problems, problems...)
	}
	x.kind.names[ext], x.kind.parsers[ext] = patternParser, parser
}

// rules reads the sources of standard fields.
func (x *extractor) rules() {
	v := x.Object("extraction_rules")
	if v == nil {
		return
	}
	if len(v.Map) > maxFields {
		x.Bad(v, "extraction_rules", "Field 'extraction_rules' has %d entries, more than %d", len(v.Map), maxFields)
		return
	}
	for i := range v.Map {
		e := &v.Map[i]
		field := "extraction_rules." + fields.Clip(e.Key)
		if e.Value.Kind != value.Map {
			x.Bad(e.Value, field, "Field '%s' must be an object, got %s", field, fields.TypeName(e.Value))
			continue
		}
		x.Unknown(field, e.Value, "key", "type")
		x.OneOf(field+".type", e.Value.Get("type"), "path", "filename")
		x.String(field+".key", e.Value.Get("key"))
		r := rule{field: e.Key, filename: e.Value.Get("type").String() == "filename", key: e.Value.Get("key").String()}
		switch {
		case !r.filename && r.key == "":
			x.Once(e.Value, field, "Field '%s' missing required key 'key'", field)
		case x.same(r):
		case kept(x.kind.Name, r.field) && !(r.filename && r.field == "id"):
			x.Add(e.At, false, field, "no rule may say where the field %s comes from", fields.Single(r.field))
		default:
			x.kind.rules = append(x.kind.rules, r)
		}
	}
}

// same reports whether a rule only repeats the default.
func (x *extractor) same(r rule) bool {
	return !r.filename && (x.kind.Name == toolKind && r.key == "__"+r.field+"__" || r.key == r.field ||
		r.field == "description" && r.key == "__tool_description__")
}

// weights reads the weights of search fields.
func (x *extractor) weights() {
	v := x.Object("search_fields")
	if v == nil || len(v.Map) == 0 {
		x.kind.Weights = standardWeights()
		return
	}
	if len(v.Map) > maxFields {
		x.Bad(v, "search_fields", "Field 'search_fields' has %d entries, more than %d", len(v.Map), maxFields)
		return
	}
	for i := range v.Map {
		e := &v.Map[i]
		field := "search_fields." + fields.Clip(e.Key)
		n, ok := fields.ParseDecimal(e.Value.Text)
		micro, exact := n.Scaled(6)
		switch isNumber := e.Value.Kind == value.Int || e.Value.Kind == value.Float; {
		case !isNumber:
			x.Bad(e.Value, field, "Field '%s' must be a number, got %s", field, fields.TypeName(e.Value))
		case !ok || !exact || micro < 0 || micro > 1000e6:
			x.Bad(e.Value, field, "Field '%s' must be a number from 0 to 1000 with at most 6 decimals, got %s", field,
				fields.Show(e.Value))
		case micro > 0:
			x.kind.Weights = append(x.kind.Weights, Weight{e.Key, float64(micro) / 1e6})
		}
	}
}

// validation reads the schema.
func (x *extractor) validation() {
	v := x.Object("validation_schema")
	if v != nil {
		x.Unknown("validation_schema", v, "fields")
	}
	asked := v.Get("fields")
	if x.IsObject("validation_schema.fields", asked) {
		var kernel []string
		if x.kind.Name == directiveKind { // its schemas in the existing system describe the form that it had there
			kernel = []string{"limits", "permissions"}
		}
		x.kind.schema = x.Schema("validation_schema.fields", asked, kernel...)
	}
	if len(x.kind.schema) > 0 {
		return
	}
	if x.kind.schema = builtinSchema(x.kind.Name); x.kind.schema != nil {
		x.Warn(v, "validation_schema", "the extractor demands nothing of a %s: the schema that is built in holds",
			x.kind.Name)
	}
}
