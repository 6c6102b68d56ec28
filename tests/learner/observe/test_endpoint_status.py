"""The books of an endpoint as the status shows them."""

import io

import pytest
from msgspec import structs
from rich.console import Console
from support.learner_double import LearnerDouble
from support.makers import a_frame

from farflung.actor.realtime.alone import Alone
from farflung.actor.realtime.clock import Clock
from farflung.actor.realtime.figures import figures
from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import Hello, Problem, Report
from farflung.common.protocol.roster import SILENT_S, Member, Presence
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.observe.endpoint_status import actor_status, endpoint_status
from farflung.learner.observe.panel import draw
from farflung.learner.observe.screen import line
from farflung.learner.observe.status import ActorState, ProblemStatus, RealTimeStatus, Status


@pytest.fixture
def learner():
    """Return a learner without sockets."""
    return LearnerDouble(learner_id=5, versions=0)


def receive(learner, message, now=0.0):
    learner.receiver.receive(bytes(wire.encode(message)), now)


def a_member(actor, presence):
    """Return a member of the roster and the time when this is its presence."""
    member = Member(actor, 7, 0, 0, 0.0, has_sent=presence is not Presence.JOINING)
    member.left = presence is Presence.LEFT
    return member, SILENT_S if presence is Presence.SILENT else 0.0


def hello(seats=1, evaluates=False):
    return Hello("run-1", "default", "box-1", 7, 1, Version(1, 2), 1, seats, evaluates)


COUNTERS = {
    "steps": 64.0,
    "episodes": 5.0,
    "acknowledged.parcels": 8.0,
    "waiting.parcels": 1.0,
    "sent.parcels": 2.0,
}


def test_an_actor_is_described_by_what_it_reports(learner):
    """Seats from the hello, counters from the report, and how long ago it was heard."""
    receive(learner, hello(seats=4))
    receive(learner, Report("run-1", "default", "box-1", 7, 1, Version(1, 3), COUNTERS), 1.0)
    (actor,) = endpoint_status(learner.endpoint, 3.0).actors
    assert (actor.name, actor.state, actor.seats, actor.version) == (
        "box-1",
        ActorState.RUNNING,
        4,
        3,
    )
    assert (actor.episodes, actor.acknowledged, actor.waiting, actor.seen_ago) == (5, 8, 3, 2.0)


def test_time_of_an_actor_is_shared_out_between_its_reports(learner):
    """Of 8 s between two reports it waited 6 s; the step at hand takes 7 s. One report is none."""
    receive(learner, hello())
    for now, (room, environment) in enumerate([(0.0, 1.0), (6.0, 3.0)]):
        times = {"seconds.room": room, "seconds.environment": environment, "seconds.x": 9.0}
        counters = {**COUNTERS, **times, "hangs_s": 7.0 * now}
        report = Report("run-1", "default", "box-1", 7, 1, Version(1, 3), counters)
        receive(learner, report, 1.0 + 8 * now)
        (actor,) = endpoint_status(learner.endpoint, 1.0 + 8 * now).actors
        assert actor.time == ({"room": 0.75, "environment": 0.25} if now else {})
        assert actor.hangs_s == 7.0 * now


def test_problem_has_its_traceback(learner):
    """As lines, so that a status on the feed has no line ends in its texts."""
    receive(learner, hello())
    told = (Problem(1, "environment", "Traceback\n  here\nValueError: 1"),)
    receive(learner, Report("run-1", "default", "box-1", 7, 1, Version(1, 3), COUNTERS, told), 1.0)
    view = endpoint_status(learner.endpoint, 1.0)
    lines = ("Traceback", "  here", "ValueError: 1")
    assert view.problems == ("box-1: environment: ValueError: 1",)
    assert view.problem_texts == (ProblemStatus(view.problems[0], lines),)


def test_actor_at_a_rate_is_described_by_its_clock(learner):
    """By the figures that it puts into its report; a name that is not known is left out."""
    clock, alone = Clock(4.0, 0.0), Alone()
    clock.begin(0.5)
    clock.end(1.0)
    alone.stops(there=False)
    timing = figures(clock, {"environment": 1}, alone, weights_age_s=2.5)
    counters = COUNTERS | timing | {"rate.new": 1.0, "dropped.outbox full.parcels": 7.0}
    receive(learner, Report("run-1", "default", "box-1", 7, 1, Version(1, 3), counters), 1.0)
    (actor,) = endpoint_status(learner.endpoint, 3.0).actors
    assert actor.real_time == RealTimeStatus(
        rate_hz=4.0,
        steps=1,
        missed=1,
        skipped=2,
        late_p50_s=0.5,
        late_p99_s=0.5,
        late_worst_s=0.5,
        weights_age_s=2.5,
        dropped=7,
        alone=1,
    )


def test_actor_without_a_rate_has_no_clock(learner):
    """Nor has one of an older release. It may have lost steps."""
    counters = COUNTERS | {"lost_steps": 6.0}
    receive(learner, Report("run-1", "default", "box-1", 7, 1, Version(1, 3), counters), 1.0)
    (actor,) = endpoint_status(learner.endpoint, 3.0).actors
    assert (actor.real_time, actor.lost_steps) == (None, 6)


