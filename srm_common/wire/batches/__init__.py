"""Record batches as they lie in a log: headers, checksums, codecs, their records one by one, and who may see them."""
