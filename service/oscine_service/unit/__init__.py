"""An engine in a process of its own, the socket to it, and who watches over it."""
