"""Carriers and exchanges that open a WebSocket for each call: a translator each, and one door for all of them."""
