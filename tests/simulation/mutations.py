"""Planted faults: each is a small change of one line of the delivery or membership code that the simulator must notice."""

import importlib
import inspect
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

from common import delivery, membership

MODULES = ("delivery.ledger", "delivery.life", "delivery.credit", "delivery.outbox", "delivery.inbox")
MODULES += ("membership.allegiance", "membership.snapshots", "membership.roster")


@dataclass(frozen=True)
class Mutation:
    """A fault: in which module, what is written there, and what is written instead."""

    name: str
    module: str
    right: str
    wrong: str


MUTATIONS = (
    Mutation("epoch not persisted", "delivery.inbox", 'cls(state["epoch"] + 1)', "cls(1)"),
    Mutation("table not persisted", "delivery.inbox", 'for life in state["lives"]:', "for life in []:"),
    Mutation("refusal forgotten", "delivery.life", "self.refused[number] = reason", "pass"),
    Mutation("refusal forgotten at restart", "delivery.inbox", 'refused=dict(life["refused"])', "refused={}"),
    Mutation("refusal acknowledged", "delivery.outbox", "for number, reason in line.refused:", "for number, reason in ():"),
    Mutation("acknowledge before commit", "delivery.life", "highest = min(highest, limit - 1)", "highest = max(highest, 0, *self.pending)"),
    Mutation("checkpoint holds what is not durable", "delivery.inbox", "sorted(life.beyond)", "sorted(life.beyond | life.pending.keys())"),
    Mutation("no dedupe above a hole", "delivery.life", " or number in self.beyond", ""),
    Mutation("no dedupe of what is being written", "delivery.life", " or number in self.pending", ""),
    Mutation(
        "dedupe forgets incarnation",
        "delivery.inbox",
        "life = self._lives.get(key)",
        "life = self._lives.setdefault(key, next((life for (name, _), life in self._lives.items() if name == actor), Life()))",
    ),
    Mutation("credit ignored on new numbers", "delivery.outbox", "sent >= credit.messages or", "False or"),
    Mutation("bytes of the credit ignored", "delivery.outbox", "len(self._formed) > credit.size", "0 > credit.size"),
    Mutation("credit 0 ignored", "delivery.outbox", "credit.messages <= 0 or credit.size <= 0", "False"),
    Mutation("credit not taken over", "delivery.outbox", "self.credit = line.credit", "pass"),
    Mutation("missing counts as kept", "delivery.outbox", "if number in missing:", "if False:"),
    Mutation("missing not resent", "delivery.outbox", "self._again[number] = None", "pass"),
    Mutation("base ignored", "delivery.life", "if base <= self.base:", "if base:"),
    Mutation("base too high", "delivery.outbox", "self._newest + 1, self.base)", "self._newest + 1, self._newest + 1)"),
    Mutation(
        "resend re-numbers",
        "delivery.outbox",
        "entry.last_at = now\n",
        "entry.last_at = now\n        self._newest += 1\n        self._sent[self._newest] = self._sent.pop(number)\n",
    ),
    Mutation("new run keeps old numbers", "delivery.outbox", "self._newest, self._chosen, self.base = 0, 0, 1", "self._chosen = 0"),
    Mutation("new run keeps the incarnation", "delivery.outbox", "incarnation = incarnation\n\n", "incarnation = self.incarnation\n\n"),
    Mutation("new run sends what waited", "delivery.outbox", "while self._waiting:\n", "while False:\n"),
    Mutation("drop not counted", "delivery.outbox", "self.ledger.waiting.take(rows)\n        self.ledger.drop(reason, rows)", "pass"),
    Mutation("nothing is given up", "delivery.outbox", "SENDINGS = 20", "SENDINGS = 1 << 40"),
    Mutation(
        "an old epoch's weights obeyed",
        "membership.allegiance",
        "self._reached.pop(run, Version(0, 0)), Version(epoch, 0))",
        "*[self._reached.pop(run, Version(0, 0))] * 2)",
    ),
    Mutation("older weights obeyed", "membership.allegiance", "version < self._reached[run] or ", ""),
    Mutation("an old epoch obeyed", "membership.allegiance", "epoch < self._reached[run].epoch", "epoch < 0"),
    Mutation("a second life not noticed", "membership.allegiance", "self._echo.times < ECHOES", "True"),
    Mutation("a new run taken for an epoch", "membership.allegiance", "else Verdict.NEW_RUN", "else Verdict.NEWER"),
    Mutation("snapshot asked for once", "membership.allegiance", ">= RETRY_S *", ">= 1e9 *"),
    Mutation("lag not noticed", "membership.allegiance", "now - self._behind[1] >= BEHIND_S", "False"),
    Mutation("place given out twice", "membership.roster", "self._starts[index] += 1", "pass"),
    Mutation("places not persisted", "membership.roster", 'for start in state["starts"]]', 'for start in [0] * len(state["starts"])]'),
    Mutation("snapshot never given up", "membership.snapshots", "now - at < PATIENCE_S", "True"),
)


def load(mutation: Mutation | None = None) -> SimpleNamespace:
    """The protocol as the simulator takes it, made from source anew, with one fault planted if one is given."""
    fresh: dict[str, object] = {}
    for name in MODULES:
        source = inspect.getsource(importlib.import_module(f"common.{name}"))
        if mutation is not None and mutation.module == name:
            if source.count(mutation.right) != 1:
                raise LookupError(f"{mutation.name}: {mutation.right!r} must stand in {name} exactly once")
            source = source.replace(mutation.right, mutation.wrong)
        module = ModuleType(f"common.{name}")
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
        own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        vars(module).update({key: value for key, value in fresh.items() if key in vars(module) and key not in own})
        fresh |= own
    return SimpleNamespace(**{name: fresh.get(name) for package in (delivery, membership) for name in package.__all__})
