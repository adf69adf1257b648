"""The native WebSocket protocol (docs/websocket.md), and what other dialects of a WebSocket share with it."""
