// Package search is a full-text index of records. It knows neither items nor file systems: a Catalog lists files with
// their stats and loads their records, and an Index caches them in a file. Package query has the language.
//
// # How a search goes through here
//
// Index.Search calls run, whose try lists the catalog's files and reads the last state with base. The state's plan
// finds the files to read; load reads them through the catalog, and a writer indexes them into segments. evaluate
// finds the matching documents in all segments and scores them. Search then reads the best records and highlights
// them, and keep writes the new state.
//
// # Ranking
//
// Scores are BM25F, with k1 = 1.2 and b = 0.75: occurrences in all fields are added up, each divided by 1-b+b*(length
// of the field / average length of such fields) and multiplied by the field's weight, before they saturate. A
// wildcard counts as one word with the occurrences of all its matches, and so does a fuzzy word, whose neighbours at
// distance d count 1/(1+d). A phrase counts as one word, in all documents that have it in one field. Negated words
// add nothing. Word frequencies and field lengths are counted over the whole catalog, whatever the scope. Scores have
// six decimals; ties are decided by rank, kind, id, space and path, so that an answer depends only on the content of
// the files.
//
// # Staleness
//
// Each search first asks the catalog for its files. It reads a file unless its Stat is Sure and equals the cached
// one. Cached stats follow the rules of package statcache, for the same reasons: a stat is cached only if its mtime
// and ctime are more than two seconds older than the beginning of the update and its ctime has a fraction of a
// second; all are void if the clock was set back since, and none is cached if it was set back during the update. A
// file with the same records as before costs only the reading. Stats.Unread names unreadable files, and the next
// search tries them again.
//
// # The file
//
// An index is one file (package checkedbolt) of the format "rye search index 1". It is rebuilt if it is damaged, has
// another version, or Catalog.Schema changes: the schema therefore covers the kinds' fields and weights. Losing it
// costs only time. It has segments, which never change, and a table of all files with the places of their records:
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
// So a query reads the table, the docs and its own terms. New records make another segment, or one for each processor
// if they are many. A segment of 16 MiB is full, and the next one begins: new segments wait in unnamed files next to
// the index, so that memory doesn't grow with them. Segments that are more than half garbage are merged into one from
// their records, and so are the smallest if more than eight aren't full. A file that is more than half unused is
// replaced.
//
// A writer starts from one generation of the table and writes only if that generation is still current: a later
// writer discards its work. After a loss of power the table may be an older one, which the stats bring up to date.
//
// # Without the file
//
// If another process writes for longer than two seconds, or the file can't be created, or would be larger than 512
// MiB, each search reads everything, and Stats.Note has the reason. It is never an error. The limit bounds the disk
// space for one project: it is some 180,000 records of 300 words.
//
// # Bounds
//
// The records of one file have 16 MiB of text and 64 fields each at most; a file with more is in Stats.Unread. A
// query has at most 4 KiB and 100 words, and looks at each term and each posting at most once for each word.
package search
