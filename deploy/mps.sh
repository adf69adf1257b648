#!/usr/bin/env bash
# mps.sh start|stop|status: CUDA's Multi-Process Service, by which several processes compute on one GPU at the same time
# instead of by turns. For an engine beside vLLM (docs/vllm.md). Start it before them, as the user they run as, and give
# them the same two variables, if they are set here:
#   CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps     where processes find it
#   CUDA_MPS_LOG_DIRECTORY=/var/log/nvidia-mps  where it writes what it does
# Exit status: 0 done, 1 it could not be done, 2 the command was wrong.
set -euo pipefail

control() {
    printf '%s\n' "$1" | nvidia-cuda-mps-control
}

running() {
    control get_server_list >/dev/null 2>&1
}

case "${1:-}" in
start | stop | status) ;;
*)
    echo "usage: mps.sh start|stop|status" >&2
    exit 2
    ;;
esac

if ! command -v nvidia-cuda-mps-control >/dev/null; then
    echo "mps.sh: nvidia-cuda-mps-control is not there; it comes with the NVIDIA driver (in a container: with the" \
        "compute and utility capabilities)" >&2
    exit 1
fi

case "${1:-}" in
start)
    if running; then
        echo "mps.sh: it runs already"
        exit 0
    fi
    mkdir -p "${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}" "${CUDA_MPS_LOG_DIRECTORY:-/var/log/nvidia-mps}"
    nvidia-cuda-mps-control -d
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        if running; then
            echo "mps.sh: it runs"
            exit 0
        fi
        sleep 0.5
    done
    echo "mps.sh: it was started and does not answer; see control.log in" \
        "${CUDA_MPS_LOG_DIRECTORY:-/var/log/nvidia-mps}" >&2
    exit 1
    ;;
stop)
    control quit
    ;;
status)
    if running; then
        echo "mps.sh: it runs; servers: $(control get_server_list | tr '\n' ' ')"
    else
        echo "mps.sh: it does not run"
        exit 1
    fi
    ;;
esac
