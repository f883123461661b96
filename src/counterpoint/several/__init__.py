"""More than one answer to a row: several that differ, and one target after the other."""
