"""Decoders of what lies on disk: the journal, checkpoints, receipts, settings.

And texts that people type.
"""

import atexit
import math
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgpack
import numpy as np
import torch
from fuzz.inputs import JSON, PACKED, RAW, RECORD, join, segment
from fuzz.messages import specs
from fuzz.target import Target
from support.makers import a_command, a_frame, a_spec, some_weights
from support.messages import parcel_of

from farflung.common.data.draw import Episode, opponent
from farflung.common.data.parcel import Results
from farflung.common.data.pool import ENTRIES, RANDOM, Entry, Pool, archived, scripted
from farflung.common.data.weights import Version
from farflung.common.net.address import parse_address
from farflung.common.process import config
from farflung.common.process.errors import ConfigurationError, FarflungError
from farflung.common.protocol import packing, receipts, tensors, wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.receipts import Receipt
from farflung.learner.observe.screen import line
from farflung.learner.observe.status import (
    ActorStatus,
    EvaluationStatus,
    Status,
    WaitingStatus,
    from_document,
    to_document,
)
from farflung.learner.steering.record import Record as AsRecorded
from farflung.learner.steering.record import decide
from farflung.learner.storage import (
    archive,
    audit_checkpoints,
    checkpoint,
    manifest,
    policies,
    run_folder,
    steering,
)
from farflung.learner.storage.audit import Audit
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal import payloads
from farflung.learner.storage.journal import record as form
from farflung.learner.storage.journal.payloads import Marker, Refusal, Start
from farflung.learner.storage.journal.record import Damage, Kind, Record
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.manifest import needed_from
from farflung.learner.storage.recover import counted

DEEP = b"[" * 5000  # more than a reader that calls itself can take
ARCHIVED = f"{manifest.FOLDER}/{manifest.ARCHIVE}"
KEYS = {"replay-ratio": False, "device": False, "dqn": True, "dqn.hidden": False}


@cache
def place() -> Path:
    """Return a folder in memory for files to be read from; it ends with this process."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def written(name: str, data: bytes) -> Path:
    """A file with this content."""
    path = place() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# ---- the journal


def test_segment(data: bytes) -> None:
    """Everything in a segment in order, each byte at most once.

    And all that can be known of what its records say.
    """
    sealed, end, table = segment(data), 0, None
    found_here = Audit(place())
    found_here.totals = JournalTotals("run-1")
    for found in form.scan(1, memoryview(sealed)):
        assert end <= found.start < found.end <= len(sealed)
        end = found.end
        if isinstance(found, Record):
            assert bytes(sealed[found.start : found.start + 4]) in sealed
            found_here.count(1, found)
            table = _fold(table, found)
        else:
            assert isinstance(found, Damage)
    found_here.check_totals()


def test_scan(data: bytes) -> None:
    """Bytes that are no segment at all, or another one's."""
    for found in form.scan(1, memoryview(data)):
        assert 0 <= found.start < found.end <= len(data)


def test_record(data: bytes) -> None:
    """One record of any kind, behind a table."""
    known = Kind.__members__.values()
    if not data or data[0] not in known:
        return
    record = Record(Kind(data[0]), memoryview(data)[1:], 64, 64 + len(data))
    found = Audit(place())
    found.totals = JournalTotals("run-1")
    found.count(1, record)
    _fold(_fold(None, record) if record.kind is Kind.TOTALS else JournalTotals("run-1"), record)


def _fold(table: JournalTotals | None, record: Record) -> JournalTotals | None:
    """As recovery does it; the counts that it comes to can be written and read again."""
    try:
        table = counted(table, record, "here")
    except FarflungError:
        return table
    again = Record(Kind.TOTALS, memoryview(table.pack()), 0, 0)
    assert JournalTotals.unpack(again).pack() == table.pack()
    inbox = Inbox.restore(table.inbox.state())
    for one in inbox.state()["live"]:
        inbox.received(one["actor"], one["incarnation"])
    return table


def a_table() -> JournalTotals:
    """Counts with something in every part."""
    table = JournalTotals("run-1", marker=Marker(Version(1, 2), 30, 4))
    for number, base in ((1, 1), (4, 2), (6, 2)):
        envelope = wire.read_envelope(
            wire.open_frame(a_frame(specs()[0], sequence=number, base=base))
        )
        table.add_message(envelope, 3, 1)
    table.add(Refusal("box-1", 7, 9, 2, "nonfinite"))
    return table


