"""Family: scores that are sums of functions of one column each, and programs over whole columns."""
