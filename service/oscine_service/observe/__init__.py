"""What a service tells of itself: logs, metrics, traces and health. Never what its users say."""
