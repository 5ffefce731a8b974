package semver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

// maxNumber is the largest number of a bound: JavaScript's largest integer, so that no reader rounds it.
const maxNumber = 1<<53 - 1

// Indexes of a version's numbers.
const (
	major = iota
	minor
	patch
)

var errNumber = errors.New("the number is beyond 2^53-1")

// after returns the next release in which the i-th number of v is one higher and the numbers after it are 0.
func after(v string, i int) (string, error) {
	numbers := strings.Split(release(v), ".")
	n, err := strconv.ParseUint(numbers[i], 10, 64)
	if err != nil || n >= maxNumber {
		return "", errNumber
	}
	numbers[i] = strconv.FormatUint(n+1, 10)
	for i++; i < len(numbers); i++ {
		numbers[i] = "0"
	}
	return strings.Join(numbers, "."), nil
}

// Parse parses a range. It returns an *Error for any other text.
func Parse(text string) (Range, error) {
	parser := parser{text: text}
	if len(text) > MaxText {
		return Range{}, parser.fail(0, "longer than %d bytes", MaxText)
	}
	r := Range{text: text}
	for {
		a, err := parser.alternative()
		if err != nil {
			return Range{}, err
		}
		r.releases = append(r.releases, a.releases()...)
		r.previews = append(r.previews, a.previews()...)
		if parser.pos == len(text) {
			return r, nil
		}
		parser.pos += len("||") // alternative stops only here and at the end
	}
}

// bounds is the result of the comparators of one alternative: versions from lo up to, but not including, hi, and
// the releases whose pre-releases the comparators name.
type bounds struct {
	span
	named []string
}

// releases returns the releases within the bounds. A bound that is a pre-release is like its release here.
func (b *bounds) releases() []span {
	s := span{release(b.lo), release(b.hi)}
	if s.hi != "" && !below(s.lo, s.hi) {
		return nil
	}
	return []span{s}
}

// previews returns the pre-releases within the bounds that comparators name.
func (b *bounds) previews() (found []span) {
	for _, v := range b.named {
		s := span{later(b.lo, v+"-0"), v}
		if b.hi != "" && below(b.hi, v) {
			s.hi = b.hi
		}
		if below(s.lo, s.hi) {
			found = append(found, s)
		}
	}
	return found
}

// take narrows the bounds to what a comparator allows.
func (b *bounds) take(s span, v bound) {
	b.lo = later(b.lo, s.lo)
	if b.hi == "" || s.hi != "" && below(s.hi, b.hi) {
		b.hi = s.hi
	}
	if isPreview(v.version) {
		b.named = append(b.named, release(v.version))
	}
}

// A bound is the version after a comparator's operator.
type bound struct {
	version string // with 0 for missing numbers
	last    int    // index of the last given number
	wild    bool   // the missing numbers are wildcards
}

// full reports whether all three numbers are given.
func (v bound) full() bool { return v.last == patch }

// next returns the least version above all versions that begin like v.
func (v bound) next() (string, error) {
	if isPreview(v.version) {
		// Another identifier makes a later pre-release, and 0 is the least identifier.
		next := v.version + ".0"
		if manifest.CheckVersion(next) != nil {
			return "", errors.New("the pre-release is too long")
		}
		return next, nil
	}
	return v.limit(v.last)
}

// limit returns the bound below the release, and its pre-releases, in which the i-th number is one higher.
func (v bound) limit(i int) (string, error) {
	next, err := after(v.version, i)
	return next + "-0", err
}

// span returns the versions that an operator allows. The operator "" is for a wildcard.
func (v bound) span(op string) (span span, err error) {
	span.lo = v.version
	switch op {
	case "^":
		// The first number that is not 0 stays, or the last given number.
		i := major
		for numbers := release(v.version); i < v.last && strings.HasPrefix(numbers, "0."); i++ {
			numbers = numbers[2:]
		}
		span.hi, err = v.limit(i)
	case "~":
		span.hi, err = v.limit(min(v.last, minor))
	case "=", "":
		span.hi, err = v.next()
	case ">=":
	case ">":
		span.lo, err = v.next()
		if !v.full() {
			span.lo = release(span.lo)
		}
	case "<=":
		span.lo = first
		span.hi, err = v.next()
	case "<":
		span.lo, span.hi = first, v.version
		if !v.full() {
			span.hi += "-0"
		}
	}
	return span, err
}

// first is the least version.
const first = "0.0.0-0"

type parser struct {
	text string
	pos  int
}

func (p *parser) fail(at int, format string, args ...any) error {
	text := p.text[:min(len(p.text), 100)]
	return fault.New(fault.Validation, "version range %+q, byte %d: %s", text, at,
		fmt.Sprintf(format, args...)).On("range", text).On("offset", at)
}

