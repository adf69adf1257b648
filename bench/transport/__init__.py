"""What the doors cost without an engine behind them."""
