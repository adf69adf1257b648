"""A live view of services by what their metrics say: samples, what they mean, and a screen of it."""
