"""Reverb: its writer to its server, items of 64 KiB in a table of its own."""

import subprocess
import sys
import time

import numpy as np
import reverb
from _said import say, words

SIZE = 16_384  # float32


def serve() -> None:
    """Print the port, and serve until standard input closes."""
    server = reverb.Server([reverb.Table.queue("rows", 1_000_000)])
    print(server.port, flush=True)
    sys.stdin.read()
    server.stop()


def main() -> None:
    """Insert items, and wait until the server has confirmed the last."""
    asked = words()
    count = 200 if asked.short else 5_000
    rows = np.random.default_rng(0).random(SIZE, np.float32)
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        client = reverb.Client(f"127.0.0.1:{int(server.stdout.readline())}")
        with client.trajectory_writer(num_keep_alive_refs=1) as writer:
            began = time.perf_counter()
            for _ in range(count):
                writer.append({"rows": rows})
                writer.create_item("rows", 1.0, {"rows": writer.history["rows"][-1:]})
            writer.flush()
            taken = time.perf_counter() - began
        server.stdin.close()
    say(value=count / taken)


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else main()
