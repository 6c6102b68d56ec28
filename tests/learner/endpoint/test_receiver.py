"""Each message is taken once, or refused under a name, and nothing that arrives raises."""

import logging
import math
from collections import deque

import numpy as np
import pytest
from msgspec import structs
from support.learner_double import LearnerDouble
from support.makers import (
    TENSORS,
    a_command,
    a_frame,
    a_gradients_frame,
    a_parcel,
    a_spec,
    an_evaluation,
    rewritten,
)

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.parcel import Ending, Place
from farflung.common.data.spec import Graph, Rounds
from farflung.common.data.weights import Version
from farflung.common.net.keys import BROKER, Client
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Bye, Credit, Hello, Problem, Report
from farflung.common.protocol.names import UNTIL_SHARE
from farflung.common.protocol.roster import Presence
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.items import RefusedNumber
from farflung.learner.endpoint.seen import Records
from farflung.learner.schedule.schedule import Asynchronous, InRounds

KEY = ("box-1", 7)


@pytest.fixture
def side():
    """A learner's side without sockets."""
    return LearnerDouble(learner_id=5, versions=0)


@pytest.fixture
def frame(side):
    """Makes the messages of parcels."""
    return lambda *arguments, **changes: a_frame(side.spec, *arguments, **changes)


def hello(**changes):
    fields = {
        "run": "run-1",
        "policy": "default",
        "actor": "box-1",
        "incarnation": 7,
        "nonce": 3,
        "version": Version(1, 2),
        "base": 1,
    }
    return bytes(wire.encode(Hello(**{**fields, **changes})))


def report(**changes):
    fields = {
        "run": "run-1",
        "policy": "default",
        "actor": "box-1",
        "incarnation": 7,
        "base": 1,
        "version": Version(1, 2),
    }
    return bytes(wire.encode(Report(**{**fields, **changes})))


def told(side):
    """Return the numbers that the actor may be told."""
    return side.receiver.inboxes.received(*KEY)


def test_a_new_parcel_is_handed_on(side, frame):
    """A parcel that is whole and new is given with its envelope and the bytes it came in."""
    sent = frame(sequence=1)
    accepted = side.receiver.receive(sent, 0.0)
    assert accepted is not None
    assert (accepted.envelope.actor, accepted.envelope.sequence, accepted.content.rows) == (
        "box-1",
        1,
        3,
    )
    assert accepted.frame == sent
    assert side.receiver.inbox.ledger.accepted == 1


def test_a_parcel_is_acknowledged_only_once_it_is_kept(side, frame):
    """Until it is settled as safe, it is not acknowledged."""
    accepted = side.receiver.receive(frame(), 0.0)
    assert told(side).highest == 0
    side.receiver.settle(accepted.envelope)
    assert told(side).highest == 1


def test_a_parcel_counts_once(side, frame):
    """The same number again is a duplicate, counted, and not handed on."""
    assert side.receiver.receive(frame(), 0.0) is not None
    assert side.receiver.receive(frame(), 0.0) is None
    ledger = side.receiver.inbox.ledger
    assert (ledger.received, ledger.accepted, ledger.duplicate) == (2, 1, 1)
    assert ledger.balanced


def test_a_number_far_beyond_the_others_is_refused(side, frame):
    """A number that no honest actor could send is counted and takes no memory."""
    assert side.receiver.receive(frame(sequence=10**6), 0.0) is None
    assert side.receiver.inbox.ledger.refused == {"number out of range": 1}


def test_a_wrong_schema_is_refused_and_its_actor_told(side, frame):
    """Another spec's parcel is refused under its number, so that its actor drops it."""
    item = side.receiver.receive(frame(schema="0" * 16), 0.0)
    assert item.content == RefusedNumber("schema")
    assert told(side).refused == ()  # until it is settled
    side.receiver.settle(item.envelope)
    assert told(side).refused == ((1, "schema"),)
    assert side.receiver.inbox.ledger.balanced


def test_a_number_that_is_refused_stays_refused(side, frame):
    """The same number with a correct parcel later is a duplicate.

    What an actor was told does not change.
    """
    side.receiver.receive(frame(schema="0" * 16), 0.0)
    assert side.receiver.receive(frame(), 0.0) is None
    assert side.receiver.inbox.ledger.duplicate == 1


def test_item_that_was_taken_can_be_refused_when_it_is_settled(side, frame):
    """The part that is responsible for it found a reason; the books balance, the actor is told."""
    item = side.receiver.receive(frame(), 0.0)
    side.receiver.settle(item.envelope, "stale")
    assert told(side).refused == ((1, "stale"),)
    assert (side.receiver.inbox.ledger.accepted, side.receiver.inbox.ledger.balanced) == (0, True)


