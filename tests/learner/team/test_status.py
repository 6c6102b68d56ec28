"""The status of a team as line, JSON and panel."""

import json

import pytest
from rich.console import Console

from farflung.learner.observe.status import ActorStatus, EvaluationStatus, Status, WaitingStatus
from farflung.learner.team.panel import draw
from farflung.learner.team.status import PolicyStatus, Stage, TeamStatus, document, line

RED = Status(
    run="red-1",
    policy="red",
    steps=1200,
    steps_target=5000,
    return_mean=10.0,
    return_history=(1.0, None, 10.0),
    evaluation=EvaluationStatus(12.5, 20, 7, 12.5),
    updates_per_second=33.0,
    waiting=WaitingStatus("rows", 10, 0.4),
    actors=(ActorStatus("local-0", "running"), ActorStatus("local-1", "running")),
    problems=("local-1 is late",),
)
TEAM = TeamStatus(
    environment="hunt",
    algorithm="dqn",
    folder="runs/hunt",
    join="actor box:5555 --policy red",
    seconds=65.0,
    policies={
        "red": PolicyStatus(("a0", "a1"), Stage.RUNNING, RED),
        "blue": PolicyStatus(("a2",), Stage.STARTING),
    },
    problems=("learner-blue was ended by SIGKILL; restarting in 0.5 s",),
)


def drawn(team, width, height):
    """Return the panel as lines of text."""
    console = Console(width=width, height=height, no_color=True)
    with console.capture() as captured:
        console.print(draw(team, width, height, "Ctrl-C finishes and saves"), end="")
    return captured.get().splitlines()


def test_the_line_names_each_policy():
    """With its steps, return and evaluation; one that has said nothing yet, with its stage."""
    assert line(TEAM) == (
        "1 min 5 s, red: 1,200 of 5,000 steps, return 10.0 evaluation 12.5, 33.0 updates/s, "
        "blue: starting"
    )


def test_the_line_names_a_pause_and_a_weight():
    """As the operator of a run has set them."""
    red = Status(run="red-1", state="pause", weight=0.5)
    team = TeamStatus("hunt", "dqn", "hunt", policies={"red": PolicyStatus((), Stage.RUNNING, red)})
    assert "red: paused x0.5 0 steps" in line(team)


def test_the_return_of_all_counts_each_agent():
    """Two agents of red at 10 and one of blue at 4 make 24; without one of them it is unknown."""
    assert TEAM.total is None
    blue = PolicyStatus(("a2",), Stage.RUNNING, Status(run="blue-1", return_mean=4.0))
    both = TeamStatus("hunt", "dqn", "runs/hunt", policies={**TEAM.policies, "blue": blue})
    assert both.total == pytest.approx(24.0)
    assert "return of all 24.0" in line(both)


def test_the_document_is_strict_json():
    """It has the whole status of each learner."""
    found = json.loads(document(TEAM))
    assert found["policies"]["red"]["learner"]["steps"] == 1200
    assert found["policies"]["blue"]["learner"] is None


def test_the_panel_shows_policies_actors_and_problems():
    """One row each; what learners wait for, with their names."""
    text = "\n".join(drawn(TEAM, 110, 30))
    for part in (
        *("team running 1 min 5 s", "hunt", "2 policies", "red", "1,200 of 5,000", "12.5"),
        *("starting", "local-0", "local-1", "join with: actor box:5555 --policy red"),
        *("updates wait for rows (40 % of the time)  red", "ended by SIGKILL"),
        "red: local-1 is late",
    ):
        assert part in text


@pytest.mark.parametrize(("width", "height"), [(40, 8), (60, 10), (80, 24), (200, 60), (20, 4)])
def test_the_panel_fits_each_terminal(width, height):
    """Also with more policies than lines."""
    many = {f"policy{number}": each for number in range(30) for each in TEAM.policies.values()}
    for policies in (TEAM.policies, many):
        lines = drawn(TeamStatus("hunt", "dqn", "runs", policies=policies), width, height)
        assert len(lines) <= height
        assert max(map(len, lines)) <= width
