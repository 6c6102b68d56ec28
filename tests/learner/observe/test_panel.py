"""The panel: the contents of a frame, and its fit into any terminal."""

import dataclasses
import io
import math
import time

import pytest
from rich.cells import cell_len
from rich.console import Console
from support.waiting import used_at_most

from farflung.learner.observe.panel import draw
from farflung.learner.observe.status import (
    ActorState,
    ActorStatus,
    EvaluationStatus,
    RealTimeStatus,
    Status,
    WaitingStatus,
)
from farflung.learner.observe.verdict import Figures, judge

ACTORS = tuple(
    ActorStatus(f"cpu{number:02}", ActorState.RUNNING, 16, 2300.0, 12204, 3417, 61204, 3, 0.2)
    for number in range(3)
)
STATUS = Status(
    run="brave-otter",
    environment="CartPole-v1",
    algorithm="dqn",
    device="cpu",
    join="actor 10.0.0.5:5555",
    seconds=151.0,
    steps=1_243_904,
    steps_target=2_000_000,
    until="evaluation >= 475",
    goal_seconds=12.4,
    updates=287_412,
    version=3417,
    episodes=12_204,
    return_mean=471.3,
    return_history=tuple(float(value) for value in range(40)),
    length_mean=471.0,
    evaluation=EvaluationStatus(496.0, 20, 3400, 500.0),
    evaluation_history=(20.0, 300.0, 496.0),
    metrics={"loss": 0.1284, "gradient_norm": 3.21, "value": 87.6, "epsilon": 0.05},
    update_split={"sample": 0.0005, "gradients": 0.004, "step": 0.0005},
    cpu=98.2,
    machine_cpu=71.0,
    memory=412_300_000,
    machine_memory=53.2,
    bytes_in=9_000_000,
    bytes_in_per_second=62_300.0,
    bytes_out=1_000,
    bytes_out_per_second=950.0,
    steps_per_second=18_402.0,
    updates_per_second=2_287.0,
    ratio_wanted=8.0,
    ratio_held=7.93,
    waiting=WaitingStatus("updates", 3, 1.0),
    lag_p50=1.0,
    lag_p95=2.0,
    replay_size=62_311,
    replay_capacity=100_000,
    received=61_204,
    actors=ACTORS,
)


def lines(status: Status, width: int = 100, height: int = 30) -> list[str]:
    """Return the frame as plain lines."""
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    with console.capture() as frame:
        console.print(draw(status, width, height, "Ctrl-C finishes and saves"), end="")
    return frame.get().removesuffix("\n").split("\n")


def changed(**values: object) -> Status:
    """The status with other values."""
    return dataclasses.replace(STATUS, **values)


WORDS = (
    *(
        "CartPole-v1 · dqn on cpu",
        "running 2 min 31 s",
        "1,243,904 of 2,000,000  62 %",
        "41 s left",
        "471.3",
        "496.0  best 500.0",
    ),
    *(
        "evaluation >= 475",
        "about 12 s",
        "18,402",
        "2,287",
        "7.93 of 8",
        "1, p95 2",
        "62 % of 100k",
        "collection waits for updates",
        "3 actors",
    ),
    *("cpu01", "running", "0.2 s", "actor 10.0.0.5:5555", "Ctrl-C finishes and saves", "▁", "█"),
)


@pytest.mark.parametrize("width", [80, 100])
def test_a_frame_shows_what_matters(width: int) -> None:
    """On a wide and on a narrow terminal alike."""
    frame = "\n".join(lines(STATUS, width))
    assert [words for words in WORDS if words not in frame] == []


@pytest.mark.parametrize("width", [60, 100])
def test_a_frame_has_the_whole_verdict(width: int) -> None:
    """In as many rows as it takes: the remedy comes last. Without one there is no row."""
    found = judge(Figures({"experience": 0.7}, {"environment": 0.9}))
    frame = lines(changed(verdict=found), width, 30)
    first = next(number for number, row in enumerate(frame) if "verdict " in row)
    rows = [row.strip("│ ") for row in frame[first : first + (3 if width > 80 else 4)]]
    said = " ".join(row.removeprefix("verdict").strip() for row in rows)
    assert said.startswith(found.sentence)
    assert "verdict" not in "".join(lines(STATUS))


