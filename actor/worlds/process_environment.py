"""Environments in processes of their own, for those that hold the interpreter's lock.

The other side is environment_process.py. Nothing that can run code is sent: arrays, names and
numbers.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np

from farflung.actor.worlds.failures import Environment
from farflung.common.data.spec import World

CLOSE_S = 2.0  # for an environment that closes; then its process is killed
SIZE_BYTES = 8  # of the length before each message
PROGRAM = "farflung.actor.worlds.environment_process"

Wire = Any  # what msgpack knows


class Order(msgspec.Struct, frozen=True):
    """The environment that a process makes."""

    world: World
    imports: tuple[str, ...]
    infos: tuple[str, ...]  # the names in the info of its steps that are sent


class Asked(NamedTuple):
    """A call of an environment, and a digest of what it returned."""

    call: Wire  # the word for it, and its argument
    returned: bytes


class Raised(Exception):
    """An environment raised in its process, or the process ended."""


class ProcessEnvironment:
    """An environment in a process of its own, which ends with this one."""

    def __init__(self, order: Order) -> None:
        """Start the process. `ready` waits until the environment is made."""
        self._process = subprocess.Popen(  # noqa: S603 - the command is our own
            [sys.executable, "-m", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._stream: str | None = None  # of the next reset
        self._send(msgspec.to_builtins(order))

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def unwrapped(self) -> "ProcessEnvironment":
        """The environment itself."""
        return self

    def _set_stream(self, stream: np.random.Generator) -> None:
        self._stream = state_of(stream)

    np_random = property(None, _set_stream)

    def ready(self) -> None:
        """Wait until the environment is made; raise what its making raised."""
        self._receive()

    def reset(self, *, seed: int | None = None) -> tuple[Any, Mapping[str, Any]]:
        """Begin an episode."""
        stream, self._stream = self._stream, None
        seen, info = unpacked(self.ask(["reset", [seed, stream]]))
        return seen, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Mapping[str, Any]]:
        """Take an action."""
        seen, reward, terminated, truncated, info = unpacked(self.ask(["step", packed(action)]))
        return seen, reward, bool(terminated), bool(truncated), info

    def ask(self, call: Wire) -> Wire:
        """Make a call; return what it returned, packed."""
        self._send(call)
        return self._receive()

    def close(self) -> None:
        """Close the environment and end its process."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            self._send(["close", None])
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _send(self, message: Wire) -> None:
        assert self._process.stdin is not None
        body = msgspec.msgpack.encode(message)
        with suppress(BrokenPipeError):  # the answer says how the process ended
            self._process.stdin.write(len(body).to_bytes(SIZE_BYTES, "little") + body)
            self._process.stdin.flush()

    def _receive(self) -> Wire:
        assert self._process.stdout is not None
        size = self._process.stdout.read(SIZE_BYTES)
        body = self._process.stdout.read(int.from_bytes(size, "little"))
        if len(size) < SIZE_BYTES or len(body) < int.from_bytes(size, "little"):
            code = self._process.wait()
            raise Raised(f"the process {self.pid} of an environment ended with exit code {code}")
        kind, found = msgspec.msgpack.decode(body)
        if kind == "raised":
            raise Raised(f"in the process {self.pid} of an environment:\n{found}")
        if kind == "unknown":  # as a world that only declares its spaces
            raise NotImplementedError(found)
        return found


class CallRecorder:
    """An environment that notes what it is asked, so that another one can be brought as far."""

    def __init__(self, environment: Environment, infos: Iterable[str]) -> None:
        self.environment, self._infos = environment, tuple(infos)
        self.asked: list[Asked] = []
        self._stream: str | None = None
        self.render_mode = getattr(environment, "render_mode", None)

    @property
    def unwrapped(self) -> "CallRecorder":
        """The environment itself."""
        return self

    def _set_stream(self, stream: np.random.Generator) -> None:
        self._stream = state_of(stream)
        self.environment.unwrapped.np_random = stream

    np_random = property(None, _set_stream)

    def reset(self, *, seed: int | None = None) -> Any:
        """Begin an episode."""
        stream, self._stream = self._stream, None
        begun = self.environment.reset() if seed is None else self.environment.reset(seed=seed)
        self._note(["reset", [seed, stream]], begun)
        return begun

    def step(self, action: Any) -> Any:
        """Take an action."""
        call = ["step", packed(action)]  # an environment may spoil it
        outcome = self.environment.step(action)
        self._note(call, outcome)
        return outcome

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    def _note(self, call: Wire, returned: Any) -> None:
        self.asked.append(Asked(call, digest(sendable(returned, self._infos))))


def made(environment: Environment, call: Wire) -> Any:
    """Make a call of an environment here; return what it returned."""
    name, argument = call
    if name == "step":
        return environment.step(unpacked(argument))
    seed, stream = argument
    if stream is not None:
        bits = np.random.PCG64(0)
        bits.state = json.loads(stream)
        environment.unwrapped.np_random = np.random.Generator(bits)
    return environment.reset() if seed is None else environment.reset(seed=seed)


def brought(environment: ProcessEnvironment, asked: Iterable[Asked]) -> bool:
    """Ask the same in another process; return whether it returns the same to the bit."""
    return all(digest(environment.ask(call)) == returned for call, returned in asked)


def sendable(returned: Any, infos: Iterable[str]) -> Wire:
    """Return an outcome packed, with those names of its info alone, the last thing in it."""
    if returned is None:
        raise NotImplementedError("reset() returns nothing")
    *found, info = returned
    return packed([*found, {name: info[name] for name in infos if info.get(name) is not None}])


def packed(value: Any) -> Wire:
    """Return a value in msgpack's words: dictionaries, lists and arrays of numbers."""
    if isinstance(value, dict):
        return {name: packed(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return ["several", [packed(part) for part in value], isinstance(value, tuple)]
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"{value!r:.100} is no number, and cannot leave its process")
    return [array.dtype.str, [*array.shape], array.tobytes()]


def unpacked(found: Wire) -> Any:
    """Return the value of such words."""
    if isinstance(found, dict):
        return {name: unpacked(part) for name, part in found.items()}
    kind, parts, data = found
    if kind == "several":
        values = [unpacked(part) for part in parts]
        return tuple(values) if data else values
    array = np.frombuffer(data, np.dtype(kind)).reshape(parts).copy()
    return array if parts else array[()]


def digest(found: Wire) -> bytes:
    """Return a digest of packed words."""
    return hashlib.blake2b(msgspec.msgpack.encode(found), digest_size=16).digest()


def state_of(stream: np.random.Generator) -> str:
    """Return the state of a stream as text: its numbers have 128 bits."""
    return json.dumps(stream.bit_generator.state)
