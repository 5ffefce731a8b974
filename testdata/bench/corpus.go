package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// past is when every file was last modified; edited is the same for those that S and D change. Both are long
// enough ago that no tool has to doubt them.
var (
	past   = time.Date(2023, 3, 1, 12, 0, 0, 0, time.UTC)
	edited = past.Add(24 * time.Hour)
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// seed is where all bytes come from. Who changes it, or anything that draws from it, changes the name of the
// directory in options.defaults as well.
const seed = 0x72796562656e6368

// A writer invents bytes. PCG's numbers are the same in every version of Go, and nothing else is drawn from.
type writer struct{ *rand.PCG }

func newWriter(stream uint64) writer { return writer{rand.NewPCG(seed, stream)} }

func (w writer) below(n int) int { return int(w.Uint64() % uint64(n)) }

// random fills b with what can't be compressed.
func (w writer) random(b []byte) {
	for len(b) >= 8 {
		x := w.Uint64()
		for i := range 8 {
			b[i] = byte(x >> (8 * i))
		}
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(w.Uint64())
	}
}

// vocabulary is made of syllables; the words at its beginning are drawn most often.
func vocabulary() (words []string) {
	w := newWriter(1)
	starts := strings.Fields("b br c ch d dr f fl g gr h j k l m n p pl qu r s sh st t tr v w")
	cores := strings.Fields("a ai e ea i o oo ou u")
	ends := strings.Fields("n r s t l nd rk st x m ck ng")
	for len(words) < 3000 {
		var s strings.Builder
		for range 1 + w.below(3) {
			s.WriteString(starts[w.below(len(starts))] + cores[w.below(len(cores))])
			if w.below(2) == 0 {
				s.WriteString(ends[w.below(len(ends))])
			}
		}
		if !slices.Contains(words, s.String()) {
			words = append(words, s.String())
		}
	}
	return words
}

func (w writer) word(words []string) string {
	return words[min(w.below(len(words)), w.below(len(words)), w.below(len(words)))]
}

// The three kinds of text: what an item looks like as configuration, as program, and as prose. A line's
// letters stand for things to draw: w a word, n a number, h a digest.
var kinds = []struct {
	ext   string
	first []string
	lines []string
}{
	{".yaml", []string{"name: $w-$w", "version: $n.$n", "category: $w", "config:"}, []string{
		"  $w: $w", "  $w:", "    - $w", "    - {name: $w, value: $n}", "    $w_$w: \"$w $w $w\"",
		"  # $w the $w of $w", "    digest: $h", "  enabled: true",
	}},
	{".py", []string{"#!/usr/bin/env python3", "\"\"\"$w $w $w.\"\"\"", "import json", "import sys", ""}, []string{
		"def $w_$w($w, $w=None):", "    \"\"\"$w the $w of a $w.\"\"\"", "    if $w is None:", "        return $n",
		"    for $w in $w.items():", "        $w.append($w[\"$w\"])",
		"    return {\"$w\": $w, \"$w\": $n}", "", "class $w$w:", "    raise ValueError(\"$w $w\")",
		"    # $w $w $w $w",
	}},
	{".md", []string{"# $w $w", "", "<!-- $h -->", ""}, []string{
		"$w $w the $w of $w $w and $w $w $w.", "$w $w $w, $w $w $w $w to $w a $w $w; $w $w.", "- $w: $w $w", "",
		"## $w $w", "See [$w](https://$w.example/$w/$n).", "`$w --$w $n` $w $w $w.",
	}},
}

// text appends at least size bytes of a kind.
func (w writer) text(words []string, b []byte, kind, size int) []byte {
	k, end := kinds[kind], len(b)+size
	for i := 0; len(b) < end; i++ {
		line := ""
		if i < len(k.first) {
			line = k.first[i]
		} else {
			line = k.lines[w.below(len(k.lines))]
		}
		for {
			before, after, found := strings.Cut(line, "$")
			b = append(b, before...)
			if !found {
				break
			}
			switch after[0] {
			case 'w':
				b = append(b, w.word(words)...)
			case 'n':
				b = fmt.Append(b, w.below(10000))
			case 'h':
				b = fmt.Appendf(b, "%016x%016x", w.Uint64(), w.Uint64())
			}
			line = after[1:]
		}
		b = append(b, '\n')
	}
	return b
}

// sizes says how large the corpora are.
type sizes struct{ a, c, b, g int } // files of A and C, the largest asset of B and the file G in bytes

func corpusSizes(quick bool) sizes {
	if quick {
		return sizes{a: 500, c: 2000, b: 2 * mib, g: 32 * mib}
	}
	return sizes{a: 10000, c: 100000, b: 64 * mib, g: 1024 * mib}
}

// makeCorpus makes one corpus, whole or not at all.
func makeCorpus(dir, letter string, quick bool) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	final := filepath.Join(dir, letter)
	tmp, err := os.MkdirTemp(dir, letter+"-")
	if err != nil {
		return err
	}
	s, words := corpusSizes(quick), vocabulary()
	switch letter {
	case "A", "S":
		err = smallFiles(tmp, words, 2, s.a, 100, 512, 8192, letter == "S")
	case "C":
		err = smallFiles(tmp, words, 3, s.c, 250, 64, 1024, false)
	case "B", "D":
		err = assets(tmp, words, s.b, letter == "D")
	case "I":
		err = makeItems(tmp, words, s.a)
	case "I100", "I1000", "I10000", "I100000":
		var n int
		if n, err = strconv.Atoi(letter[1:]); err == nil {
			err = makeItems(tmp, words, n)
		}
	case "G":
		err = giant(filepath.Join(tmp, "giant.dat"), words, s.g)
	default:
		err = fmt.Errorf("there is no corpus %q", letter)
	}
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	if err == nil {
		err = agePast(tmp)
	}
	if err != nil {
		os.RemoveAll(tmp)
		return err
	}
	return os.Rename(tmp, final)
}

