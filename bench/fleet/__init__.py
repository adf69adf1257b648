"""Two units behind a balancer."""
