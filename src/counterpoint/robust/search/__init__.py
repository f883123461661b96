"""The search over conditions that noise on the weights brings."""
