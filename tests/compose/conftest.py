"""Images and services in a real engine: built once from a clone of the commit, then removed."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOOK_S = 0.5


class Engine:
    """Runs the engine's commands."""

    def __call__(
        self, *words: object, timeout_s: float = 60.0, check: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its output is in the error if it fails."""
        ended = subprocess.run(
            [str(word) for word in words],
            text=True,
            capture_output=True,
            timeout=timeout_s,
            **options,
        )
        assert not check or ended.returncode == 0, (
            f"{words}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}"
        )
        return ended

    def inspect(self, thing: str) -> dict[str, Any]:
        """Return everything known of a container or an image."""
        [found] = json.loads(self("docker", "inspect", thing).stdout)
        return dict(found)

    def inside(self, container: str, *words: object, check: bool = True) -> str:
        """Return the output of a command in a running container."""
        return self("docker", "exec", container, *words, check=check).stdout

    def once(
        self,
        image: str,
        *words: object,
        mount: tuple[str, ...] = (),
        program: str = "sh",
        check: bool = True,
    ) -> str:
        """Return the output of a program in a container of its own, restricted as services are."""
        limits = (
            "--rm",
            "--read-only",
            "--network",
            "none",
            "--cap-drop",
            "ALL",
            "--tmpfs",
            "/tmp",
        )
        mounts = [word for each in mount for word in ("-v", each)]
        return self(
            "docker", "run", *limits, *mounts, "--entrypoint", program, image, *words, check=check
        ).stdout

    def stop_everything_in(self, container: str, signal: str) -> None:
        """Send a signal to every process but the first, as the kernel does out of memory."""
        self.inside(container, "sh", "-c", f"kill -{signal} -1", check=False)


class Services:
    """The services of docker-compose.yml under a project name of their own."""

    def __init__(
        self,
        engine: Engine,
        clone: Path,
        name: str,
        settings: Mapping[str, str],
        override: Path | None,
    ) -> None:
        self.name = name
        self._engine, self._clone, self._settings = engine, clone, dict(settings)
        files = ["docker-compose.yml", *([str(override)] if override else [])]
        self._words = [
            "docker-compose",
            "-p",
            name,
            *(word for file in files for word in ("-f", file)),
        ]

    def __call__(
        self, *words: object, timeout_s: float = 120.0, check: bool = True, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of docker-compose."""
        variables = os.environ | self._settings | settings
        return self._engine(
            *self._words, *words, timeout_s=timeout_s, check=check, cwd=self._clone, env=variables
        )

    def containers(self, service: str) -> list[str]:
        """Return the containers of a service by id, running or not."""
        return self("ps", "-aq", service).stdout.split()

    def container(self, service: str) -> str:
        """Return the only container of a service."""
        [container] = self.containers(service)
        return container

    def state(self, container: str) -> dict[str, Any]:
        """Return a container's state: Status, ExitCode, Health and more."""
        return dict(self._engine.inspect(container)["State"])

    def health(self, service: str) -> str:
        """Return the result of a service's healthcheck."""
        return str(self.state(self.container(service))["Health"]["Status"])

    def status(self) -> dict[str, Any]:
        """Return the learner's status; empty while it has none."""
        said = self._engine.inside(
            self.container("learner"), "learner", "status", "--keys", "/keys", "--json", check=False
        )
        return dict(json.loads(said)) if said.startswith("{") else {}

    def exit_codes(self) -> dict[str, int]:
        """Return the exit codes by container; empty while one runs."""
        found = [self._engine.inspect(container) for container in self("ps", "-aq").stdout.split()]
        if any(each["State"]["Status"] != "exited" for each in found):
            return {}
        return {each["Name"]: each["State"]["ExitCode"] for each in found}

    def runs(self) -> list[str]:
        """Return the folders of all runs by name, which has the time in it."""
        image = self._settings["ACTOR_IMAGE"]
        return self._engine.once(
            image, "/runs", program="ls", mount=(f"{self.name}_runs:/runs:ro",)
        ).split()

    def remove(self) -> None:
        """Remove containers, networks and volumes."""
        self("--profile", "broker", "down", "-v", "--remove-orphans", "-t", "3", check=False)


@pytest.fixture(scope="session")
def engine() -> Engine:
    """A Docker engine that answers, with docker-compose."""
    missing = [
        program for program in ("docker", "docker-compose", "git") if shutil.which(program) is None
    ]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    engine = Engine()
    if engine("docker", "info", check=False).returncode:
        pytest.skip("no Docker engine answers `docker info`")
    return engine


@pytest.fixture(scope="session")
def planted() -> str:
    """A secret that no image may hold."""
    return "a-secret-that-lies-about-in-a-folder"


@pytest.fixture(scope="session")
def clone(engine: Engine, planted: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone of the commit, with secrets and runs as in a folder at work."""
    folder = tmp_path_factory.mktemp("clone") / "farflung"
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is nothing to clone")
    engine("git", "clone", "--quiet", ROOT, folder)
    for place in ("keys/server.key", "learner/actor.key", "runs/one/run.json", ".env.local"):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(planted)
    return folder


@pytest.fixture(scope="session")
def images(engine: Engine, clone: Path) -> dict[str, str]:
    """Both images, by the variables that name them in docker-compose.yml."""
    names = {
        "ACTOR_IMAGE": "farflung-test-actor",
        "LEARNER_IMAGE": "farflung-test-learner",
    }
    engine("docker-compose", "build", timeout_s=900, cwd=clone, env=os.environ | names)
    return names


@pytest.fixture
def services(
    engine: Engine,
    clone: Path,
    images: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> Iterator[Callable[..., Services]]:
    """Makes services from a second file's text and from settings."""
    made: list[Services] = []

    def make(override: str = "", **settings: str) -> Services:
        path = tmp_path / "override.yml"
        path.write_text(override)
        name = f"farflung-{os.getpid()}-{len(made)}-{request.node.name.replace('_', '-')[:30]}"
        made.append(Services(engine, clone, name, images | settings, path if override else None))
        return made[-1]

    yield make
    for each in made:
        each.remove()
