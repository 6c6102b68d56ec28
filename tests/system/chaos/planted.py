"""Faults planted in journal, checkpoints and recovery, as changes of their source: the sweep must notice each."""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """In which module, what stands there, and what stands there instead."""

    name: str
    module: str
    changes: tuple[tuple[str, str], ...]


PLANTED = (
    Fault(
        "acknowledge before commit",
        "farflung.learner.storage.journal.writer",
        (
            (
                "self._put(Entry(Kind.MESSAGE,",
                'self._settled.append(accepted.envelope), os.write(self._writable, b"!")\n        self._put(Entry(Kind.MESSAGE,',
            ),
            (
                "self._settled.extend(entry.envelope for entry in group if entry.envelope is not None)",
                "pass",
            ),
        ),
    ),
    Fault(
        "forget the inbox table",
        "farflung.learner.storage.recover",
        (("Inbox.restore(table.inbox.state())", "Inbox(table.inbox.epoch + 1)"),),
    ),
    Fault(
        "drop segments by the current replay",
        "farflung.learner.storage.retention",
        (
            (
                "self._journal.forget_before(needed_from(self._run_folder))",
                "self._journal.forget_before(self._coverage.oldest_segment(12))",
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
        "a torn tail stays",
        "farflung.learner.storage.journal.folder",
        (("atomic_file.truncate(path_of(folder, number), found.start)", "pass"),),
    ),
)


def plant(fault: Fault) -> None:
    """Import a module with its fault. It must not have been imported yet by whoever is to use it."""
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
