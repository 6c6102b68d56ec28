"""Outlets: a thread and a bounded queue before each, and the two that are built in."""

import importlib.machinery
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from farflung.common.process import plugins
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.observe import outlets
from farflung.learner.observe.metrics import sent_on
from farflung.learner.observe.outlets import WAITING, Moment, OutletThread, RunFacts, find
from farflung.learner.observe.status import EvaluationStatus, FigureStatus, Status

FACTS = RunFacts("lake-1", "lake", Path("runs/lake"), {"seed": 3, "dqn": {"hidden": (32,)}})
SOON_S = 10.0


class Kept:
    """An outlet that keeps what it gets; a gate may hold it, an error may end a call."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.moments: list[Moment] = []
        self.closed, self.gate = False, gate
        self.error: Exception | None = None
        self.entered = threading.Event()

    def write(self, moment: Moment) -> None:
        """Keep a moment."""
        self.entered.set()
        if self.gate is not None:
            self.gate.wait(SOON_S)
        if self.error is not None:
            raise self.error
        self.moments.append(moment)

    def close(self) -> None:
        """Note the end."""
        self.closed = True


def moment(steps: int) -> Moment:
    """Return a moment with one figure."""
    return Moment({"train/loss": 0.5}, steps, 1, 1_700_000_000.0)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """A gate that is open at the end, so that no thread is left waiting."""
    event = threading.Event()
    yield event
    event.set()


def test_outlet_gets_every_moment_in_order_in_one_thread() -> None:
    """It is made there too, and closed after the last."""
    threads, kept = [], Kept()

    def make() -> Kept:
        threads.append(threading.current_thread())
        return kept

    outlet = OutletThread("kept", make)
    for steps in range(50):
        outlet.offer(moment(steps))
    outlet.close()
    assert [each.steps for each in kept.moments] == [*range(50)]
    assert kept.closed
    assert (outlet.lost, len(threads)) == (0, 1)
    assert threads[0] is not threading.current_thread()


def test_outlet_that_hangs_costs_training_nothing(
    gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue keeps the newest; the loss is named once, and the end does not wait for it."""
    kept = Kept(gate)
    outlet = OutletThread("kept", lambda: kept)
    outlet.offer(moment(0))
    assert kept.entered.wait(SOON_S)
    with caplog.at_level(logging.WARNING):
        for steps in range(1, WAITING + 101):
            outlet.offer(moment(steps))
        outlet.close(0.05)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "outlet kept is too slow: its oldest figures are left out",
        "outlet kept has not ended: its last figures may be missing",
    ]
    assert outlet.lost == 100
    gate.set()
    outlet.close()
    assert [each.steps for each in kept.moments] == [0, *range(101, WAITING + 101)]


def test_outlet_that_fails_is_named_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """Each moment that it did not take counts; text of another program steers no terminal."""
    kept = Kept()
    kept.error = ConnectionError("no route \x1b[2J")
    outlet = OutletThread("kept", lambda: kept)
    with caplog.at_level(logging.WARNING):
        for steps in range(5):
            outlet.offer(moment(steps))
        outlet.close()
    assert outlet.lost == 5
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "outlet kept failed, the run goes on: ConnectionError: no route  [2J",
        "outlet kept lost 5 moments",
    ]
    assert kept.closed


def test_outlet_that_cannot_be_made_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """The moments that waited meanwhile are passed on then."""
    kept, tries = Kept(), []

    def make() -> Kept:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no server")
        return kept

    outlet = OutletThread("kept", make, again_s=0.01)
    with caplog.at_level(logging.WARNING):
        outlet.offer(moment(1))
        assert kept.entered.wait(SOON_S)
        outlet.close()
    assert [each.steps for each in kept.moments] == [1]
    assert caplog.text.count("no server") == 1


