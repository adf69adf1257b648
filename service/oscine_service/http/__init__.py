"""HTTP and WebSocket: one port beside that of gRPC."""
