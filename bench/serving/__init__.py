"""What `python -m bench.serve` is made of: the server, its clients, the rows, and what is written about them."""