// smallFiles writes n files of least to most bytes, two thirds of them in the lower half, a hundredth of them
// edited if asked for.
func smallFiles(dir string, words []string, stream uint64, n, perDir, least, most int, edit bool) error {
	w, editor := newWriter(stream), newWriter(stream+100)
	var b []byte
	sub := ""
	for i := range n {
		if i%perDir == 0 {
			sub = filepath.Join(dir, fmt.Sprintf("part-%02d", i/perDir/10),
				fmt.Sprintf("%s-%02d", w.word(words), i/perDir%10))
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		kind, upTo := w.below(len(kinds)), most
		if w.below(3) > 0 {
			upTo = (least + most) / 2
		}
		size := least + w.below(upTo-least)
		b = w.text(words, b[:0], kind, size)[:size]
		mode, when := fs.FileMode(0o644), past
		if kind == 1 && w.below(8) == 0 {
			mode = 0o755
		}
		if edit && i%100 == 50 {
			b = editor.text(words, b, kind, 40)
			when = edited
		}
		if err := keep(filepath.Join(sub, fmt.Sprintf("%s-%d%s", w.word(words), i, kinds[kind].ext)), b, mode,
			when); err != nil {
			return err
		}
	}
	return nil
}

// assets writes two ladders of files, each half as large as the one before, the smallest twice: one of random
// bytes, one of text.
func assets(dir string, words []string, largest int, edit bool) error {
	for half, name := range []string{"media", "records"} {
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		size := largest
		for i := range 12 {
			stream := uint64(1000 + half*100 + i)
			w, b := newWriter(stream), make([]byte, size, size+size/16+8*kib)
			if half == 0 {
				w.random(b)
			} else {
				for b = b[:0]; len(b) < size; {
					b = w.text(words, b, w.below(len(kinds)), 32*kib)
				}
				b = b[:size]
			}
			when := past
			if edit {
				b, when = editAsset(newWriter(stream+5000), b, i < 4), edited
			}
			if err := keep(filepath.Join(sub, fmt.Sprintf("%02d-%dk.dat", i, size/kib)), b, 0o644, when); err != nil {
				return err
			}
			if i < 10 {
				size /= 2
			}
		}
	}
	return nil
}

// editRun is how many bytes of an asset an edit overwrites.
const editRun = 4 * kib

// editAsset overwrites a hundredth of b in runs of 4 KiB and, if asked for, inserts something. Files that a run
// would change by more than a hundredth stay as they are.
func editAsset(w writer, b []byte, insert bool) []byte {
	for range len(b) / 100 / editRun {
		at := w.below(len(b) - editRun)
		w.random(b[at : at+editRun])
	}
	if insert {
		new := make([]byte, 50+w.below(1000))
		w.random(new)
		b = slices.Insert(b, w.below(len(b)), new...)
	}
	return b
}

// giant writes one file of random and text MiBs in turn.
func giant(name string, words []string, size int) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w, out, b := newWriter(4), bufio.NewWriterSize(f, mib), make([]byte, mib)
	for i := range size / mib {
		if i%2 == 0 {
			w.random(b[:mib])
		} else {
			b = w.text(words, b[:0], w.below(len(kinds)), mib)
		}
		if _, err = out.Write(b[:mib]); err != nil {
			break
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Chtimes(name, past, past)
}

// keep writes a file as if it had been there for long.
func keep(name string, b []byte, mode fs.FileMode, when time.Time) error {
	if err := os.WriteFile(name, b, mode); err != nil {
		return err
	}
	if err := os.Chmod(name, mode); err != nil {
		return err
	}
	return os.Chtimes(name, when, when)
}

// agePast sets the time of directories, once nothing is made in them any more.
func agePast(root string) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chtimes(p, past, past)
		}
		return err
	})
}
