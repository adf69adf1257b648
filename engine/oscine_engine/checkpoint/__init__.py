"""Model directories: layout, loading, the embedded voice, and synthetic ones for tests."""
