"""The files for other machines: they follow their schemas, and each flag in them exists."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from farflung.actor.config import ActorConfig
from farflung.broker.config import BrokerConfig
from farflung.common.process import config
from farflung.common.process.settings_file import resolved_toml
from farflung.learner.cli import commands
from farflung.learner.config import LearnerConfig, load

ROOT = Path(__file__).parents[1]
KUBERNETES = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
SLURM = sorted((ROOT / "deploy/slurm").glob("*.sbatch"))
ENVIRONMENT = ROOT / "deploy/environment.sh"
USER = 10001


def objects(*kinds: str) -> list[dict[str, Any]]:
    """Return every Kubernetes object, or those of some kinds."""
    found = [each for path in KUBERNETES for each in yaml.safe_load_all(path.read_text())]
    return [each for each in found if not kinds or each["kind"] in kinds]


def pods() -> list[dict[str, Any]]:
    """Return everything that runs, as pods."""
    return [each["spec"]["template"]["spec"] for each in objects("StatefulSet", "Deployment")]


def compose() -> dict[str, dict[str, Any]]:
    """Return the services of Compose."""
    return dict(yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"])


def check_words(program: str, words: list[str]) -> None:
    """Require that a program understands these arguments."""
    if program == "learner" and words[:1] == ["status"]:
        assert {word for word in words if word.startswith("--")} <= {
            f"--{name.replace('_', '-')}" for name in commands.status.__kwdefaults__ or ()
        }
    elif program == "learner":
        load([word for word in words if word not in ("--keys", "/keys", "keys")] + ["--insecure"])
    elif program == "actor":
        config.load("actor", ActorConfig, words)
    else:
        config.load("broker", BrokerConfig, words)


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
@pytest.mark.parametrize("version", ["1.29", "1.33"])
def test_kubernetes_objects_follow_the_schema(path: Path, version: str) -> None:
    """No unknown field, none of the wrong type."""
    for each in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(each, version, strict=True)


def test_misspelt_field_of_kubernetes_is_found() -> None:
    """The check above can fail."""
    [service] = [each for each in objects("Service") if each["metadata"]["name"] == "learner"]
    service["spec"]["selectors"] = service["spec"].pop("selector")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, "1.33", strict=True)


@pytest.mark.parametrize("pod", pods(), ids=lambda pod: pod["containers"][0]["name"])
def test_pods_are_restricted(pod: dict[str, Any]) -> None:
    """No root, writable volumes only, no capability, no token, bounded memory, private secrets."""
    [container] = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (
        True,
        USER,
    )
    own = container["securityContext"]
    assert (
        own["allowPrivilegeEscalation"],
        own["readOnlyRootFilesystem"],
        own["capabilities"],
    ) == (False, True, {"drop": ["ALL"]})
    assert container["resources"]["limits"]["memory"]
    assert container["readinessProbe"]
    for volume in pod["volumes"]:
        secret = volume.get("secret") or volume.get("projected")
        assert secret is None or secret["defaultMode"] == 0o440
    assert ("server.key" in str(pod["volumes"])) == (container["name"] != "actor")


@pytest.mark.parametrize("pod", pods(), ids=lambda pod: pod["containers"][0]["name"])
def test_pods_have_arguments_that_parse(pod: dict[str, Any]) -> None:
    """Arguments and probes name flags that exist."""
    [container] = pod["containers"]
    check_words((container.get("command") or [container["name"]])[0], container["args"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        words = container.get(probe, {}).get("exec", {}).get("command", ["sh"])
        if words[0] != "sh":
            check_words(words[0], words[1:])


def test_selectors_find_their_pods() -> None:
    """Each service and each policy is for existing pods."""
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in objects("StatefulSet", "Deployment")
    ]
    for each in objects("Service"):
        assert each["spec"]["selector"] in labels
    for each in objects("NetworkPolicy"):
        assert each["spec"]["podSelector"]["matchLabels"] in labels


def test_compose_files_suit_both_programs() -> None:
    """docker-compose 1.29 refuses a top-level name, and `docker compose` warns about a version."""
    for name in ("docker-compose.yml", "docker-compose.gpu.yml"):
        top = yaml.safe_load((ROOT / name).read_text())
        assert {key for key in top if not key.startswith("x-")} <= {"services", "volumes"}


@pytest.mark.parametrize("name", ["keys", "learner", "actor", "broker"])
def test_services_are_restricted(name: str) -> None:
    """No port is open to other machines unless a user adds one."""
    service = compose()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert (service["ipc"], service["shm_size"], service["restart"], service["init"]) == (
        "private",
        "1m",
        "on-failure",
        True,
    )
    assert service["mem_limit"]
    assert "ports" not in service
    assert name != "actor" or service["volumes"] == ["actor-keys:/keys:ro"]


@pytest.mark.parametrize("name", ["learner", "actor", "broker"])
def test_services_have_commands_that_parse(name: str) -> None:
    """Their variables exist as well."""
    service = compose()[name]
    check_words(service.get("entrypoint", [name])[0], service["command"])
    config_class = {"learner": LearnerConfig, "actor": ActorConfig, "broker": BrokerConfig}[name]
    keys = re.findall(r"^(?:# )?([\w-]+) (?:=|is)", resolved_toml(config_class(), {}), re.MULTILINE)
    assert set(service.get("environment", ())) <= {config.variable(name, key) for key in keys}
    if "healthcheck" in service:
        check_words("learner", service["healthcheck"]["test"][2:])


@pytest.mark.parametrize("path", [*SLURM, ENVIRONMENT], ids=lambda path: path.name)
def test_shell_scripts_pass_bash_and_shellcheck(path: Path) -> None:
    """Bash understands them, and shellcheck has nothing to say."""
    checker = Path(sys.executable).parent / "shellcheck"
    for command in (["bash", "-n"], [str(checker)]):
        ended = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("path", SLURM, ids=lambda path: path.name)
def test_slurm_steps_have_arguments_that_parse(path: Path) -> None:
    """The command after `srun` parses."""
    text = path.read_text().replace("\\\n", "")
    [step] = re.findall(r"^exec srun (.*)$", text, re.MULTILINE)
    for written, meant in (
        (' "$@"', ""),
        ('"${host:?job $job does not run}:$port"', "node-1:5555"),
        ('"$feed_port"', "5556"),
    ):
        step = step.replace(written, meant)
    program, *words = shlex.split(step)
    check_words(program, words)
