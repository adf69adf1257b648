"""All that can be set, in one model, from a file, the environment and flags."""
