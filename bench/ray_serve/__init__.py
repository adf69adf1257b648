"""Units as replicas of Ray Serve."""
