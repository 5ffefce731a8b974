// Package search finds records by the words in them. It knows neither items nor files: a Catalog says which files
// there are, what they looked like, and what they say; an Index remembers it; a Source is anything that can be
// asked the same way. Package query has the language.
//
// # Ranking
//
// Scores are BM25F, with k1 = 1.2 and b = 0.75: occurrences in all fields are added up, each divided by 1-b+b*(length
// of the field / average length of such fields) and multiplied by the field's weight, before they saturate. A wildcard
// counts as one word with the occurrences of all that it stands for, and so does a fuzzy word, whose neighbours at
// distance d count 1/(1+d). A phrase counts as one word, in all documents that have it in one field. What is negated
// adds nothing. How rare a word is, and how long fields are, is counted over the whole catalog, whatever the scope.
// Scores have six decimals; after them rank, kind, id, space and path decide, so that an answer depends on what the
// files say and on nothing else.
//
// # What is never stale
//
// Each search first asks the catalog for its files. One whose Stat is Sure and is the one that was remembered is not
// read, any other is. That a stat says enough is subject to the conditions that package statcache names, for the
// same reasons: only stats are remembered whose mtime and ctime are older than the beginning of the update by more
// than two seconds and whose ctime has a fraction of a second; all of them are void when the clock was set back since,
// and nothing is remembered if it was set back during the update. A file that was read and says what it said before
// costs no more than the reading. A file that can't be read is named in Stats.Unread, and asked for again next time.
//
// # The file
//
// An index is one file (package sealed) of the format "rye search index 1". What it holds is made anew when it is
// damaged, of another version, or when Catalog.Schema changes: so the kinds' fields and weights are part of its name.
// Its loss costs time alone. It holds segments, which never change, and a table of all files that says where the
// records of each are:
//
//	"files" → schema (32: BLAKE3 of Catalog.Schema) generation (8) boot (8) wall (8) up (8)
//	          n, n × segment: id (8), the length of each stream (5 × 8)
//	          n, n × file: space path flags (1)
//	                       with flag 1: size mtime ctime device inode mode (6 × 8); with flag 2: digest (32)
//	                       hash of its records (16) n-records [segment first-record]
//	"s" segment (8, big-endian) stream (1) chunk (4, big-endian) → at most 64 KiB of a stream
//
// Other numbers are little-endian where a size is given and else unsigned varints (rank: signed); texts have their
// length before them. Files are sorted by space and path. The streams of a segment are:
//
//	0 docs       n, n × layout: n, n × (name weight (8)); n, n × doc: kind id space path rank, place and length of
//	             the record, layout, the number of words in each field
//	1 blocks     for every 128 terms: the first, its place in stream 2, the place of its postings in stream 3
//	2 terms      sorted: term, length of its postings
//	3 postings   for each document: documents left out since the last, then fields: 2*field + 1 if another one
//	             follows, n, n × words since the last occurrence
//	4 records    kind id space path rank n, n × (name text weight (8))
//
// So a query reads the table, the docs and the terms that it asks for. What is new since makes another segment, for
// each processor one if it is much. A segment of 16 MiB is full, and the next one is begun: what is made waits in
// files without a name beside the index, so that memory doesn't grow with it. Segments that are more than half
// garbage, and when there are more than eight that aren't full the smallest of them, are made into one from their
// records. A file that is more than half unused is replaced.
//
// A writer derives from one generation of the table and writes only if that one is still there: who comes later
// forgets what it wanted to remember. A table that came back after a loss of power is an old one, which stats
// bring up to date.
//
// # Without the file
//
// When another process writes for longer than two seconds, or the file can't be made, or would be larger than 512 MiB,
// each search reads everything, and Stats.Note says why. It is never an error. The limit bounds what a user loses on
// disk to one project: it is some 180,000 records of 300 words.
//
// # Bounds
//
// The records of one file have 16 MiB of text and 64 fields each at most; a file with more is in Stats.Unread. A
// query has at most 4 KiB and 100 words, and looks at each term and each posting at most once for each word.
package search