def test_figures_that_no_honest_actor_has_are_refused(side):
    """They would stand in each status until its end. The bound itself is taken."""
    lies = (
        report(counters={"episodes": 1e308}),
        report(counters={"steps": -1.0}),
        report(counters={"waits": 0.0, "anything": 1.001 * MAGNITUDE}),
        report(version=Version(1, (1 << 64) - 1)),
        report(version=Version(1 << 60, 1)),
        hello(seats=(1 << 64) - 1),
        hello(version=Version(1, 1 << 60)),
    )
    for number, lie in enumerate(lies, 1):
        assert side.receiver.receive(lie, 0.0) is None
        assert side.receiver.inbox.ledger.refused == {"range": number}
    assert not side.receiver.seen
    side.receiver.receive(report(counters={"episodes": MAGNITUDE}), 0.0)
    assert side.receiver.seen["box-1"].counters == {"episodes": MAGNITUDE}


def test_numbers_that_are_no_numbers_are_refused(side, frame):
    """An observation that is not finite would poison every batch it is in."""
    parcel = a_parcel()
    parcel.columns["observations"][1, 0] = math.nan
    assert side.receiver.receive(frame(parcel), 0.0).content == RefusedNumber("nonfinite")
    assert side.receiver.inbox.ledger.refused == {"nonfinite": 1}


def odd_frames(frame):
    good = frame()
    changed = bytearray(good)
    changed[-1] ^= 1
    return {
        "truncated": b"abc",
        "magic": b"\0" * 64,
        "protocol": good[:2] + b"\x09" + good[3:],
        "checksum": bytes(changed),
        "run": frame(run="other-run"),
        "policy": frame(policy="other"),
        "malformed": frame(actor="a b"),
        "kind": bytes(
            wire.assemble(wire.Kind.TELEMETRY, {"deep": [[]] * 100_000})
        ),  # an envelope that only a feed may have
    }


@pytest.mark.parametrize(
    "reason", ["truncated", "magic", "protocol", "checksum", "run", "policy", "malformed", "kind"]
)
def test_odd_bytes_are_counted_under_their_own_reason(side, frame, reason):
    """Each kind of damage or mistake has its own count, and the ledger balances."""
    assert side.receiver.receive(odd_frames(frame)[reason], 0.0) is None
    ledger = side.receiver.inbox.ledger
    assert ledger.refused == {reason: 1}
    assert ledger.balanced


def test_random_bytes_never_raise(side, frame):
    """Random changes of a valid frame, and random bytes, are refused or taken, nothing else."""
    rng = np.random.default_rng(0)
    good = bytearray(frame())
    for _ in range(200):
        bad = bytearray(good)
        bad[rng.integers(len(bad))] = rng.integers(256)
        side.receiver.receive(bytes(bad), 0.0)
        side.receiver.receive(rng.bytes(100), 0.0)
    assert side.receiver.inbox.ledger.received == 400
    assert side.receiver.inbox.ledger.balanced


@pytest.mark.parametrize("size", [3.0, True, None, "3", -1, 2**63])
def test_a_shape_of_odd_numbers_never_raises(side, frame, size):
    """3.0 equals 3, but numpy takes no such size.

    A hostile table must not get through to where arrays are made.
    """

    def change(fields):
        fields["columns"][1][2] = [size]

    side.receiver.receive(rewritten(frame(), change), 0.0)
    assert side.receiver.inbox.ledger.received == 1
    assert side.receiver.inbox.ledger.balanced


ALL = frozenset({Kind.PARCEL, Kind.GRADIENTS, Kind.COMMAND})


@pytest.fixture
def taker():
    """A learner's side that takes every kind, with a first version."""
    return LearnerDouble(learner_id=5, takes=ALL)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda spec: a_frame(spec), "parcels"),
        (a_gradients_frame, "gradients"),
        (lambda spec: bytes(wire.encode(a_command())), "commands"),
    ],
)
def test_receiver_refuses_the_number_of_a_kind_that_its_schedule_does_not_take(made, what):
    """In a sentence; the sender drops the number as it does a refused parcel."""
    side = LearnerDouble(takes=frozenset())
    item = side.receiver.receive(made(side.spec), 0.0)
    assert item.content == RefusedNumber("kind")
    assert side.receiver.receive(made(side.spec), 0.0) is None  # a duplicate
    assert list(side.receiver.problems) == [
        f"refused from box-1: kind: this learner takes no {what}"
    ]
    side.receiver.settle(item.envelope)
    assert told(side) == (1, (), ((1, "kind"),))
    assert side.receiver.inbox.ledger.balanced


