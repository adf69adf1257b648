"""The player in a real browser, and what it plays compared with what was sent."""
