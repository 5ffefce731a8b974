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
	extractor := &extractor{&fields.Reader{Report: r, Fields: doc.Fields}, &Kind{
		From: id, names: map[string]string{}, parsers: map[string]parse.Parser{}, styles: map[string]sign.Style{},
	}}
	for i := range doc.Fields.Map {
		if e := &doc.Fields.Map[i]; !slices.Contains(extractorFields, e.Key) && !extractor.Full() {
			extractor.Add(e.At, false, fields.Clip(e.Key), "an extractor has no field %s%s", fields.Single(e.Key),
				fields.Suggest(e.Key, extractorFields))
		}
	}
	if v := doc.Fields.Get("tool_type"); v.String() != "extractor" {
		extractor.Bad(v, "tool_type", "Field 'tool_type' must be one of ['extractor'], got %s", fields.Show(v))
	}
	if v := doc.Fields.Get("executor_id"); !v.IsNull() {
		extractor.Bad(v, "executor_id", "an extractor isn't run: Field 'executor_id' must be null, got %s",
			fields.Show(v))
	}
	extractor.identity(path.Base(id))
	extractor.extensions()
	extractor.comments()
	extractor.parserField()
	extractor.rules()
	extractor.weights()
	extractor.validation()
	problems := extractor.Sorted()
	if slices.ContainsFunc(problems, func(p *value.Problem) bool { return !p.Warning }) {
		return nil, problems
	}
	extractor.kind.index()
	return extractor.kind, problems
}

// identity reads the kind's name and directory.
func (x *extractor) identity(stem string) {
	k := x.kind
	k.Name = strings.TrimSuffix(stem, "_extractor")
	val := x.Fields.Get("kind")
	if !val.IsNull() {
		k.Name = x.Text("kind")
	}
	if err := CheckKind(k.Name); err != nil {
		x.Once(val, "kind", "%v", err)
		return
	}
	k.Dir = builtinDir(k.Name)
	val = x.Fields.Get("directory")
	dir := x.Text("directory")
	switch {
	case val.IsNull() && k.Dir == "":
		x.Bad(val, "directory", "the kind %s needs a directory: it isn't one of the kernel's", fields.Single(k.Name))
	case val.IsNull() || dir == k.Dir && dir != "":
	case k.Dir != "":
		x.Once(val, "directory", "the directory of %s is %s, not %s", k.Name, k.Dir, fields.Show(val))
	default:
		k.Dir = dir
		if why := badDirectory(dir); why != "" {
			x.Once(val, "directory", "%s can't be the directory of a kind: %s", fields.Show(val), why)
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
	val := x.Fields.Get("extensions")
	if val.IsNull() || val.Kind == value.List && len(val.Items) == 0 {
		x.Bad(fields.OrElse(val, x.Fields), "extensions", "Missing required field: extensions")
		return
	}
	if val.Kind == value.List && len(val.Items) > maxExtensions {
		x.Bad(val, "extensions", "Field 'extensions' has %d entries, more than %d", len(val.Items), maxExtensions)
		return
	}
	x.List("extensions", val)
	for i, item := range val.Items {
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
		x.Bad(val, "extensions", "no extension is left")
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
		val, field := styles.Get(ext), "comment."+ext
		if val == nil {
			val, field = open, "signature_format.prefix"
		}
		kernel := sign.StyleOf("x" + ext)
		style, ok := sign.ParseStyle(strings.TrimSpace(val.String()))
		switch {
		case val.IsNull() && kernel == sign.NoStyle:
			x.Warn(val, "comment", "files with %s can't be signed: say their comments in comment", ext)
		case val.IsNull():
		case !ok:
			x.Once(val, field, `Field '%s' must be one of ['#', '//', '<!--', '--'], got %s`, field, fields.Show(val))
		case kernel != sign.NoStyle && kernel != style && field != "signature_format.prefix":
			x.Bad(val, field, "how comments stand in files with %s can't be changed", ext)
		case kernel == sign.NoStyle:
			x.kind.styles[ext] = style
		}
	}
}

// parserField reads the parsers of extensions.
func (x *extractor) parserField() {
	val := x.Fields.Get("parser")
	table := val != nil && val.Kind == value.Map && val.Get("pattern") == nil
	if table {
		for i := range val.Map {
			if e := &val.Map[i]; !slices.Contains(x.kind.Extensions, e.Key) {
				x.Add(e.At, false, "parser."+fields.Clip(e.Key), "the extension %s is not listed in extensions",
					fields.Single(e.Key))
			}
		}
	}
	for _, ext := range x.kind.Extensions {
		given, field := val, "parser"
		if table {
			given, field = val.Get(ext), "parser."+ext
		}
		name := kernelParser(x.kind.Name, ext)
		switch {
		case name != "" && table && given != nil && given.String() != name:
			x.Bad(given, field, "files with %s are read by %s: that can't be changed", ext, name)
			continue
		case name == "" && given.IsNull():
			x.Bad(fields.OrElse(given, val), field, "files with %s need a parser: one of %s, or a pattern", ext,
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
		entry := &v.Map[i]
		field := "extraction_rules." + fields.Clip(entry.Key)
		if entry.Value.Kind != value.Map {
			x.Bad(entry.Value, field, "Field '%s' must be an object, got %s", field, fields.TypeName(entry.Value))
			continue
		}
		x.Unknown(field, entry.Value, "key", "type")
		x.OneOf(field+".type", entry.Value.Get("type"), "path", "filename")
		x.String(field+".key", entry.Value.Get("key"))
		r := rule{field: entry.Key, filename: entry.Value.Get("type").String() == "filename",
			key: entry.Value.Get("key").String()}
		switch {
		case !r.filename && r.key == "":
			x.Once(entry.Value, field, "Field '%s' missing required key 'key'", field)
		case x.same(r):
		case kept(x.kind.Name, r.field) && !(r.filename && r.field == "id"):
			x.Add(entry.At, false, field, "no rule may say where the field %s comes from", fields.Single(r.field))
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
		entry := &v.Map[i]
		field := "search_fields." + fields.Clip(entry.Key)
		n, ok := fields.ParseDecimal(entry.Value.Text)
		micro, exact := n.Scaled(6)
		switch isNumber := entry.Value.Kind == value.Int || entry.Value.Kind == value.Float; {
		case !isNumber:
			x.Bad(entry.Value, field, "Field '%s' must be a number, got %s", field, fields.TypeName(entry.Value))
		case !ok || !exact || micro < 0 || micro > 1000e6:
			x.Bad(entry.Value, field, "Field '%s' must be a number from 0 to 1000 with at most 6 decimals, got %s",
				field,
				fields.Show(entry.Value))
		case micro > 0:
			x.kind.Weights = append(x.kind.Weights, Weight{entry.Key, float64(micro) / 1e6})
		}
	}
}

// validation reads the schema.
func (x *extractor) validation() {
	val := x.Object("validation_schema")
	if val != nil {
		x.Unknown("validation_schema", val, "fields")
	}
	asked := val.Get("fields")
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
		x.Warn(val, "validation_schema", "the extractor demands nothing of a %s: the schema that is built in holds",
			x.kind.Name)
	}
}
