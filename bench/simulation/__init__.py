"""The scheduler against a simulated clock: the engine's own policy, admission and start over tables of costs."""
