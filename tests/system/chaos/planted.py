"""Faults planted in the source of journal, checkpoints and recovery: the sweep must notice each."""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """A wrong version of a module: each pair is right source and wrong source."""

    name: str
    module: str
    changes: tuple[tuple[str, str], ...]


PLANTED = (
    Fault(
        "acknowledge before commit",
        "farflung.learner.storage.journal.journal",
        (
            ("        for item in items:\n            item.settle()\n", ""),
            (
                "        self._put(*map(_entry, items))\n",
                "        for item in items:\n"
                "            item.settle()\n"
                "        self._put(*map(_entry, items))\n",
            ),
        ),
    ),
    Fault(
        "forget the inbox",
        "farflung.learner.storage.recover",
        (("Inbox.restore(totals.inbox.state())", "Inbox(totals.inbox.epoch + 1)"),),
    ),
    Fault(
        "drop segments by the current replay",
        "farflung.learner.storage.manifest",
        (
            (
                "int(each[REPLAY_FROM])) for each in found)",
                "int(each[REPLAY_FROM])) for each in found[-1:])",
            ),
        ),
    ),
    Fault(
        "acknowledge what was found without a sync",
        "farflung.learner.storage.recover",
        (("    if durable:", "    if False:"),),
    ),
    Fault(
        "the manifest is written in place",
        "farflung.common.process.atomic_file",
        (
            ('draft = path.with_name(f".{path.name}.{os.getpid()}{DRAFT}")', "draft = path"),
            ("draft.rename(", "str("),
        ),
    ),
    Fault(
        "the best evaluation is written in place",
        "farflung.learner.storage.policies",
        (
            (
                "atomic_file.write(run_folder / FOLDER / BEST, packing.pack(",
                "(run_folder / FOLDER / BEST).write_bytes(packing.pack(",
            ),
        ),
    ),
    Fault(
        "a torn tail stays",
        "farflung.learner.storage.journal.segments",
        (("atomic_file.truncate(path_of(folder, number), found.start)", "pass"),),
    ),
)


def plant(fault: Fault) -> None:
    """Import a module with its fault, before any other module imports it."""
    spec = importlib.util.find_spec(fault.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    for right, wrong in fault.changes:
        if source.count(right) != 1:
            raise LookupError(f"{fault.name}: {right!r} must stand in {fault.module} exactly once")
        source = source.replace(right, wrong)
    module = importlib.util.module_from_spec(spec)
    sys.modules[fault.module] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    parent, _, name = fault.module.rpartition(".")
    setattr(importlib.import_module(parent), name, module)