def test_outlet_that_was_never_made_is_no_hang_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The figures that waited for it are counted as lost."""

    def make() -> Kept:
        raise OSError("no server")

    outlet = OutletThread("kept", make, again_s=1000.0)
    with caplog.at_level(logging.WARNING):
        outlet.offer(moment(1))
        outlet.offer(moment(2))
        outlet.close()
    assert "outlet kept lost 2 moments" in caplog.text


def test_outlet_gets_finite_figures_and_each_evaluation_once() -> None:
    """The first moment after a start, each two seconds, and the last."""
    kept = Kept()
    sink = sent_on(OutletThread("kept", lambda: kept), lambda: 7.0)
    figures = {"eval/success_rate": FigureStatus(1.0, 0.0, 20), "arm/x": FigureStatus(2.0, None, 1)}
    for second in range(4):
        evaluation = EvaluationStatus(400.0, 20, 3, 410.0)
        metrics = {"loss": float("nan"), "value": 1.5}
        sink.show(
            Status(
                run="r",
                seconds=float(second),
                steps=second,
                epoch=2,
                evaluation=evaluation,
                figures=figures,
                metrics=metrics,
            )
        )
    sink.close(Status(run="r", seconds=4.0, steps=9, epoch=2, figures=figures))
    assert [(each.steps, each.epoch, each.wall_time) for each in kept.moments] == [
        (0, 2, 7.0),
        (2, 2, 7.0),
        (9, 2, 7.0),
    ]
    assert ["eval/success_rate" in each.figures for each in kept.moments[:2]] == [True, False]
    assert all(each.figures["arm/x"] == 2.0 for each in kept.moments)
    assert "train/loss" not in kept.moments[0].figures
    assert kept.moments[0].figures["train/value"] == 1.5


def test_unknown_outlet_is_refused() -> None:
    """With the nearest name, or the way to write one's own."""
    with pytest.raises(UsageError, match="Did you mean wandb"):
        find("wandbb")
    with pytest.raises(ConfigurationError, match="has no Nothing"):
        find("json:Nothing")
    with pytest.raises(ConfigurationError, match="cannot be called"):
        find("json:__doc__")


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
@pytest.mark.parametrize("folder", [False, True])
def test_outlet_without_its_package_names_the_extra(
    name: str, folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder `wandb` in the working directory, which W&B leaves behind, is no package."""
    found = importlib.machinery.ModuleSpec(name, None, is_package=True) if folder else None
    monkeypatch.setattr(outlets.importlib.util, "find_spec", lambda _: found)
    with pytest.raises(ConfigurationError, match=rf"pip install 'farflung\[{name}\]'"):
        find(name)


def test_outlet_of_ones_own_is_found_by_its_path() -> None:
    """As an algorithm is."""
    assert find(f"{__name__}:Kept") is plugins.find(f"{__name__}:Kept")


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    """Put a module in the place of a package, until the test is over."""
    module = ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin="stand-in")
    vars(module).update(parts)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in of W&B that keeps what it is told."""
    told = SimpleNamespace(account=True, logged=[], defined=[], finished=False, url="", dir="d")
    told.log = told.logged.append
    told.define_metric = lambda *words, **more: told.defined.append((words, more))

    def init(**settings: Any) -> SimpleNamespace:
        told.settings = settings
        return told

    def finish() -> None:
        told.finished = True

    def login(*, prompt: bool) -> bool:
        assert not prompt
        return bool(told.account)

    told.finish = finish
    stand_in(monkeypatch, "wandb", init=init, login=login, Settings=dict)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.delitem(sys.modules, "farflung.learner.observe.wandb_outlet", raising=False)
    return told


def test_wandb_gets_the_run_and_its_figures(wandb: SimpleNamespace) -> None:
    """Over environment steps, in a run that `--resume` finds again, with nothing on the screen."""
    outlet = find("wandb")(FACTS)
    outlet.write(moment(40))
    outlet.close()
    told = wandb.settings
    assert (told["project"], told["id"], told["name"], told["resume"], told["dir"]) == (
        "farflung",
        "lake-1",
        "lake",
        "allow",
        "runs/lake",
    )
    assert told["config"] == FACTS.settings
    assert told["settings"] == {"console": "off", "silent": True}
    assert wandb.defined == [(("*",), {"step_metric": "time/total_timesteps"})]
    assert wandb.logged == [{"train/loss": 0.5, "time/total_timesteps": 40}]
    assert wandb.finished


def test_wandb_without_an_account_asks_nothing(
    wandb: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question at the terminal would hang behind the panel; offline needs no account."""
    wandb.account = False
    with pytest.raises(ConfigurationError, match=r"`wandb login`, or WANDB_MODE=offline"):
        find("wandb")(FACTS)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    find("wandb")(FACTS)
    assert wandb.settings["project"] == "mine"


class Server:
    """A stand-in of MLflow's client and server."""

    experiments: dict[str, str]
    runs: dict[str, Any]

    def get_experiment_by_name(self, name: str) -> Any:
        """Return an experiment, if it is there."""
        known = self.experiments.get(name)
        return SimpleNamespace(experiment_id=known) if known else None

    def create_experiment(self, name: str) -> str:
        """Make one."""
        return self.experiments.setdefault(name, f"e{len(self.experiments)}")

    def search_runs(self, experiments: list[str], condition: str) -> list[Any]:
        """Return the runs with this tag."""
        return [
            SimpleNamespace(info=SimpleNamespace(run_id=key))
            for key, run in self.runs.items()
            if condition == f"tags.`farflung.run` = '{run['tags']['farflung.run']}'"
        ]

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> Any:
        """Make one."""
        key = f"r{len(self.runs)}"
        self.runs[key] = {"name": run_name, "tags": tags, "metrics": [], "params": {}}
        self.update_run(key, "RUNNING")
        return SimpleNamespace(info=SimpleNamespace(run_id=key))

    def log_batch(self, run: str, metrics: Any = (), params: Any = ()) -> None:
        """Keep metrics and parameters."""
        assert len(params) <= 100
        self.runs[run]["metrics"] += metrics
        self.runs[run]["params"].update(params)

    def update_run(self, run: str, status: str) -> None:
        """Change its state."""
        self.runs[run]["status"] = status

    def set_terminated(self, run: str) -> None:
        """End it."""
        self.update_run(run, "FINISHED")


def test_mlflow_gets_the_run_and_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run goes on in the same one."""
    Server.experiments, Server.runs = {}, {}
    value: Callable[..., Any] = lambda *values: values  # noqa: E731
    stand_in(monkeypatch, "mlflow")
    stand_in(monkeypatch, "mlflow.entities", Metric=value, Param=value)
    stand_in(monkeypatch, "mlflow.tracking", MlflowClient=Server)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    monkeypatch.delitem(sys.modules, "farflung.learner.observe.mlflow_outlet", raising=False)
    for steps in (40, 80):
        outlet = find("mlflow")(FACTS)
        assert Server.runs["r0"]["status"] == "RUNNING"
        outlet.write(moment(steps))
        outlet.close()
    assert [*Server.experiments] == ["farflung"]
    assert Server.runs == {
        "r0": {
            "name": "lake",
            "tags": {"farflung.run": "lake-1"},
            "metrics": [
                ("train/loss", 0.5, 1_700_000_000_000, 40),
                ("train/loss", 0.5, 1_700_000_000_000, 80),
            ],
            "params": {"seed": "3", "dqn": "{'hidden': (32,)}"},
            "status": "FINISHED",
        }
    }
