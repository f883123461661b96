"""Other ways to explain the differences between groups, to compare with."""
