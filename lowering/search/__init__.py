"""The search for the fastest launch: candidates, the memory they need, and their costs."""
