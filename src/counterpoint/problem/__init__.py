"""What is asked of an explanation: targets, costs, constraints, and the policy file."""
