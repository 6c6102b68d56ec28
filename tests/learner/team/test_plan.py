"""The command lines of a team: each is one that its program accepts."""

from farflung.actor.config import ActorConfig
from farflung.broker.config import BrokerConfig
from farflung.common.net.address import Address
from farflung.common.process.config import load as load_any
from farflung.common.process.settings_file import resolved_toml
from farflung.learner.config import TEAM_SETTINGS, load
from farflung.learner.local.programs import program
from farflung.learner.team import plan
from farflung.learner.team.plan import Keys, Places

RED, BLUE = Address("127.0.0.1", 7001, 7002), Address("127.0.0.1", 7003, 7004)
PLACES = Places({"red": RED, "blue": BLUE}, Address("127.0.0.1", 7005, 7009))
WORDS = ["--env", "pursuit_v4", "--policies", "red=pursuer_0; blue=*", "--actors", "2"]
PROGRAM = len(program("learner"))


def a_team(folder, *words):
    """Return the configuration of a team, which is in its folder too."""
    loaded = load([*WORDS, *words])
    folder.mkdir(exist_ok=True)
    (folder / TEAM_SETTINGS).write_text(resolved_toml(loaded.config, loaded.origins))
    return loaded.config


def learner_of(command):
    """Return the configuration that a learner would make of its command line."""
    return load(list(command[PROGRAM - 1 :])).config


def test_each_learner_has_its_policy_folder_and_address(tmp_path):
    """Its settings are those of the team; it starts no actors, and no other one listens there."""
    config = a_team(tmp_path / "t", "--steps", "500", "--dqn.gamma", "0.9", "--bind", "127.0.0.2")
    commands = plan.learners(config, tmp_path / "t", PLACES)
    assert list(commands) == ["red", "blue"]
    red, blue = map(learner_of, commands.values())
    assert (red.policy, red.address, red.name) == ("red", RED, "red")
    assert (blue.policy, blue.address, blue.name) == ("blue", BLUE, "blue")
    for each in (red, blue):
        assert (each.actors, each.steps, each.settings.gamma) == (0, 500, 0.9)
        assert (each.policies, each.run_dir) == (config.policies, str(tmp_path / "t"))
        assert each.until_stdin_closes
        assert not each.is_team


def test_a_run_that_has_begun_is_continued_by_its_name(tmp_path):
    """Also one that has ended; a new one is continued by `auto` when it is started again."""
    folder = tmp_path / "t"
    config = a_team(folder)
    (folder / "red" / "journal").mkdir(parents=True)
    (folder / "red" / "journal" / "1.log").touch()
    red, blue = map(learner_of, plan.learners(config, folder, PLACES).values())
    assert (red.resume, blue.resume) == (str(folder / "red"), "auto")


def test_devices_are_dealt_out(tmp_path):
    """One each; a device that is named is for all."""
    config = a_team(tmp_path / "t")
    devices = [learner_of(c).device for c in plan.learners(config, tmp_path / "t", PLACES).values()]
    assert devices == ["auto:0", "auto:1"]
    config = a_team(tmp_path / "t", "--device", "cpu")
    assert "--device" not in plan.learners(config, tmp_path, PLACES)["red"]


def test_in_rounds_each_learner_waits_for_all_actors(tmp_path):
    """Those of the team play for each policy."""
    config = a_team(tmp_path / "t", "--mode", "sync")
    red, _ = map(learner_of, plan.learners(config, tmp_path / "t", PLACES).values())
    assert (red.mode, red.actors, red.round_actors) == ("sync", 0, 2)


def test_weights_of_another_team_are_taken_policy_by_policy(tmp_path):
    """From a run, all policies begin with the same."""
    a_team(tmp_path / "old")
    config = a_team(tmp_path / "t", "--init", str(tmp_path / "old"))
    red, blue = map(learner_of, plan.learners(config, tmp_path / "t", PLACES).values())
    assert (red.init, blue.init) == (str(tmp_path / "old/red"), str(tmp_path / "old/blue"))
    config = a_team(tmp_path / "t", "--init", str(tmp_path))
    assert "--init" not in plan.learners(config, tmp_path / "t", PLACES)["red"]


def test_actors_and_evaluator_are_behind_the_broker(tmp_path):
    """They join the first policy, and find the others at the same address."""
    config = a_team(tmp_path / "t", "--envs", "3", "--evaluate-episodes", "7")
    commands = plan.others(config, PLACES)
    assert list(commands) == ["broker", "local-0", "local-1", "evaluator"]
    words = list(commands["broker"][PROGRAM - 1 :])
    broker = load_any("broker", BrokerConfig, words).config
    assert broker.learners == (RED, BLUE)
    assert (broker.address, broker.until_stdin_closes) == (PLACES.broker, True)
    for name, environments in (("local-0", 3), ("evaluator", 7)):
        words = [word for word in commands[name][5:] if word != "--evaluate"]
        actor = load_any("actor", ActorConfig, words).config
        assert (actor.learner, actor.policy) == (PLACES.broker, "red")
        assert actor.environments == environments
    assert "--evaluate" in commands["evaluator"]
    assert list(plan.others(a_team(tmp_path / "t", "--evaluate-every", "0"), PLACES)) == [
        *("broker", "local-0", "local-1")
    ]


def test_with_keys_each_process_has_its_own(tmp_path):
    """Learners and broker that of a server, the broker also one to dial with, actors theirs."""
    config = a_team(tmp_path / "t", "--keys", "keys")
    keys = Keys("keys/actor.key", "keys/broker.key")
    commands = plan.others(config, PLACES, keys)
    words = commands["broker"]
    assert words[words.index("--keys") + 1] == "keys"
    assert words[words.index("--upstream-keys") + 1] == "keys/broker.key"
    assert commands["local-0"][commands["local-0"].index("--keys") + 1] == "keys/actor.key"
    red = learner_of(plan.learners(config, tmp_path / "t", PLACES)["red"])
    assert red.keys == "keys"