@pytest.mark.parametrize("width", [80, 120])
def test_a_frame_shows_learning_machine_and_network(width: int) -> None:
    """On a terminal of 24 lines: 5 ms are 0.5, 4 and 0.5 ms, that is 10, 80 and 10 %."""
    frame = "\n".join(lines(STATUS, width, 23))
    for words in (
        "env steps/s",
        "▁▅█  20.0 to 496.0",
        "gradient norm",
        "98 %, all 71 %",
        "412 MB, all 53 %",
        "62 kB/s",
        "950 B/s",
        "5.00 ms: sample 10 %, gradients 80 %, step 10 %",
        "at most 41 s left",
    ):
        assert words in frame


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"goal_seconds": None}, "goal        not in sight yet  evaluation >= 475"),
        ({"goal_seconds": 130.0}, "goal        about 2 min 10 s  evaluation >= 475"),
        ({"state": "stop"}, "goal        reached"),
    ],
)
def test_the_time_to_the_goal_is_that_of_until(values: dict[str, object], words: str) -> None:
    """Not the time to the last step that --steps allows, unless there is no other goal."""
    assert words in "\n".join(lines(changed(**values)))
    assert "goal" not in "\n".join(lines(changed(until="")))
    assert "  41 s left" in "\n".join(lines(changed(until="")))


def test_twelve_lines_have_the_goal_too() -> None:
    """Beside the evaluation."""
    assert "best 500.0" in "\n".join(lines(STATUS, 80, 11))
    assert "goal about 12 s" in "\n".join(lines(STATUS, 80, 11))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 300])
@pytest.mark.parametrize("height", [3, 10, 14, 23, 29, 60])
@pytest.mark.parametrize("actors", [0, 1, 64, 1000])
def test_a_frame_fits(width: int, height: int, actors: int) -> None:
    """Every line is as wide as the frame, and there are no more lines than the terminal has."""
    many = tuple(
        ActorStatus(f"label/{'host' * 12}-{number:04}", ActorState.WAITING)
        for number in range(actors)
    )
    frame = lines(
        changed(
            actors=many, problems=("日本語 " * 100, "short"), refused={"schema": 3}, run="r" * 64
        ),
        width,
        height,
    )
    assert len(frame) <= height
    assert {cell_len(line) for line in frame} == {min(width, 120)}


def test_nothing_known_yet_is_drawn_too() -> None:
    """A learner that has just begun: no actor, no episode, no target."""
    frame = "\n".join(lines(Status(run="new", join="actor host:5555")))
    assert "no actor yet; start one with  actor host:5555" in frame
    assert "no episode has ended yet" in frame
    assert "neither side" in frame
    starting = WaitingStatus("actors", 2, 1.0)
    frame = "\n".join(lines(Status(run="new", join="actor host:5555", waiting=starting)))
    assert "no actor yet: 2 start on this machine" in frame
    assert "start one with" not in frame


def test_numbers_that_are_not_finite_are_shown_as_such() -> None:
    """A diverged loss is the thing to see."""
    frame = "\n".join(
        lines(
            changed(
                metrics={"loss": math.nan}, return_history=(1.0, math.nan, 2.0), ratio_held=math.inf
            )
        )
    )
    assert "nan" in frame
    assert "inf of 8" in frame


def test_where_actors_do_not_fit_the_silent_ones_stand_first_and_the_rest_is_summed_up() -> None:
    """Of 64 actors on 24 lines a person needs to see the one that is gone."""
    actors = [ActorStatus(f"cpu{number:02}", ActorState.RUNNING) for number in range(64)]
    actors[50] = ActorStatus("lost-one", ActorState.SILENT, seen_ago=38.4)
    actors[0] = ActorStatus("gone", ActorState.LEFT)
    frame = lines(changed(actors=tuple(actors)), 80, 23)
    table = frame[next(number for number, line in enumerate(frame) if "62 actors" in line) + 1 :]
    assert "lost-one" in table[0]
    assert "38 s" in table[0]
    shown = sum("cpu" in line for line in table)
    assert f"and {63 - shown} more: {62 - shown} running, 1 left" in table[-2]


@pytest.mark.parametrize("height", [11, 12, 14])
def test_small_terminal_shows_actors_before_it_shows_all_figures(height: int) -> None:
    """On twelve lines figures make room, since who takes part matters more than any of them."""
    two = lines(changed(actors=ACTORS[:2]), 80, height)
    assert sum("cpu0" in line for line in two) == 2
    many = "\n".join(lines(changed(actors=ACTORS * 20, problems=("a", "b")), 80, height))
    assert "60 actors" in many
    assert many.count("cpu0") >= 2 or height == 11
    assert "more: " in many


def test_departed_actors_are_not_counted_as_present() -> None:
    """Two are there; one said goodbye and keeps its row."""
    gone = dataclasses.replace(ACTORS[0], state=ActorState.LEFT)
    assert "2 actors " in "\n".join(lines(changed(actors=(gone, *ACTORS[1:]))))


def test_all_metrics_of_the_algorithm_are_shown_by_their_names() -> None:
    """The panel knows none of them."""
    metrics = {"loss": 0.5, "entropy": 1.25, "kl_divergence": 0.01, "a/b": None}
    frame = " ".join("\n".join(lines(changed(metrics=metrics))).split())
    assert [
        f for f in ("loss 0.500", "entropy 1.25", "kl divergence 0.010") if f not in frame
    ] == []