def test_learners_of_this_release_take_parcels_only():
    """Both modes; the schedules of others come with them."""
    for schedule in (InRounds(), Asynchronous(1)):
        assert schedule.takes == {Kind.PARCEL}


def test_gradients_become_an_item(taker):
    """Of the spec's tensors, with their version, rows, steps and episodes."""
    item = taker.receiver.receive(a_gradients_frame(taker.spec, 2.5), 0.0)
    gradients = item.content
    np.testing.assert_array_equal(gradients.arrays["matrix"], np.full((2, 2), 2.5, np.float32))
    envelope = gradients.envelope
    assert item.envelope == envelope
    assert (item.rows, envelope.steps, envelope.version) == (30, 4, Version(1, 1))
    assert taker.receiver.names.usual_rows(("box-1", 7)) == 30
    assert told(taker).highest == 0  # until they are applied
    taker.receiver.settle(item.envelope)
    assert told(taker).highest == 1


def test_command_becomes_an_item(taker):
    """With its name and arguments. It stands for no rows."""
    item = taker.receiver.receive(bytes(wire.encode(a_command())), 0.0)
    assert (item.content, item.envelope, item.rows) == (a_command(), a_command(), 0)


OTHER = Graph(b"", (), (), (structs.replace(TENSORS[0], shape=(2, 3)),))


@pytest.mark.parametrize(
    ("reason", "made"),
    [
        ("schema", lambda spec: a_gradients_frame(structs.replace(spec, graph=OTHER))),
        ("nonfinite", lambda spec: a_gradients_frame(spec, math.nan)),
        ("version", lambda spec: a_gradients_frame(spec, version=Version(1, 0))),
        ("version", lambda spec: a_gradients_frame(spec, version=Version(1, 2))),
        ("epoch", lambda spec: a_gradients_frame(spec, version=Version(2, 1))),
        (
            "columns",
            lambda spec: rewritten(a_gradients_frame(spec), lambda f: f["columns"].reverse()),
        ),
    ],
    ids=["tensors", "nan", "no version", "a version to come", "another epoch", "columns"],
)
def test_gradients_that_do_not_fit_are_refused_under_their_number(taker, reason, made):
    """Tensors of the acting graph, finite, at a version that this learner published."""
    item = taker.receiver.receive(made(taker.spec), 0.0)
    assert item.content == RefusedNumber(reason, survives=False)
    taker.receiver.settle(item.envelope)
    assert told(taker).refused == ((1, reason),)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Kind.GRADIENTS, lambda fields: fields.update(samples=0)),
        (Kind.GRADIENTS, lambda fields: fields.pop("version")),
        (Kind.COMMAND, lambda fields: fields.update(base=2)),
        (Kind.COMMAND, lambda fields: fields.pop("name")),
    ],
)
def test_odd_envelopes_of_gradients_and_commands_have_no_number(taker, kind, change):
    """Without a sender that can be trusted nothing is acknowledged."""
    frame = a_gradients_frame(taker.spec) if kind is Kind.GRADIENTS else wire.encode(a_command())
    assert taker.receiver.receive(rewritten(bytes(frame), change), 0.0) is None
    assert taker.receiver.inboxes.of(kind).ledger.refused == {"malformed": 1}


def test_gradients_and_commands_are_only_taken_under_the_senders_own_label(taker):
    """As parcels are; a client of another label numbers nothing."""
    command = bytes(wire.encode(a_command()))
    for frame, role in ((a_gradients_frame(taker.spec), "actor"), (command, "operator")):
        assert taker.receiver.receive(frame, 0.0, Client("lab", role)) is None
    assert taker.receiver.inboxes.gradients.ledger.refused == {"label": 1}
    assert taker.receiver.inboxes.commands.ledger.refused == {"label": 1}
    assert taker.receiver.inbox.ledger.received == 0


def test_the_first_refusal_of_a_kind_reaches_the_screen(side, frame):
    """A refusal is named once among the problems.

    A hundred more of the kind do not push the others out.
    """
    for _ in range(3):
        side.receiver.receive(b"abc", 0.0)
    side.receiver.receive(frame(schema="x"), 0.0)
    assert list(side.receiver.problems) == [
        "refused from an unnamed sender: truncated: 3 bytes",
        f"refused from box-1: schema: x, and this learner's is {side.spec.schema}",
    ]


