"""A robot with a loop of its own, as a program: `robots.py FORM HOST:PORT FEED_PORT [STEPS]`.

FORM is `session`, `threaded`, `rate` or `event_loop`. It prints when a line of the log came, in
seconds after the session was opened, and at the end the count of acknowledged steps.
"""

import asyncio
import logging
import sys
import time
from typing import Any

from farflung.actor.session import ActorSession, AsyncActorSession

OPENED_AT = time.monotonic()


class Timed(logging.Handler):
    """Prints each line with its time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        print(f"{time.monotonic() - OPENED_AT:.3f} s: {record.getMessage()}", flush=True)


def in_a_thread(address: str, feed_port: int, steps: int, **how: Any) -> Any:
    """Act alone until the learner is there, then play with it."""
    session = ActorSession(address, feed_port=feed_port, wait=False, **how)
    with session:
        while not session.ready:
            time.sleep(0.01)
        for step in range(steps):
            if "rate" in how:
                session.next_period()
            action = session.act([step, 0, 0, 0])
            session.record(1.0, step % 10 == 9, False, [step + 1, 0, 0, 0], action=action)
    return session


async def on_a_loop(address: str, feed_port: int, steps: int) -> Any:
    """Play on an event loop."""
    async with AsyncActorSession(address, feed_port=feed_port) as session:
        for step in range(steps):
            await session.act([step, 0, 0, 0])
            session.record(1.0, step % 10 == 9, False, [step + 1, 0, 0, 0])
    return session


def main(form: str, address: str, feed_port: str, steps: str = "100") -> None:
    """Play so many steps in this form."""
    logging.getLogger().addHandler(Timed(logging.WARNING))
    if form == "event_loop":
        session = asyncio.run(on_a_loop(address, int(feed_port), int(steps)))
    else:
        how: Any = {"threaded": {"threaded": True}, "rate": {"rate": 200}}.get(form, {})
        session = in_a_thread(address, int(feed_port), int(steps), **how)
    print(f"acknowledged: {session.ledger.acknowledged.rows} steps", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