def records() -> list[bytes]:
    """One record of each kind as it stands in a segment.

    A byte that is its kind, and what it says.
    """
    frame = a_frame(specs()[0], parcel_of(specs()[0]))
    said = [
        a_table().pack(),
        *map(
            payloads.pack,
            (Start("run-1", 2), Refusal("box-2", 8, 1, 1, "shape"), Marker(Version(1, 3), 40, 9)),
        ),
    ]
    kinds = [Kind.TOTALS, Kind.START, Kind.REFUSAL, Kind.MARKER, Kind.MESSAGE]
    return [bytes([kind]) + payload for kind, payload in zip(kinds, [*said, frame], strict=True)]


def segment_seeds() -> list[bytes]:
    noise = bytes([RAW]) + b"salt" + bytes(60)
    table, start, *others = records()
    return [
        join([table, start, *others]),
        join([table, noise, start, others[-1], others[-1]]),
        join([noise, table]),
    ]


def scan_seeds() -> list[bytes]:
    return [segment(seed) for seed in segment_seeds()] + [form.header(1, b"salt"), b""]


# ---- checkpoints and the rest of a run's folder


def test_manifest(data: bytes) -> None:
    """Read the list of checkpoints."""
    written(manifest.MANIFEST, data)
    assert all(name.isdecimal() for name in manifest.kept(place()))


def test_facts(data: bytes) -> None:
    """Read a checkpoint's facts, as an audit and a resumed run do."""
    written(manifest.MANIFEST, b"000001\n")
    written(f"{manifest.FOLDER}/000001/{manifest.FACTS}", data)
    needed_from(place())


def test_tensors(data: bytes) -> None:
    """A file of tensors, by the library and by the audit, which has none."""
    path = written(f"{manifest.FOLDER}/000001/{manifest.TENSORS}", data)
    written(f"{manifest.FOLDER}/000001/{manifest.FACTS}", b"\x80")
    with suppress(ConfigurationError):
        audit_checkpoints.check_tensors(path)
    checkpoint.read(place(), "000001")


def tensor_seeds() -> list[bytes]:
    tensors = {
        "policy.weight": torch.zeros(2, 2),
        "step": torch.tensor(1.0),
        "count": torch.tensor([3]),
    }
    folder = checkpoint.save(place(), Checkpoint(tensors, {}))
    return [(folder / manifest.TENSORS).read_bytes(), len(DEEP).to_bytes(8, "little") + DEEP]


def test_best(data: bytes) -> None:
    """Read the best evaluation, and its weights."""
    written(f"{manifest.FOLDER}/{manifest.BEST}", data)
    best = policies.read_best(place())
    assert best is not None
    assert math.isfinite(best.interval.mean)
    policies.read_weights(place(), a_spec(), manifest.BEST)


def best_seeds() -> list[bytes]:
    results = Results(np.array([1.0, 2.0]), np.array([3, 4], np.int32))
    policies.write_best(place(), some_weights(a_spec()), results)
    return [(place() / manifest.FOLDER / manifest.BEST).read_bytes(), DEEP]


def test_archive(data: bytes) -> None:
    """Read the index of archived versions, and the weights of each."""
    written(f"{ARCHIVED}/{archive.INDEX}", data)
    list(archive.problems(place()))
    for each in archive.read(place()):
        policies.read_weights(place(), a_spec(), str(each.version))


def archive_seeds() -> list[bytes]:
    index = place() / ARCHIVED / archive.INDEX
    index.unlink(missing_ok=True)
    for number in (1, 2):
        archive.add(place(), some_weights(a_spec(), number), 3, 100)
    return [index.read_bytes(), DEEP]


def test_archived_weights(data: bytes) -> None:
    """A version that is not what was archived, under its name."""
    archive_seeds()
    (place() / ARCHIVED / "1.1").unlink()
    written(f"{ARCHIVED}/1.1", data)
    policies.read_weights(place(), a_spec(), "1.1")


def test_steering(data: bytes) -> None:
    """Read the record of commands, and a command that waits in the folder."""
    shutil.rmtree(place() / steering.COMMANDS, ignore_errors=True)
    path = written(f"{steering.COMMANDS}/1.json", data)
    waiting = list(steering.waiting(place()))
    assert path.exists() == bool(waiting)  # what is no command is removed
    for each in waiting:
        with suppress(FarflungError):
            decide(each.command, "run-1", 1, {})
    written(steering.FILE, data)
    with suppress(ConfigurationError):
        record = steering.read(place())
        steering.write(place(), record)
        assert steering.read(place()) == record