def test_another_runs_actor_is_no_problem(side, frame):
    """An actor of a run that is over learns of this one from the beacon.

    Until then its messages are only counted.
    """
    side.receiver.receive(frame(run="other-run"), 0.0)
    assert list(side.receiver.problems) == []


def test_a_hello_brings_an_actor_onto_the_roster(side):
    """Its seats, its version and whether it evaluates are known, and it counts as there."""
    side.receiver.receive(hello(seats=4, evaluates=True), 1.0)
    seen = side.receiver.seen["box-1"]
    assert (seen.seats, seen.evaluates, seen.version) == (4, True, 2)
    (member,) = side.receiver.roster
    assert (member.is_there(1.0), member.index) == (True, -1)  # its place comes with a snapshot
    assert side.receiver.names.sharers(1.0) == 0


def test_a_hello_confirms_its_snapshot(side):
    """Of two that are unconfirmed one is done, so a third may be served."""
    for nonce in (3, 4, 5):
        side.endpoint.snapshots.ask(topics.snapshot("default", f"box-{nonce}", 7, nonce).decode())
    assert side.endpoint.snapshots.next(0.0) is not None
    assert side.endpoint.snapshots.next(0.0) is not None
    assert side.endpoint.snapshots.next(0.0) is None
    side.receiver.receive(hello(actor="box-3", nonce=3), 0.0)
    assert side.endpoint.snapshots.next(0.0) is not None


def test_a_new_incarnation_starts_from_nothing(side):
    """Counters of the one before are not taken for the new one's."""
    side.receiver.receive(report(counters={"steps": 100.0}), 0.0)
    side.receiver.receive(hello(incarnation=8), 1.0)
    assert side.receiver.seen["box-1"].counters == {}


def test_reports_give_a_rate(side):
    """Steps are counted from the difference of two reports: 300 in 2 s."""
    side.receiver.receive(report(counters={"steps": 100.0}), 0.0)
    side.receiver.receive(report(counters={"steps": 400.0}), 2.0)
    assert side.receiver.seen["box-1"].rate.per_second == 150


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_counter_that_is_no_number_is_refused(side, value):
    """A figure on the screen is a number, and a report with another one changes nothing."""
    assert side.receiver.receive(report(counters={"episodes": value}), 0.0) is None
    assert side.receiver.inbox.ledger.refused == {"nonfinite": 1}
    assert side.receiver.seen == {}


def test_problems_are_shown_once(side):
    """A report repeats the latest problems; those already shown are passed over."""
    problems = tuple(
        Problem(n, "environment", f"Traceback\n  somewhere\nValueError: {n}") for n in (1, 2)
    )
    side.receiver.receive(report(problems=problems), 0.0)
    side.receiver.receive(
        report(problems=(*problems, Problem(3, "environment", "ValueError: 3"))), 2.0
    )
    assert list(side.receiver.problems) == [
        f"box-1: environment: ValueError: {n}" for n in (1, 2, 3)
    ]


def test_whole_text_of_a_problem_is_kept_with_it(side):
    """A status has the traceback of a problem of several lines, and of one line nothing more."""
    trace = "Traceback\n  File x\x1b[2J\n" + "  deep\n" * 100 + "ValueError: 1"
    told = Problem(1, "environment", trace), Problem(2, "environment", "ValueError: 2")
    side.receiver.receive(report(problems=told), 0.0)
    [(problem, lines)] = side.receiver.records.texts()
    assert problem == "box-1: environment: ValueError: 1"
    assert (len(lines), lines[0], lines[-1]) == (40, "  deep", "ValueError: 1")
    assert all(line.isprintable() for line in lines)


def test_two_actors_of_one_name_are_named_once(side, caplog):
    """They speak in turns for ever.

    Each joins once, its problems are shown once, and so is what to do about it.
    """
    with caplog.at_level(logging.INFO):
        for second in range(20):
            for incarnation in (7, 8):
                side.receiver.receive(hello(incarnation=incarnation), second)
                side.receiver.receive(
                    report(
                        incarnation=incarnation,
                        problems=(Problem(1, "environment", f"of {incarnation}"),),
                    ),
                    second,
                )
    assert [record.message for record in caplog.records].count("box-1 joined") == 2
    clash = "two actors call themselves box-1: start each with its own --name"
    assert list(side.receiver.problems) == [
        "box-1: environment: of 7",
        "box-1: environment: of 8",
        clash,
    ]
    side.receiver.receive(hello(incarnation=9), 30.0)
    for second in range(5):
        side.receiver.receive(hello(incarnation=8), 31.0 + second)
        side.receiver.receive(hello(incarnation=9), 31.5 + second)
    assert list(side.receiver.problems).count(clash) == 1


