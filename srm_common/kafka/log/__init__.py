"""What a partition's leader tells of its log: records, markers, offsets by time, ends of leader epochs."""