func (p *parser) space() {
	for p.pos < len(p.text) && p.text[p.pos] == ' ' {
		p.pos++
	}
}

func (p *parser) take(prefix string) bool {
	if strings.HasPrefix(p.text[p.pos:], prefix) {
		p.pos += len(prefix)
		return true
	}
	return false
}

// atEnd reports whether an alternative ends here.
func (p *parser) atEnd() bool { return p.pos == len(p.text) || strings.HasPrefix(p.text[p.pos:], "||") }

// alternative parses up to "||" or the end.
func (p *parser) alternative() (*bounds, error) {
	bounds := &bounds{span: span{lo: first}}
	p.space()
	alone := p.take("*")
	if !alone {
		var err error
		if alone, err = p.hyphen(bounds); err != nil {
			return nil, err
		}
	}
	for !alone {
		if err := p.comparator(bounds); err != nil {
			return nil, err
		}
		if p.space(); p.take(",") {
			p.space()
		} else if p.atEnd() {
			break
		}
	}
	if p.space(); !p.atEnd() {
		return nil, p.fail(p.pos, `expected "||" or the end`)
	}
	return bounds, nil
}

// hyphen parses two versions with " - " between them. found is false if the text has another form.
func (p *parser) hyphen(bounds *bounds) (found bool, err error) {
	from, to, found := strings.Cut(p.text[p.pos:], " - ")
	if !found || strings.ContainsAny(strings.TrimRight(from, " "), " ,|") {
		return false, nil
	}
	low, err := p.bound()
	if err != nil {
		return false, err
	}
	p.pos = len(p.text) - len(to)
	p.space()
	start := p.pos
	high, err := p.bound()
	if err != nil {
		return false, err
	}
	upper, err := high.span("<=")
	if err != nil {
		return false, p.fail(start, "%s", err)
	}
	bounds.take(span{lo: low.version}, low)
	bounds.take(upper, high)
	return true, nil
}

var operators = [...]string{"^", "~", ">=", ">", "<=", "<", "="}

func (p *parser) comparator(bounds *bounds) error {
	start := p.pos
	op := ""
	for _, o := range operators {
		if p.take(o) {
			op = o
			break
		}
	}
	p.space()
	at := p.pos
	bound, err := p.bound()
	if err != nil {
		return err
	}
	switch text := p.text[at:p.pos]; {
	case op == "" && !bound.wild:
		return p.fail(at, "a version alone has two meanings: write =%s or ^%s", text, text)
	case op != "" && bound.wild:
		return p.fail(start, "an operator before a wildcard")
	}
	s, err := bound.span(op)
	if err != nil {
		return p.fail(at, "%s", err)
	}
	bounds.take(s, bound)
	return nil
}

// bound parses a version, or the beginning of one.
func (p *parser) bound() (bound, error) {
	start := p.pos
	end := len(p.text)
	if i := strings.IndexAny(p.text[start:], " ,|"); i >= 0 {
		end = start + i
	}
	text := p.text[start:end]
	if text == "" {
		return bound{}, p.fail(start, "expected a version")
	}
	if i := strings.IndexByte(text, '+'); i >= 0 {
		return bound{}, p.fail(start+i, "remove the build metadata: they don't order versions")
	}
	numbers, _, preview := strings.Cut(text, "-")
	limit := bound{last: -1}
	at := start
	for i, number := range strings.Split(numbers, ".") {
		switch wild := i > major && (number == "x" || number == "X" || number == "*"); {
		case i > patch:
			return bound{}, p.fail(at, "more than three numbers")
		case wild:
			limit.wild = true
		case limit.wild:
			return bound{}, p.fail(at, "expected a wildcard after a wildcard")
		default:
			if err := checkNumber(number); err != nil {
				return bound{}, p.fail(at, "%s", err)
			}
			limit.last = i
		}
		at += len(number) + 1
	}
	if limit.version = text; !limit.full() {
		if preview {
			return bound{}, p.fail(at-1, "a pre-release after fewer than three numbers")
		}
		limit.version = strings.Join(strings.Split(numbers, ".")[:limit.last+1], ".") +
			strings.Repeat(".0", patch-limit.last)
	}
	if manifest.CheckVersion(limit.version) != nil {
		return bound{}, p.fail(at-1, "the pre-release is invalid by semver 2.0, or longer than 100 bytes")
	}
	p.pos = end
	return limit, nil
}

func checkNumber(s string) error {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return fmt.Errorf("expected a number, found %+q", s[:min(len(s), 40)])
	}
	if s[0] == '0' && len(s) > 1 {
		return errors.New("a number that begins with 0")
	}
	if n, err := strconv.ParseUint(s, 10, 64); err != nil || n > maxNumber {
		return errNumber
	}
	return nil
}