def test_a_late_word_of_the_incarnation_before_is_no_clash(side):
    """An actor was started again, and a report of its incarnation before was still on its way."""
    for incarnation in (7, 8, 7, 8, 8):
        side.receiver.receive(report(incarnation=incarnation), 0.0)
    assert list(side.receiver.problems) == []
    assert side.receiver.seen["box-1"].incarnation == 8


def test_what_was_seen_is_bounded(side, monkeypatch):
    """A peer with ever new names or incarnations takes no more memory.

    Those that spoke last are remembered.
    """
    monkeypatch.setattr("farflung.common.protocol.names.NAMES", 3)
    for incarnation in range(10):
        side.receiver.receive(hello(incarnation=incarnation), 0.0)
    assert len(side.receiver.names) == len(side.receiver.acknowledgements) == 3
    for name in range(10):
        side.receiver.receive(hello(actor=f"box-{name}"), 0.0)
        side.receiver.receive(hello(actor="box-0"), 0.0)
    assert set(side.receiver.seen) == {"box-0", "box-8", "box-9"}


def test_a_problem_cannot_steer_the_terminal(side, caplog):
    """Control characters from the network are blanked before anything is written."""
    with caplog.at_level(logging.INFO):
        side.receiver.receive(
            report(
                problems=(Problem(1, "x\x1b[2J", "one\x1b[31m\ntwo\x07"), Problem(2, "empty", ""))
            ),
            0.0,
        )
        side.receiver.receive(
            bytes(wire.encode(Bye("run-1", "default", *KEY, 1, "gone\x1b[2J"))), 0.0
        )
        side.receiver.receive(hello(policy="\x1b[2J"), 0.0)
    assert "\x1b" not in caplog.text
    assert "\x07" not in caplog.text
    assert list(side.receiver.problems)[1] == "box-1: empty: "


def test_same_traceback_is_shown_once_with_a_count(side, caplog):
    """Of any actor and any start: the screen has one entry, and the log the text once."""
    text = "Traceback\n  somewhere\nValueError: no"
    for number, incarnation in ((1, 7), (2, 7), (1, 8)):
        problem = Problem(number, "environment", text)
        side.receiver.receive(report(incarnation=incarnation, problems=(problem,)), 0.0)
    side.receiver.receive(report(problems=(Problem(9, "environment", "ValueError: other"),)), 0.0)
    assert list(side.receiver.problems) == [
        "box-1: environment: ValueError: no (3 times)",
        "box-1: environment: ValueError: other",
    ]
    assert sum("somewhere" in message for message in caplog.messages) == 1
    again = [message for message in caplog.messages if "the same again" in message]
    assert again == ["the same again: box-1: environment: ValueError: no (2 times)"]


FORGED = "\r\n2026-03-01T12:00:00.000Z learner run[1] - INFO all is well\x9b\u2028\u202e"


def test_texts_of_clients_are_one_line_each_or_indented(side, frame, caplog):
    """A problem, a reason, a name and a field cannot pass for lines of the learner's own log."""
    problem = Problem(1, FORGED * 9, f"Traceback{FORGED}{FORGED * 900}")
    with caplog.at_level(logging.INFO):
        side.receiver.receive(report(problems=(problem,)), 0.0)
        side.receiver.receive(bytes(wire.encode(Bye("run-1", "default", *KEY, 1, FORGED))), 0.0)
        side.receiver.receive(hello(policy=FORGED * 100), 0.0)
        side.receiver.receive(rewritten(hello(), lambda fields: fields.update({FORGED: 1})), 0.0)
        side.receiver.receive(frame(schema=FORGED * 100), 0.0)
    said = [line for message in caplog.messages for line in message.split("\n")]
    assert sum("all is well" in line for line in said) > 40
    assert all(line.isprintable() and len(line) <= 2200 for line in said)
    assert not [line for line in said if line.startswith("2026")]
    assert all(text.isprintable() and len(text) <= 2200 for text in side.receiver.problems)


def test_problems_of_one_actor_are_shown_at_a_pace(side):
    """Fifty at once and one in two seconds: a flood of them neither fills a disk nor hides others.

    What is not shown then is not shown later.
    """
    side.receiver.problems = deque(maxlen=None)
    side.receiver.records = Records(side.receiver.problems)
    for number in range(100):
        numbers = range(10 * number + 1, 10 * number + 11)
        problems = tuple(Problem(n, "x", f"y {n}") for n in numbers)
        side.receiver.receive(report(problems=problems), 10.0)
    assert len(side.receiver.problems) == 50
    side.receiver.receive(report(problems=(Problem(2000, "x", "last"),)), 12.0)
    assert side.receiver.problems[-1] == "box-1: x: last"


