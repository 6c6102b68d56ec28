"""gRPC: a stream of messages of 64 KiB, decoded into a ring of rows and acknowledged one by one."""

import subprocess
import sys
import time
from concurrent import futures

import grpc
import numpy as np
from _said import say, words

SIZE, SLOTS, METHOD = 65_536, 1_000, "/bench.Rows/Send"


def serve() -> None:
    """Print the port, and serve until standard input closes."""
    ring, number = np.zeros((SLOTS, SIZE), np.uint8), 0

    def received(messages, _):
        nonlocal number
        for message in messages:
            ring[number % SLOTS] = np.frombuffer(message, np.uint8)
            number += 1
            yield b"\1"

    handler = grpc.stream_stream_rpc_method_handler(received)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    service, method = METHOD.strip("/").split("/")
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {method: handler})]
    )
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0)


def main() -> None:
    """Send messages and wait for all acknowledgements."""
    asked = words()
    command = [sys.executable, __file__, "serve"]
    count = 300 if asked.short else 10_000
    message = np.random.default_rng(0).integers(0, 255, SIZE, np.uint8).tobytes()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        channel = grpc.insecure_channel(f"127.0.0.1:{int(server.stdout.readline())}")
        send = channel.stream_stream(METHOD)
        list(send(iter([message] * 64)))  # warm up
        began = time.perf_counter()
        acknowledged = sum(1 for _ in send(message for _ in range(count)))
        taken = time.perf_counter() - began
        assert acknowledged == count
        channel.close()
        server.stdin.close()
    say(value=count / taken)


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else main()
