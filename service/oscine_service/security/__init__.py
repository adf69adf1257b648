"""Who may come in, how much they may ask for, and what the connection is protected by."""