@pytest.mark.parametrize(
    ("presence", "evaluates", "waits", "word"),
    [
        (Presence.ACTIVE, False, 0.0, ActorState.RUNNING),
        (Presence.ACTIVE, False, 1.0, ActorState.WAITING),
        (Presence.ACTIVE, True, 0.0, ActorState.EVALUATING),
        (Presence.SILENT, True, 1.0, ActorState.SILENT),
        (Presence.LEFT, False, 0.0, ActorState.LEFT),
        (Presence.JOINING, False, 0.0, ActorState.JOINING),
    ],
)
def test_an_actors_state_is_one_word(learner, presence, evaluates, waits, word):
    """The state names first its presence, then its activity."""
    receive(learner, hello(evaluates=evaluates))
    receive(learner, Report("run-1", "default", "box-1", 7, 1, Version(1, 3), {"waits": waits}))
    assert actor_status(learner.receiver, *a_member("box-1", presence)).state == word


def test_worker_learns_while_its_gradients_become_more(learner):
    """Two in the first report, none more in the second: then it does as its waits say."""
    states = []
    for computed, waits in ((0, 0.0), (2, 1.0), (2, 1.0), (3, 1.0), (3, 0.0)):
        counters = {"gradients": float(computed), "waits": waits}
        receive(learner, Report("run-1", "default", "box-1", 7, 1, Version(1, 3), counters))
        member = a_member("box-1", Presence.ACTIVE)
        states.append(str(actor_status(learner.receiver, *member).state))
    assert states == ["running", "learning", "waiting", "learning", "running"]


@pytest.mark.parametrize(
    ("presence", "word"),
    [
        (Presence.LEFT, ActorState.LEFT),
        (Presence.SILENT, ActorState.SILENT),
        (Presence.JOINING, ActorState.JOINING),
        (Presence.ACTIVE, ActorState.JOINING),
    ],
)
def test_actor_of_an_earlier_epoch_is_not_joining_for_ever(learner, presence, word):
    """After a resume the roster knows actors that said goodbye, or never come back."""
    assert actor_status(learner.receiver, *a_member("box-9", presence)).state == word


def test_actor_killed_before_a_resume_is_soon_silent_and_not_counted(learner):
    """It is expected for eight seconds after each resume, and no longer."""
    learner.receiver.receive(a_frame(learner.spec, actor="box-1"), 0.0)
    members = learner.endpoint.roster.state()
    for epoch, resumed_at in ((2, 100.0), (3, 200.0)):
        endpoint = Endpoint.resume(learner.spec, Inbox(epoch), members, resumed_at)
        for after_s, state, present in ((0.0, "joining", 1), (SILENT_S, "silent", 0)):
            view = endpoint_status(endpoint, resumed_at + after_s)
            status = Status("run-1", actors=view.actors, more_actors=view.more_actors)
            assert [actor.state for actor in status.actors] == [state]
            assert status.present == present
            assert f"actors {present}" in line(status)
            assert f" {present} actor" in f" {drawn(status)}"
        members = endpoint.roster.state()
    assert [member["actor"] for member in members["members"]] == ["box-1"]


def drawn(status):
    """Return the panel as text."""
    console = Console(file=io.StringIO(), width=100)
    console.print(draw(status, 100, 40))
    return console.file.getvalue()


def test_status_lists_actors_with_parcels_first_and_counts_the_rest(learner, monkeypatch):
    """A flood of names hides none, also if all of them claim to run."""
    monkeypatch.setattr("farflung.learner.observe.endpoint_status.ROWS", 3)
    for number in range(9):
        named = structs.replace(hello(evaluates=True), actor=f"name-{number}")
        receive(learner, named)
    for actor in ("box-1", "box-2"):
        learner.receiver.receive(a_frame(learner.spec, actor=actor), 0.0)
    view = endpoint_status(learner.endpoint, 0.0)
    assert [(actor.name, actor.proven) for actor in view.actors] == [
        ("box-1", True),
        ("box-2", True),
        ("name-0", False),
    ]
    assert (view.more_actors, [it["actor"] for it in view.roster["members"]]) == (
        8,
        ["box-1", "box-2"],
    )


def test_actor_with_only_a_place_is_joining(learner):
    """A snapshot was sent and nothing came back yet."""
    learner.receiver.roster.join("box-2", 1, 0.0)
    (actor,) = endpoint_status(learner.endpoint, 0.5).actors
    assert (actor.name, actor.state, actor.seen_ago) == ("box-2", ActorState.JOINING, 0.5)


def test_a_view_holds_the_books(learner):
    """Received, duplicates, refused by reason, lost, and the problems."""
    for _ in range(2):
        learner.receiver.receive(a_frame(learner.spec), 0.0)
    learner.receiver.receive(b"", 0.0)
    learner.receiver.receive(a_frame(learner.spec, actor="box-2", sequence=3, base=3), 0.0)
    view = endpoint_status(learner.endpoint, 0.0)
    assert (view.received, view.duplicates, view.lost, view.refused) == (
        4,
        1,
        2,
        (("truncated", 1),),
    )
    assert view.problems == ("refused from an unnamed sender: truncated: 0 bytes",)
