"""`python -m bench` lists the benchmarks; `python -m bench NAME ...` runs one, as `python -m bench.NAME ...` does."""

import runpy
import sys

BENCHMARKS = {
    "chaos": "errors and seconds to recovery when the engine process is killed under running calls",
    "cloning": "whether cloned voices sound like their references",
    "drills": "what is promised, and what happens, when processes, disks, clocks and networks fail",
    "evenness": "whether a long text stays as loud and as cheap to its end",
    "feed": "underruns and lost words when text comes at an agent's pace and stalls",
    "first_packet": "latency, audible onset, real-time factor and underruns of a real server",
    "fuzz": "whether nonsense sent to every parser is refused in words, and leaves nothing behind",
    "growth": "whether speech gets dearer as it goes on: chunk times and memory",
    "hop": "what an engine in a process of its own adds to the first audio",
    "intelligibility": "error rate and opinion score of synthesised sentences",
    "load": "how many real-time streams at once, refusals, and silence after a cancel",
    "options": "error rates of speech at the speeds and drawn in the ways that may be asked for",
    "parity": "differences from recorded numbers of the original implementation",
    "quality": "errors, likeness, opinion and joins of speech, by voice and mode, in one table",
    "ray_serve": "what Ray Serve adds in front of two units, and what is lost when one is drained or killed",
    "registration": "seconds from a recording to a voice that is kept",
    "repetition": "what sampling without regard to what was said costs: ids said again, loops",
    "resynthesis": "error rate of recordings that went through speech ids and back",
    "rtp": "how evenly a hundred telephone calls are sent, and whether their clock drifts",
    "serve": "latency, throughput and underruns of the service at full size, with random weights",
    "simulate": "the scheduler on cost tables: first packets, underruns and refusals of simulated devices",
    "soak": "whether anything stays behind after many sessions that end in every way",
    "transport": "what gRPC and WebSocket cost without an engine: late frames, CPU time, first packets",
    "store": "microseconds to find a voice among ten thousand",
    "word_times": "how far off the times of words are",
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else None
    if name in BENCHMARKS:
        sys.argv = [f"python -m bench {name}", *sys.argv[2:]]
        runpy.run_module(f"bench.{name}", run_name="__main__", alter_sys=False)
        return
    listing = "\n".join(f"  {each:16} {what}" for each, what in BENCHMARKS.items())
    usage = f"python -m bench NAME [--help] [...]\n\n{listing}"
    if name in (None, "-h", "--help"):
        print(usage)
    else:
        sys.exit(f"there is no benchmark {name!r}: {usage}")


if __name__ == "__main__":
    main()