def test_least_punctual_actor_at_a_rate_stands_above_the_problems() -> None:
    """Its delays, missed deadlines, the age of its weights and its drops."""
    fine = RealTimeStatus(50.0, 3000, late_p99_s=0.002)
    late = RealTimeStatus(200.0, 12000, 3, 5, 0.0001, 0.0123, 0.5, 0.84, 1200, 40, 2)
    actors = [dataclasses.replace(ACTORS[0], name="arm-1", real_time=fine), ACTORS[1]]
    actors += [dataclasses.replace(ACTORS[2], name="arm-2", real_time=late)]
    frame = lines(changed(actors=tuple(actors), problems=("it is dark",)), width=120)
    rows = [row.strip("│ ") for row in frame]
    head = "real time   arm-2 200 Hz: p50 0.1, p99 12.3, worst 500.0 ms late; 3 over, 5 left out"
    (at,) = [place for place, row in enumerate(rows) if row.startswith(head)]
    assert ", 1,200 dropped; weights 0.8 s" in rows[at]
    assert rows[at + 1] == "problem     it is dark"
    assert rows[at + 2].startswith("real time   arm-1 50 Hz: p50 0.0, p99 2.0, worst 0.0 ms")


def test_steps_that_were_taken_and_not_recorded_are_counted_by_actor() -> None:
    """The actor with most of them comes first; a session without a rate has them too."""
    lost = [dataclasses.replace(ACTORS[0], name=f"arm-{n}", lost_steps=n) for n in (0, 3, 1200)]
    rows = [row.strip("│ ") for row in lines(changed(actors=tuple(lost)), width=120)]
    assert "lost steps  taken and not recorded: arm-1200 1,200, arm-3 3" in rows


def test_names_that_differ_at_their_ends_stay_different() -> None:
    """A long name loses its middle."""
    names = [f"laboratory/workstation-under-the-stairs-{number:04x}" for number in range(3)]
    frame = "\n".join(
        lines(changed(actors=tuple(ActorStatus(name, "running") for name in names)), 80)
    )
    assert all(name[-6:] in frame for name in names)


def test_an_unknown_state_is_a_word_like_others() -> None:
    """A newer learner may know more of them."""
    assert "dancing" in "\n".join(
        lines(changed(state="dancing", actors=(ActorStatus("a", "dreaming"),)))
    )


def test_losses_refusals_and_problems_stand_at_the_bottom_the_newest_first() -> None:
    """A loss above all, since it never happens; of a traceback the error."""
    problems = (
        "first",
        "cpu01: step\nTraceback (most recent call last):\n  File x\nValueError: too far",
    )
    frame = lines(changed(lost=2, refused={"schema": 1, "not finite": 30}, problems=problems))
    assert "2 parcels, by the word" in frame[-5]
    assert "not finite 30, schema 1" in frame[-4]
    assert "cpu01: step … ValueError: too far" in frame[-3]
    assert "first" in frame[-2]


def test_updates_that_were_skipped_are_counted() -> None:
    """A loss that stands still has its reason beside it."""
    assert "skipped     12 of 900 updates: loss or gradients were not finite" in "\n".join(
        lines(changed(skipped=12, updates=900))
    )


EVIL = "\x1b[2J\x07\u202e[bold red]"


def test_foreign_text_is_shown_as_text() -> None:
    """Escapes and markup from the network steer nothing, in any field."""
    texts = {
        field.name: EVIL for field in dataclasses.fields(Status) if isinstance(field.default, str)
    }
    status = changed(
        **texts | {"run": EVIL},
        problems=(EVIL,),
        refused={EVIL: 1},
        metrics={EVIL: 1.0},
        actors=(ActorStatus(EVIL, EVIL),),
        waiting=WaitingStatus(EVIL, 1, 1.0),
    )
    frame = lines(status, 120, 40)
    assert all(line.isprintable() for line in frame)
    assert {cell_len(line) for line in frame} == {120}
    assert "\n".join(frame).count("[bold red]") >= 8


@pytest.mark.parametrize("name", ["x" * 5000, "日本語" * 50, "a\nb" * 30, "\u0301" * 200])
def test_names_of_hostile_length_do_not_break_the_frame(name: str) -> None:
    """A name that is too long, wide, or of several lines is cut."""
    for width in (40, 80, 120):
        frame = lines(changed(run=name, actors=(ActorStatus(name, "running"),)), width, 24)
        assert {cell_len(line) for line in frame} == {width}


def test_other_modes_and_policies_are_named() -> None:
    """The ordinary ones are not worth the room."""
    assert "sequential · policy red" in lines(changed(mode="sequential", policy="red"))[0]


def test_a_frame_is_cheap() -> None:
    """64 actors take milliseconds: meanwhile training has no interpreter, four times a second."""
    status = changed(actors=ACTORS * 21)
    durations = []
    for _ in range(9):
        began = time.thread_time()
        lines(status)
        durations.append(time.thread_time() - began)
    assert used_at_most(min(durations), 0.008)
