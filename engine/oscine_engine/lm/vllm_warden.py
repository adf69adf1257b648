"""`python -m oscine_engine.lm.vllm_warden PID...`: ends these processes when its standard input closes.

vLLM's process does not notice when the one that started it is killed, and would keep its part of the GPU. The pipe to
this one closes however that end comes.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    # Unlike numbers these stay those of the same processes.
    watched = []
    for pid in sys.argv[1:]:
        with suppress(ProcessLookupError):
            watched.append(os.pidfd_open(int(pid)))
    while os.read(0, 4096):
        pass
    for process in watched:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
