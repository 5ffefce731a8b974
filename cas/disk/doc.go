// Package disk is the store on disk: a directory of packs, which many processes use at once.
//
//	format            the version of this layout, and the oldest reader that understands it
//	packs/ID.pack     objects; a pack never changes, and ID is the first 16 bytes of the digest of its index
//	refs/NAME.ref     names for objects ('/' written '+', upper case 'x' written '^x')
//	writers/, pins/   leases: files that live processes hold locked
//	tmp/              unfinished files
//	garbage           the entries that gc found unreachable, their packs, and when gc first found them so
//	condemned         the entries that the running gc is about to remove
//	doomed            packs that a gc has replaced or emptied and is removing; no process reads them any more
//	refs.lock, janitor.lock
//
// # Packs
//
// A pack is "rye pack" and a salt of 8 random bytes, blocks, zeros up to a multiple of 4,096, the pages of the
// index, and a footer of 64 bytes. All numbers are little-endian; sums are CRC-32C.
//
// A block holds up to 256 KiB of records, compressed together as one zstd frame or, where that does not make
// them shorter, as they are:
//
//	"rblk"                           4
//	number of records, codec         3, 1   codec 0: as they are, 1: zstd
//	length of the records            4
//	length of the payload            4
//	sum of salt and this header      4      its own four bytes left out
//	for each record: kind, length    1, uvarint
//	payload
//
// A record is an object of up to 256 KiB (kind 1 blob, 2 tree, 3 document), or a part of a long one: 0x10 a chunk of a
// blob, 0x11 a chunk of a tree or document, 0x12 a chunk list, 0x81..0x83 the root of an object's chunk list. The
// block does not give digests: a reader without the index hashes the records.
//
// The index is pages of 4,096 bytes, the last four a sum over the page's number and content. First come the
// entries, 93 to a page, sorted by digest and kind:
//
//	digest                           32
//	number of the block              4
//	offset in the block, kind        3, 1
//	length of the record             4
//
// then the places of the blocks, 255 to a page, in the order of their numbers:
//
//	offset of the payload, codec     7, 1
//	length of the payload            4
//	length of the records            4
//
// The footer is "ryepack2", the number of entries (8), the number of blocks (8), the offset of the index (8),
// the pack's ID (16), the salt (8), four zeros, and a sum of all that. The ID is the digest of the pages, of the
// footer's first 32 bytes, and of the salt: no two packs ever share a name, so a pack can be removed by its name
// without reading it again. The salt in the sums of block headers keeps
// bytes within a file that look like a block from being taken for one.
//
// # Long objects
//
// Blobs over 256 KiB and trees and documents over 4 KiB are cut into chunks at boundaries that their content
// determines, so that an edited copy costs only the changed chunks. Lists of chunks are cut in the same way, and
// listed in turn, until one list is left. A list is its level (1 byte; 0 lists chunks) and for each item its digest
// (32) and the length of the bytes below it (uvarint). The root record is the object's digest (32), its length (8),
// and the highest list. The index lists it under the object's own digest, and the assembled bytes must have that
// digest.
//
// # What holds at every moment
//
// A batch writes its packs under temporary names, syncs each once, and gives them their names, one after the other and
// each durable before the next: a batch is mostly one pack, and costs two syncs. It also syncs the packs in which it
// found objects, because another process may have named them a moment ago. Nothing is ever changed in place. Writers
// merge packs of about one size, eight at a time, so that the number of packs grows with the logarithm of the number
// of batches. A replaced pack stays readable for processes that have it open.
//
// A gc removes objects that have been unreachable for the grace period. Writers put objects in the record of garbage
// again, so an object that was just put has the whole grace period to get a reference. A ref that is set before the
// batch is closed needs no grace. The file doomed makes the removal atomic. Objects that stay keep everything they
// need, garbage or not: an object that counts as present can be read.
//
// A pack gets the modification time 2^30 (January 2004) when it is sealed. Another time means that the pack was
// written to or copied since. Writers then read and verify the whole pack before they count its records as present,
// and set the time again.
//
// The store hashes every byte that it hands out. It trusts a page of an index only if the page's sum is right: the
// objects of a damaged page are absent for writers, which put them again, and readers search the blocks. So a damaged
// index can cost time and space but no data. Locks are the system's (flock), and end with their process.
//
// # How a call goes through here
//
// A put: Store.Batch takes a lease and a snapshot of the packs; batch.add looks the record up, appends it to a
// builder's block, and packWriter.write appends full blocks to the pack; putLong cuts long objects first. Commit seals
// the packs and publish names them; Close merges packs. A get: Store.Get loads a snapshot, pack.place finds the entry,
// and blockCache.record uncompresses its block; salvage helps out where an index is damaged. A gc: marks.roots marks,
// findGarbage sorts the rest, condemn waits for writers, spareNew keeps what their objects need, and collect
// rewrites the packs and removes the old ones.
//
// # Recovery
//
// Temporary files of dead processes are swept by the next janitor (gc, repack, reindex). A pack whose footer or index
// is damaged is read block by block, and every record found is hashed: readers do that in memory, Reindex for good.
// The objects of a damaged block are lost; Fsck names them and their referrers, and Repair copies them from another
// store. Losing the files garbage and condemned costs grace, nothing else. Where doomed is damaged, writers treat all
// objects as absent, and no janitor runs until the user removes the file.
//
// Not promised: anything on a file system without working locks, and protection from users who can write to the
// store's directory.
package disk
