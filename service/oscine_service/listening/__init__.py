"""Speech back to text, and how far that is from what should have been said. Nothing here is needed to speak."""
