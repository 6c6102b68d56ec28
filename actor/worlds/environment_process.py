"""The process of one environment: it answers calls until its standard input closes."""

import os
import signal
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import Any, BinaryIO

import msgspec

from farflung.actor.worlds import families
from farflung.actor.worlds.own import import_own
from farflung.actor.worlds.process_environment import SIZE_BYTES, Order, Wire, made, sendable

KILLED_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def main() -> None:
    """Make the environment of the first message; answer the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the actor, which then closes this
    end_with_parent()
    # What an environment prints goes to the log; it has nothing to read.
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    calls: SimpleQueue[Wire] = SimpleQueue()
    threading.Thread(target=read, args=(source, calls), daemon=True).start()
    serve(msgspec.convert(calls.get(), Order), calls, sink)


def end_with_parent() -> None:
    """Let the kernel end this process with the actor, even in native code that holds the lock."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(KILLED_WITH_PARENT, signal.SIGKILL)


def read(source: BinaryIO, calls: "SimpleQueue[Wire]") -> None:
    """Put what comes into a queue. The actor's end closes the pipe: end at once, in a step too."""
    while size := source.read(SIZE_BYTES):
        calls.put(msgspec.msgpack.decode(source.read(int.from_bytes(size, "little"))))
    os._exit(0)


def serve(order: Order, calls: "SimpleQueue[Wire]", sink: BinaryIO) -> None:
    """Make the environment and answer calls, until one closes it."""
    environment: Any = None
    call: Wire = ["make", None]
    while call[0] != "close":
        try:
            if environment is None:
                import_own(order.imports)
                environment, answer = families.make(order.world), None
            else:
                answer = sendable(made(environment, call), order.infos)
            write(sink, ["returned", answer])
        except NotImplementedError as error:
            write(sink, ["unknown", str(error)])
        except Exception:  # a user's code
            write(sink, ["raised", traceback.format_exc()])
        call = calls.get()
    if environment is not None:
        environment.close()


def write(sink: BinaryIO, answer: Wire) -> None:
    """Send an answer."""
    body = msgspec.msgpack.encode(answer)
    sink.write(len(body).to_bytes(SIZE_BYTES, "little") + body)
    sink.flush()


if __name__ == "__main__":
    main()
