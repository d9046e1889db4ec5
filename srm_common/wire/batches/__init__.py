"""Record batches as stored in a log: headers, checksums, codecs, single records, and their visibility to consumers."""
