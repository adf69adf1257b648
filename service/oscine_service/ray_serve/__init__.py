"""Units as replicas of a Ray Serve deployment: deploy/ray/serve.yaml names what is here. See docs/ray.md."""