def test_a_bye_takes_an_actor_off_the_roster(side, frame):
    """An actor that left shares no credit any more."""
    for number in range(1, 1 + UNTIL_SHARE):
        side.receiver.receive(frame(sequence=number), 0.0)
    assert side.receiver.names.sharers(0.0) == 1
    side.receiver.receive(bytes(wire.encode(Bye("run-1", "default", *KEY, 1, "interrupted"))), 0.0)
    assert side.receiver.names.sharers(0.0) == 0
    assert [member.is_there(0.0) for member in side.receiver.roster] == [False]


@pytest.mark.parametrize("change", [{"actor": "a b"}, {"incarnation": -1}, {"base": 0}])
def test_an_impossible_actor_is_refused(side, change):
    """A name, incarnation or base that no actor has is refused before it is remembered."""
    side.receiver.receive(hello(**change), 0.0)
    assert side.receiver.inbox.ledger.refused == {"malformed": 1}
    assert side.receiver.seen == {}


def test_receiver_logs_the_actor_that_gave_up_numbers(side, frame, caplog):
    """Numbers that an actor no longer holds and that never came are counted and named."""
    side.receiver.receive(frame(sequence=4), 0.0)
    side.receiver.receive(hello(base=4), 0.0)
    assert side.receiver.inbox.lost == 3
    assert "box-1: 3 numbers that it holds no longer" in caplog.text


@pytest.mark.parametrize("base", [1 << 40, 1 << 52])
def test_receiver_refuses_a_base_that_no_honest_actor_has(side, frame, base):
    """It is named, and later numbers count as if nothing had been said."""
    side.receiver.receive(hello(base=base), 0.0)
    side.receiver.receive(report(base=base), 0.0)
    assert side.receiver.receive(frame(sequence=base, base=base), 0.0) is None
    ledger = side.receiver.inbox.ledger
    assert ledger.refused == {"base": 2, "number out of range": 1}
    first, second = side.receiver.problems
    assert f"box-1 says that it holds nothing below {base}" in first
    assert "refused from box-1: number out of range" in second
    assert side.receiver.receive(frame(sequence=1), 0.0) is not None


def test_the_usual_parcel_is_learned(side, frame):
    """Credit in parcels follows what parcels hold.

    All of the way from 8 to 24 with a first one that is larger; else a sixteenth of the way.
    """
    usual_rows = side.receiver.names.usual_rows
    assert usual_rows(("box-1", 7)) == 8
    side.receiver.receive(frame(a_parcel((8, 8, 8), (Ending.OPEN,) * 3)), 0.0)
    assert usual_rows(("box-1", 7)) == 24
    side.receiver.receive(frame(a_parcel((8,), (Ending.OPEN,)), sequence=2), 0.0)
    assert usual_rows(("box-1", 7)) == 23


def test_an_evaluation_says_nothing_of_parcels(side, frame):
    """Results without rows are taken, and do not count as a usual parcel."""
    accepted = side.receiver.receive(frame(an_evaluation([5.0])), 0.0)
    assert accepted is not None
    assert accepted.content.evaluation
    assert side.receiver.names.usual_rows(("box-1", 7)) == 8


def test_whoever_falls_silent_is_named_once_and_once_more_when_it_is_back(side, frame, caplog):
    """Eight seconds after its last word, and at its next; one that said goodbye is not missed."""
    caplog.set_level(logging.INFO)
    for actor in ("box-1", "box-2"):
        side.receiver.receive(hello(actor=actor), 0.0)
        side.receiver.receive(frame(actor=actor), 0.0)
    side.receiver.receive(hello(actor="box-3"), 0.0)  # without a parcel it is forgotten
    side.receiver.receive(
        bytes(wire.encode(Bye("run-1", "default", "box-2", 7, 1, "finished"))), 1.0
    )
    caplog.clear()
    for now in (7.9, 8.0, 8.25):
        side.receiver.presence.look(now)
    side.receiver.receive(hello(), 12.0)
    side.receiver.presence.look(12.0)
    side.receiver.presence.look(12.25)
    assert [record.getMessage() for record in caplog.records] == [
        "box-1 is silent: no message for 8 s",
        "box-1 is back",
    ]


