"""Planted faults.

Each is a small change of one line of the delivery or tracker code that the simulator must notice.
"""

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from types import ModuleType, SimpleNamespace

from simulation.simulator import FEW_ALLOWANCES, FEW_NAMES, LIVE, PROTOCOL

MODULES = ("ledger", "incarnation", "outbox", "retired", "inbox", "acknowledgements", "names")
MODULES += ("allowances", "rivals", "learner_tracker", "snapshots", "roster")


@dataclass(frozen=True)
class Mutation:
    """A fault: in which module, what is written there, and what is written instead."""

    name: str
    module: str
    right: str
    wrong: str
    seed: int = 0  # of a history in which it shows

    def seeds(self, most: int) -> Iterable[int]:
        """Return the one in which it shows, then all below `most`: protocols change."""
        return chain([self.seed], range(most))


MUTATIONS = (
    Mutation("epoch not persisted", "inbox", 'cls(state["epoch"] + 1)', "cls(1)"),
    Mutation(
        "live ones not persisted", "inbox", 'for one in state["live"]:', "for one in []:", seed=1
    ),
    Mutation("refusal forgotten", "incarnation", "self.refused[number] = reason", "pass"),
    Mutation(
        "refusal forgotten at restart",
        "inbox",
        'refused=dict(one["refused"])',
        "refused={}",
        seed=27,
    ),
    Mutation(
        "refusal acknowledged",
        "outbox",
        "for number, reason in acknowledgement.refused:",
        "for number, reason in ():",
    ),
    Mutation(
        "acknowledge before commit",
        "incarnation",
        "highest = min(highest, limit - 1)",
        "highest = max(highest, 0, *self.pending)",
        seed=1,
    ),
    Mutation(
        "checkpoint holds what is not durable",
        "inbox",
        "sorted(known.out_of_order)",
        "sorted(known.out_of_order | known.pending.keys())",
        seed=9,
    ),
    Mutation(
        "no dedupe above a hole", "incarnation", " or number in self.out_of_order", "", seed=1
    ),
    Mutation(
        "no dedupe of what is being written",
        "incarnation",
        " or number in self.pending",
        "",
        seed=1,
    ),
    Mutation(
        "dedupe forgets incarnation",
        "inbox",
        "        known = self._live.get(key)\n        if known is not None:",
        "        named = (one for (name, _), one in self._live.items() if name == actor)\n"
        "        known = self._live.setdefault(key, next(named, Incarnation()))\n"
        "        if known is not None:",
    ),
    Mutation("credit ignored on new numbers", "outbox", "sent >= credit.messages or", "False or"),
    Mutation(
        "bytes of the credit ignored",
        "outbox",
        "room = min(credit.size, UNACKNOWLEDGED_BYTES)",
        "room = UNACKNOWLEDGED_BYTES",
        seed=1,
    ),
    Mutation(
        "credit 0 ignored", "outbox", "credit.messages <= 0 or credit.size <= 0", "False", seed=2
    ),
    Mutation(
        "credit not taken over", "outbox", "told, acknowledgement.credit", "told, self.credit"
    ),
    Mutation("credit that was overtaken", "outbox", "or told >= self._told", "or told", seed=14),
    Mutation("missing counts as kept", "outbox", "if number in missing:", "if False:"),
    Mutation("missing not resent", "outbox", "self._again[number] = None", "pass", seed=10),
    Mutation("base ignored", "incarnation", "if base <= self.base:", "if base:", seed=1),
    Mutation(
        "base too high",
        "outbox",
        "self._newest + 1, self.base\n",
        "self._newest + 1, self._newest + 1\n",
    ),
    Mutation(
        "resend re-numbers",
        "outbox",
        "entry.last_at = now\n",
        "entry.last_at = now\n        self._newest += 1\n"
        "        self._sent[self._newest] = self._sent.pop(number)\n",
    ),
    Mutation(
        "new run keeps old numbers",
        "outbox",
        "self._newest, self.base, self._told = 0, 1, (0, 0)",
        "self._told = 0, 0",
        seed=1,
    ),
    Mutation(
        "new run keeps the incarnation",
        "outbox",
        "incarnation = incarnation\n\n",
        "incarnation = self.incarnation\n\n",
        seed=1,
    ),
    Mutation(
        "new run sends what waited", "outbox", "while self._waiting:\n", "while False:\n", seed=1
    ),
    Mutation(
        "drop not counted",
        "outbox",
        "self.ledger.waiting.take(rows)\n        self.ledger.drop(reason, rows)",
        "pass",
    ),
    Mutation("nothing is given up", "outbox", "SENDINGS = 20", "SENDINGS = 1 << 40", seed=10),
    Mutation(
        "an old epoch's weights obeyed",
        "learner_tracker",
        "self._reached.pop(run, Version(0, 0)), Version(epoch, 0))",
        "*[self._reached.pop(run, Version(0, 0))] * 2)",
        seed=31,
    ),
    Mutation(
        "older weights obeyed", "learner_tracker", "version < self._reached[run] or ", "", seed=1
    ),
    Mutation(
        "an old epoch obeyed",
        "learner_tracker",
        "epoch < self._reached[run].epoch",
        "epoch < 0",
        seed=1,
    ),
    Mutation("a second life not noticed", "rivals", "self._echo.times < ECHOES", "True", seed=17),
    Mutation(
        "a copy taken for a restart",
        "learner_tracker",
        "if self._is_copy(run, learner_id, epoch, now):",
        "if False:",
        seed=2,
    ),
    Mutation(
        "a copy obeyed once ours is silent",
        "rivals",
        "return keeper.epoch == life.epoch and keeper != life",
        "return False",
        seed=58,
    ),
    Mutation(
        "what was sent beside a copy",
        "rivals",
        "max(self._rival_at, self._copied_at)",
        "self._rival_at",
        seed=2,
    ),
    Mutation(
        "weights of a copy held for ever",
        "learner_tracker",
        "self._reached[self.run] = Version(self.epoch, 0)",
        "pass",
        seed=82,
    ),
    Mutation(
        "a new run taken for an epoch",
        "learner_tracker",
        "else Verdict.NEW_RUN",
        "else Verdict.NEWER",
        seed=1,
    ),
    Mutation("snapshot asked for once", "learner_tracker", ">= RETRY_S *", ">= 1e9 *", seed=105),
    Mutation(
        "lag not noticed", "learner_tracker", "now - self._behind[1] >= BEHIND_S", "False", seed=41
    ),
    Mutation("place given out twice", "roster", "self._starts[index] += 1", "pass"),
    Mutation(
        "places not persisted",
        "roster",
        'for start in state["starts"]]',
        'for start in [0] * len(state["starts"])]',
    ),
    Mutation(
        "retired without its holes",
        "retired",
        "tuple(_ranges(sorted(numbers.out_of_order)))",
        "()",
        seed=3,
    ),
    Mutation(
        "holes taken for nothing to remember",
        "retired",
        "exact = numbers.out_of_order or ",
        "exact = ",
        seed=7,
    ),
    Mutation(
        "retired without its refusals",
        "retired",
        "refused=dict(partial.refused)",
        "refused={}",
        seed=3,
    ),
    Mutation("retired and forgotten", "inbox", "self._retired.add(*key, known)", "pass"),
    Mutation(
        "retired not found", "inbox", "self._retired.take(*key) or Incarnation()", "Incarnation()"
    ),
    Mutation(
        "retired not persisted",
        "inbox",
        'inbox._retired = RetiredIncarnations.restore(state["retired"])',
        "pass",
        seed=3,
    ),
    Mutation(
        "hash forgets the incarnation", "retired", 'f"{actor} {incarnation:016x}"', 'f"{actor}"'
    ),
    Mutation(
        "another learner's acknowledgement obeyed",
        "learner_tracker",
        "if origin != (",
        "if False and origin != (",
        seed=1,
    ),
    Mutation(
        "another incarnation's acknowledgement obeyed",
        "outbox",
        "if acknowledgement.incarnation != self.incarnation:",
        "if False:",
        seed=1,
    ),
    Mutation(
        "acknowledgements not repeated",
        "acknowledgements",
        "yield from self._repeated(now, credit)",
        "pass",
    ),
    Mutation(
        "only the first is repeated",
        "acknowledgements",
        "self._repeats.move_to_end(key)",
        "pass",
    ),
    Mutation("news not sent", "acknowledgements", "for key in news:", "for key in ():", seed=1),
    Mutation(
        "credit only told to the newest",
        "acknowledgements",
        "self._credits[shares].popitem(last=False)",
        "self._credits[shares].popitem()",
        seed=5,
    ),
    Mutation("any base believed", "incarnation", "self.highest + 1 + AHEAD", "1 << 60"),
    Mutation(
        "words close holes above all that came",
        "inbox",
        "min(base, found.highest + 1)",
        "base",
        seed=84,
    ),
    Mutation("any number admitted", "inbox", "<= sequence < base + WINDOW", "<= sequence"),
    Mutation(
        "room is made in the order of arrival",
        "names",
        "peer = max(self._peers.values(), key=lambda peer: len(peer.without))",
        "peer = next(peer for peer in self._peers.values() if len(peer))",
        seed=48,
    ),
    Mutation(
        "credit not enforced",
        "allowances",
        "(self._find(key) if left is None else left) > 0",
        "True",
    ),
    Mutation(
        "credit enforced without a count", "allowances", "self._find(key) - 1", "self._find(key)"
    ),
    Mutation("credit taken back", "allowances", "max(left, ", "max(0, ", seed=2),
    Mutation(
        "what is not durable is granted again",
        "allowances",
        "messages - self._inbox.pending(*key)",
        "messages",
        seed=18,
    ),
    Mutation(
        "credit of an earlier start forgotten",
        "allowances",
        "self._inbox.epoch == 1 and ",
        "",
        seed=1,
    ),
    Mutation("snapshot never given up", "snapshots", "now - at < PATIENCE_S", "True", seed=79),
)


def load(mutation: Mutation | None = None) -> SimpleNamespace:
    """Load the protocol from source for the simulator, with at most one planted fault."""
    fresh: dict[str, object] = {}
    for name in MODULES:
        source = inspect.getsource(importlib.import_module(f"farflung.common.protocol.{name}"))
        if mutation is not None and mutation.module == name:
            if source.count(mutation.right) != 1:
                raise LookupError(
                    f"{mutation.name}: {mutation.right!r} must stand in {name} exactly once"
                )
            source = source.replace(mutation.right, mutation.wrong)
        module = ModuleType(f"farflung.common.protocol.{name}")
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
        if name == "inbox":
            module.__dict__["LIVE"] = LIVE
        if name == "names":
            module.__dict__.update(FEW_NAMES)
        if name == "allowances":
            module.__dict__.update(FEW_ALLOWANCES)
        own = {
            key: value
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__
        }
        vars(module).update(
            {key: value for key, value in fresh.items() if key in vars(module) and key not in own}
        )
        fresh |= own
    return SimpleNamespace(**{name: fresh[name] for name in vars(PROTOCOL)})
