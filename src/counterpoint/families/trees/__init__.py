"""Family: trees, forests and boosted ensembles, whose scores are sums over leaves."""