def steering_seeds() -> list[bytes]:
    """Return a command and a record as they are written."""
    command = a_command(arguments={"weight": 2.0, "log-level": "debug"})
    order = decide(command, "run-1", 1, {})
    steering.write(place(), AsRecorded().executed(command, order, 1, "box-1", "now"))
    path = steering.leave(place(), command, 1)
    return [path.read_bytes(), (place() / steering.FILE).read_bytes(), DEEP]


def test_pool(data: bytes) -> None:
    """A pool of opponents: one that is taken has one for every episode, and a bound."""
    pool = packing.from_plain(Pool, packing.unpack(data, "pool"))
    assert len(pool) <= ENTRIES
    drawn = [opponent(pool, 0, Episode(0, 1, 0, number)) for number in range(8)]
    assert all(each.number < 1 << 52 for each in drawn)
    pool.require_scripts({"block"})


def pool_seeds() -> list[bytes]:
    entries = (
        Entry(RANDOM, 0.25),
        Entry(scripted("block"), 0.25),
        Entry(archived(Version(1, 40)), 0.5),
    )
    return [packing.pack(packing.to_plain(Pool(entries))), DEEP]


def test_run(data: bytes) -> None:
    """Read the file that names the run of a folder."""
    written(run_folder.FACTS, data)
    run_folder.open_run(place())


def test_receipts(data: bytes) -> None:
    """Read an actor's receipts; they are written the same again."""
    for receipt in receipts.read(written("receipts", data)):
        assert receipts.encode(receipt)


# ---- texts


def test_address(data: bytes) -> None:
    """Parse an address from a command line; it is written the same again."""
    address = parse_address(data.decode(errors="replace"))
    assert parse_address(str(address)) == address


def test_config(data: bytes) -> None:
    """A file of settings."""
    records = config.read_settings("learner", written("settings.toml", data))
    config.check_keys(place() / "settings.toml", records, KEYS)


def test_status(data: bytes) -> None:
    """A learner's figures, and the line that shows them."""
    status = from_document(data.decode(errors="replace"))
    again = from_document(to_document(status))
    assert to_document(again) == to_document(status)
    line(status)


def a_status() -> Status:
    """A status in which much is known."""
    evaluation = EvaluationStatus(100.0, 20, 3, 120.0, 100.0)
    actors = (ActorStatus("box-1", "running", 4, 100.0, 3, 2, 9, 1, 0.5),)
    figures = {
        "steps_target": 100,
        "return_mean": 5.0,
        "return_history": (1.0, None),
        "waiting": WaitingStatus("rows", 3, 0.5),
        "lag_p50": 1.0,
    }
    return Status(
        "run-1",
        evaluation=evaluation,
        actors=actors,
        refused={"shape": 1},
        metrics={"loss": 0.1, "epsilon": None},
        **figures,
    )


TARGETS = (
    Target("segment", test_segment, segment_seeds, never_refuses=True),
    Target("scan", test_scan, scan_seeds, never_refuses=True),
    Target("record", test_record, records, RECORD, never_refuses=True),
    Target("message-record", test_record, lambda: [records()[-1]], never_refuses=True),
    Target("manifest", test_manifest, lambda: [b"000001\n000002\n"]),
    Target(
        "facts",
        test_facts,
        lambda: [msgpack.packb({"steps": 5, "journal_position": [1, 2], "journal_replay_from": 1})],
        PACKED,
    ),
    Target("tensors", test_tensors, tensor_seeds),
    Target("best", test_best, best_seeds, PACKED),
    Target("archive", test_archive, archive_seeds, JSON),
    Target(
        "archived-weights",
        test_archived_weights,
        lambda: [bytes(tensors.encode_weights(some_weights(a_spec())))],
    ),
    Target("steering", test_steering, steering_seeds, JSON),
    Target("pool", test_pool, pool_seeds, PACKED),
    Target(
        "run", test_run, lambda: [b'{"run": "run-1", "environment": "CartPole-v1"}', DEEP], JSON
    ),
    Target(
        "receipts",
        test_receipts,
        lambda: [receipts.encode(Receipt("run-1", "default", "key/box-1", 7, 3, 0xDEADBEEF)) * 2],
    ),
    Target("address", test_address, lambda: [b"box", b":5555", b"[::1]:5555", b"gpu-box:7"]),
    Target(
        "config",
        test_config,
        lambda: [
            b'replay-ratio = 8.0\ndevice = "cpu"\n[dqn]\nhidden = [64, 64]\n',
            b"device = " + DEEP,
        ],
    ),
    Target(
        "status",
        test_status,
        lambda: [to_document(a_status()).encode(), to_document(Status("run-1")).encode(), DEEP],
        JSON,
    ),
)
