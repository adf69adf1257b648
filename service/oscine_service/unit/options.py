"""grpc's options for the socket between the two processes."""

SERVER = (
    # grpc takes 4 MiB at most, which is 43 seconds of audio; a sentence's text ids and its audio stay far below this.
    ("grpc.max_receive_message_length", 64 * 2**20),
    ("grpc.so_reuseport", 0),
)

CHANNEL = (
    ("grpc.max_receive_message_length", 64 * 2**20),
    # No proxy, whatever the environment names, and no second try on a process that may be another one.
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
