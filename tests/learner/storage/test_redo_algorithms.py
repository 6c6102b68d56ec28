"""Each algorithm goes on after a kill with the same bits: replay, priorities, states, statistics.

The learner has two players in its thread, and is dropped like one that was killed with -9: what
remains is its journal and its last checkpoint. Versions after that are compared with those of a
learner that was never killed, with all that the algorithm trains and all that the replay knows.
In async mode there is no such learner: what is restored is compared with what was saved.
"""

from dataclasses import replace

import pytest
from support.killed import Epoch, bits_of, goes_on
from support.learners import a_config, a_run

from farflung.learner.algorithms.bc_settings import BCSettings
from farflung.learner.algorithms.continuous_settings import SACSettings, TD3Settings
from farflung.learner.algorithms.on_policy_settings import IMPALASettings, PPOSettings
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.config import LearnerConfig
from farflung.learner.schedule.schedule import PUBLISH
from farflung.learner.storage.restore import restore

pytestmark = pytest.mark.slow

ROUNDS = a_config(mode="sync", actors=2, round_steps=16, capacity=60, checkpoint_every=0.0)
NORMALISED = replace(ROUNDS, normalise_observations=True, normalise_rewards=True, clip_rewards=0.5)
PENDULUM = replace(NORMALISED, environment="Pendulum-v1")
ROLLOUTS = replace(
    ROUNDS,
    replay_ratio=LearnerConfig.replay_ratio,
    warmup=LearnerConfig.warmup,
    capacity=1000,
    normalise_observations=True,
)
SMALL = (4,)
APEX = DQNSettings(hidden=SMALL, dueling=True, prioritised=True, actor_priorities=True)
RAINBOW = replace(APEX, actor_priorities=False, noisy=True, distribution="categorical", atoms=5)
QUANTILES = DQNSettings(hidden=SMALL, noisy=True, distribution="quantile", atoms=5)
R2D2 = R2D2Settings(hidden=SMALL, units=3, burn_in=8, prioritised=True)
MEMORY = PPOSettings(hidden=SMALL, lstm=3, rollout=24, epochs=2)
IMPALA = IMPALASettings(hidden=SMALL, rollout=24)
LEARNERS = {
    "apex": replace(NORMALISED, settings=APEX),
    "rainbow": replace(ROUNDS, settings=RAINBOW),
    "quantiles": replace(ROUNDS, settings=QUANTILES),
    "munchausen": replace(ROUNDS, settings=DQNSettings(hidden=SMALL, munchausen=True, n_step=1)),
    "r2d2": replace(NORMALISED, algorithm="r2d2", settings=R2D2, batch_size=16),
    "ppo with a memory": replace(ROLLOUTS, algorithm="ppo", settings=MEMORY),
    "impala": replace(ROLLOUTS, algorithm="impala", settings=IMPALA),
    "sac": replace(PENDULUM, algorithm="sac", settings=SACSettings(hidden=SMALL)),
    "td3": replace(PENDULUM, algorithm="td3", settings=TD3Settings(hidden=SMALL)),
}
ACTIONS = 60
KILLED, SAVED = 41, 21  # after so many actions


def require_work(bits) -> None:
    """Require that versions differ: else nothing would have been compared."""
    assert len(bits) >= 4
    assert len({weights for weights, *_ in bits.values()}) >= 3


@pytest.mark.parametrize("name", LEARNERS)
def test_algorithm_goes_on_with_the_same_bits(tmp_path, caplog, name):
    """From a checkpoint in the middle of a round, and from the journal alone."""
    config = LEARNERS[name]
    expected = bits_of(config, tmp_path / "never", ACTIONS)
    require_work(expected)
    goes_on(config, tmp_path / "saved", expected, KILLED, SAVED)
    goes_on(config, tmp_path / "journal", expected, KILLED, None)
    assert "it has other rows" not in caplog.text


@pytest.mark.parametrize("name", LEARNERS)
def test_async_learner_is_restored_as_it_was_saved(tmp_path, name):
    """All that the algorithm trains, priorities, rows, statistics and counts have the same bits."""
    first = Epoch(a_run(tmp_path), replace(LEARNERS[name], mode="async", round_steps=0))
    while first.core.state.updates < 12 or first.endpoint.queue.parcels:
        first.act()
    first.loop.do(PUBLISH)  # the steps of a run are those of its newest version
    first.saver.finish()
    again, recovered = first.next()
    restore(again.run.folder, again.core, again.loop.extent, recovered)
    again.end()
    assert again.state() == first.state()


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("bc", BCSettings(hidden=SMALL)), ("dqn", DQNSettings(hidden=SMALL, prioritised=True))],
)
def test_demonstrations_go_on_with_the_same_bits(tmp_path, algorithm, settings):
    """Half of each batch, or all of it, is the journal of an earlier run."""
    shown = Epoch(a_run(tmp_path / "shown"), ROUNDS)
    while shown.core.state.steps < 60:
        shown.act()
    shown.end()
    config = replace(
        ROUNDS, algorithm=algorithm, settings=settings, demos=str(shown.run.folder), batch_size=8
    )
    expected = bits_of(config, tmp_path / "never", ACTIONS)
    require_work(expected)
    goes_on(config, tmp_path / "saved", expected, KILLED, SAVED)