def test_a_name_of_another_key_is_refused_before_its_parcel_is_read(side, frame, monkeypatch):
    """Parcel, hello, report and bye alike.

    No number of the one it names is used up, and its own name is taken.
    """
    robot = Client("robot", "actor")
    decoded = []
    monkeypatch.setattr(
        side.receiver._parcels, "decode", lambda *arguments: decoded.append(arguments)
    )
    bye = bytes(wire.encode(Bye("run-1", "default", *KEY, 1, "gone")))
    for message in (frame(), hello(), report(), bye):
        assert side.receiver.receive(message, 0.0, robot) is None
    assert side.receiver.inbox.ledger.refused == {"label": 4}
    assert not decoded
    assert not list(side.receiver.roster)
    monkeypatch.undo()
    assert side.receiver.receive(frame(), 0.0) is not None
    side.receiver.receive(hello(actor="robot/box"), 0.0, robot)
    assert "robot/box" in side.receiver.seen


def test_a_broker_s_key_speaks_for_everybody_and_a_revoked_one_for_nobody(side, frame):
    """A broker has checked its own; of a revoked key nothing is read at all."""
    assert side.receiver.receive(b"not even a message", 0.0, None) is None
    assert side.receiver.receive(frame(), 0.0, None) is None
    assert side.receiver.inbox.ledger.refused == {"revoked": 2}
    assert side.receiver.receive(frame(), 0.0, Client("edge", "broker")) is not None


def test_receiver_acknowledges_actors_with_news(side, frame):
    """First contact, a hello, a settled parcel and a duplicate are news; a report is not."""

    def due(now):
        return [key for key, _ in side.receiver.acknowledgements.due(now, lambda key: Credit(1, 1))]

    side.receiver.receive(report(), 0.0)
    assert due(0.0) == [KEY]
    side.receiver.receive(report(), 0.1)
    assert due(0.1) == []
    side.receiver.receive(hello(), 0.2)
    assert due(0.2) == [KEY]
    accepted = side.receiver.receive(frame(), 0.3)
    assert due(0.3) == []
    side.receiver.settle(accepted.envelope)
    assert due(0.4) == [KEY]
    side.receiver.receive(frame(), 0.5)
    assert due(0.5) == [KEY]
    side.receiver.receive(bytes(wire.encode(Bye("run-1", "default", *KEY, 2, "gone"))), 0.6)
    assert due(5.0) == []


def test_parcel_beyond_the_credit_is_not_admitted_and_stays_missing(side, frame):
    """Number 2 comes before any acknowledgement: it counts for nothing until there is credit."""
    peer = Client("", BROKER, 5)
    side.endpoint.progress(0, 0, 1 << 20)
    first = side.receiver.receive(frame(), 0.0, peer)
    assert first is not None
    assert side.receiver.receive(frame(sequence=2), 0.0, peer) is None
    assert side.receiver.inbox.ledger.refused == {"credit": 1}
    assert [problem for problem in side.receiver.problems if "more than it was granted" in problem]
    side.receiver.settle(first.envelope)
    assert told(side) == (1, (), ())
    list(side.endpoint.due(0.0))
    assert side.receiver.receive(frame(sequence=2), 0.1, peer) is not None


def test_repetition_needs_no_credit(side, frame):
    """A number that is here already is a duplicate, also without credit."""
    peer = Client("", BROKER, 5)
    assert side.receiver.receive(frame(), 0.0, peer) is not None
    assert side.receiver.receive(frame(), 0.0, peer) is None
    assert side.receiver.inbox.ledger.duplicate == 1


def test_sender_that_was_heard_in_a_burst_opens_its_name_to_no_other(side, frame):
    """Another label's message, or one of a revoked key, is refused behind those of the owner."""
    owner = Client("robot", "actor", 5)

    def bring(number, sender):
        return side.receiver.receive(frame(actor="robot/1", sequence=number), 0.0, sender)

    assert bring(1, owner) is not None
    assert bring(2, Client("other", "actor", 6)) is None
    assert bring(2, None) is None
    assert side.receiver.inbox.ledger.refused == {"label": 1, "revoked": 1}
    assert side.receiver.names.peer_of(("robot/1", 7)) == "robot"


def test_actor_that_left_and_sends_on_within_a_burst_is_there(side, frame):
    """Its first message after the goodbye is noted, though it was heard before it."""
    bye = bytes(wire.encode(Bye("run-1", "default", "box-1", 7, 1, "finished")))
    side.receiver.receive(frame(), 0.0)
    side.receiver.receive(bye, 0.0)
    (member,) = side.receiver.roster
    assert member.presence(0.0) is Presence.LEFT
    side.receiver.receive(frame(sequence=2), 0.0)
    assert member.presence(0.0) is Presence.ACTIVE


def test_peer_has_no_more_waiting_than_is_free(side, frame):
    """Training takes nothing: one peer has half of the rows, and an honest one still has room.

    256 parcels of 64 × 8 rows are the whole. Of 128 and 3 six leave: 122 may become 127, when 126
    are free.
    """
    side.endpoint.progress(0, 0, 1 << 40)
    large = a_parcel((8,) * 64, (Ending.OPEN,) * 64)

    def bring(actor, connection, count):
        for number in range(1, count + 1):
            message = frame(large, actor=actor, sequence=number)
            side.endpoint.receive([(message, Client("", BROKER, connection))], 0.0)
            side.endpoint.settle()
            list(side.endpoint.due(number / 10))

    bring("greedy", 5, 400)
    assert sum(side.endpoint.queue.parcels.rows()) == 256 * 64 * 8 / 2
    assert side.receiver.inbox.ledger.refused["credit"] == 400 - 128
    bring("honest", 6, 3)
    assert side.receiver.inbox.received("honest", 7).highest == 3
    side.endpoint.queue.parcels.take(6)
    bring("greedy", 5, 400)
    assert side.receiver.inbox.ledger.accepted == 128 + 2 + 5


def test_credit_is_never_more_than_the_buffer_takes(side, frame):
    """Without pacing, an actor that sends all that it may is not refused; then it waits."""
    side.endpoint.progress(0, 0, 1 << 40)
    large = a_parcel((8,) * 64, (Ending.OPEN,) * 64)
    topic, sent = topics.acknowledgement("default", "box-1", 7), 0
    credit = Credit(1, 1)
    for turn in range(400):
        for _ in range(credit.messages):  # each is acknowledged before training takes it
            sent += 1
            message = frame(large, sequence=sent)
            side.endpoint.receive([(message, Client("", BROKER, 5))], 0.0)
        side.endpoint.settle()
        for found, content in side.endpoint.due(turn / 10):
            if found == topic:
                credit = wire.read(wire.open_frame(content)).credit
    assert side.receiver.inbox.ledger.refused == {}
    assert credit.messages == 0
    assert 100 < sent <= 128


def test_parcel_with_too_many_rows_is_refused(side, frame):
    """65 windows of one seat: an actor cuts such a window into two parcels."""
    item = side.receiver.receive(frame(a_parcel((8,) * 65, (Ending.OPEN,) * 65)), 0.0)
    assert item.content == RefusedNumber("rows")
    assert side.receiver.receive(frame(a_parcel((8,) * 64, (Ending.OPEN,) * 64), sequence=2), 0.0)


def poisoned(value):
    """Return a parcel with one reward of this value."""
    parcel = a_parcel()
    parcel.columns["rewards"][1] = value
    return parcel


@pytest.mark.parametrize(
    ("value", "reason"), [(3e38, "magnitude"), (-1.01e9, "magnitude"), (np.nan, "nonfinite")]
)
def test_value_that_overflows_in_training_is_refused(side, frame, value, reason):
    """Before it is in the journal; a value at the bound is taken."""
    item = side.receiver.receive(frame(poisoned(value)), 0.0)
    assert item.content == RefusedNumber(reason)
    assert side.receiver.receive(frame(poisoned(1e9), sequence=2), 0.0).rows == 3


def test_actor_that_repeats_its_offences_is_in_quarantine(side, frame):
    """Its rows are refused for a minute after the ninth offence, and another's are not."""
    for number in range(1, 10):
        side.receiver.receive(frame(poisoned(3e38), sequence=number), 0.0)
    item = side.receiver.receive(frame(sequence=10), 59.0)
    assert item.content == RefusedNumber("quarantine")
    assert "box-1 is in quarantine: magnitude" in "".join(side.receiver.problems)
    assert side.receiver.receive(frame(actor="box-2"), 59.0).rows == 3
    assert side.receiver.receive(frame(sequence=11), 60.0).rows == 3


@pytest.mark.parametrize("place", [0, Place(1, False), Place(5, True)])
def test_parcel_with_the_place_of_another_actor_is_refused(place):
    """In rounds an actor plays under the index that it was handed out, and no other."""
    side = LearnerDouble(a_spec(rounds=Rounds(actors=2)))
    assert side.receiver.roster.join(*KEY, 0.0).index == 0
    side.receiver.roster.join("box-2", 8, 0.0)
    right = side.receiver.receive(a_frame(side.spec, round=Place(0, True)), 0.0)
    assert right is not None
    assert right.content.place == Place(0, True)
    refused = side.receiver.receive(a_frame(side.spec, sequence=2, round=place), 0.0)
    assert refused is not None
    assert refused.content == RefusedNumber("place")
