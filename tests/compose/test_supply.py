"""The contents of images, and the rights of their processes: packages, secrets, users, places."""

import json
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
from support import layers, waiting

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
USER = "10001"
eventually = partial(waiting.eventually, within_s=90.0)  # a container takes longer than a process

INSTALLED = """
import pathlib
for pattern in ("*.dist-info/METADATA", "*.egg-info/PKG-INFO"):
    for path in pathlib.Path("/").glob("*/**/" + pattern):
        if "_vendor" not in path.parts and "proc" not in path.parts:
            lines = path.read_text().splitlines()
            fields = dict(line.split(": ", 1) for line in lines if ": " in line[:10])
            print(fields["Name"], fields["Version"])
"""
PLAIN = "import platform; print('python', platform.python_version())"
# Devices and /proc belong to the kernel: it decides there, for every user.
WRITABLE = (
    r"find / \( -path /proc -o -path /sys -o -path /dev \) -prune -o -writable ! -type l -print"
)
OF_PROCESSES = "cat /proc/[0-9]*/status"


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("variable", ["ACTOR_IMAGE", "LEARNER_IMAGE"])
def test_bill_lists_exactly_what_is_installed(engine, images, variable):
    """Python itself, its packages wherever they are, and those of Debian."""
    run = partial(engine.once, images[variable])
    bill = json.loads(run("/farflung/sbom.cdx.json", program="cat"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {
        (re.split("[:/]", each["purl"])[1], each["name"], each["version"])
        for each in [*bill["components"], bill["metadata"]["component"]]
    }
    there = {("generic", *run("-c", PLAIN, program="python").split())}
    for line in run("-c", INSTALLED, program="python").splitlines():
        name, version = line.split(" ", 1)
        there.add(("pypi", canonical(name), version))
    debian = "-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n"
    for line in run(*debian, program="dpkg-query").splitlines():
        status, name, version = line.split(" ")
        there |= {("deb", name, version)} if status == "installed" else set()
    assert len(there) > 80
    assert listed == there


@pytest.mark.parametrize(
    ("variable", "lists"), [("ACTOR_IMAGE", ["actor"]), ("LEARNER_IMAGE", ["actor", "learner"])]
)
def test_environment_holds_only_what_has_a_hash(engine, images, variable, lists):
    """The packages beside our code are those of the lists, in their versions."""
    found = engine.once(images[variable], "/farflung/sbom.cdx.json", program="cat")
    ours = {
        f"{each['name']}=={each['version']}"
        for each in json.loads(found)["components"]
        if "/farflung/" in json.dumps(each.get("evidence", ""))
    }
    texts = [(ROOT / f"deploy/pins/{name}.txt").read_text() for name in lists]
    assert ours == {each for text in texts for each in re.findall(r"^\S+==\S+", text, re.MULTILINE)}


def test_images_hold_no_secret_in_any_layer(images, planted):
    """Secrets in the folder stay out, also of layers that later ones cover, and of the history."""
    command = ["docker", "save", *images.values()]  # layers of both are there once
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saved:
        assert saved.stdout is not None
        assert list(layers.secrets(saved.stdout, planted.encode())) == []
    assert saved.returncode == 0


@pytest.mark.parametrize("variable", ["ACTOR_IMAGE", "LEARNER_IMAGE"])
def test_the_user_of_an_image_owns_only_places_for_data(engine, images, variable):
    """Even on a writable root it could change neither our code nor Python nor the bill."""
    words = "run", "--rm", "--network", "none", "--cap-drop", "ALL", "--entrypoint", "sh"
    found = engine("docker", *words, images[variable], "-c", WRITABLE, check=False).stdout
    assert set(found.split()) == {
        "/actor-keys",
        "/keys",
        "/receipts",
        "/run/lock",
        "/runs",
        "/tmp",
        "/var/tmp",
    }


def fields(status):
    """Return the values of each field of /proc/PID/status, over all processes."""
    found = {}
    for name, value in re.findall(r"^(\w+):\t(.*)$", status, re.MULTILINE):
        found.setdefault(name, set()).add(value)
    return found


def test_no_process_of_a_service_is_root_or_can_become_it(services, engine, images):
    """No capability, no new privileges, a root that is read-only, and few places to write."""
    compose = services(
        FARFLUNG_ACTOR_ADDRESS="broker", FARFLUNG_LEARNER_UNTIL="", FARFLUNG_LEARNER_STEPS="0"
    )
    compose("--profile", "broker", "up", "-d", "--scale", "actor=1")
    eventually(lambda: compose.status().get("updates", 0) > 0, "training through the broker")
    for service in ("learner", "actor", "broker"):
        container = compose.container(service)
        known = fields(engine.inside(container, "sh", "-c", OF_PROCESSES, check=False))
        assert {"docker-init", service, "sh"} & known["Name"]
        assert known["Uid"] == known["Gid"] == {"\t".join([USER] * 4)}, service
        assert known["NoNewPrivs"] == {"1"}, service
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert known[kind] == {"0" * 16}, (service, kind)
        found = engine.inside(container, "sh", "-c", WRITABLE, check=False).split()
        outside = {path for path in found if not re.match("/(tmp|runs)(/|$)", path)}
        assert not outside, service
        assert {"/tmp"} <= set(found), service
        assert ("/runs" in found) == (service == "learner")
        root = engine.inside(container, "sh", "-c", "grep ' / / ' /proc/self/mountinfo")
        assert " ro," in root
    keys = compose.containers("keys")
    for container in keys:  # it has ended
        how = engine.inspect(container)
        assert how["State"]["ExitCode"] == 0
        assert how["Config"]["User"] in ("farflung", USER)
        assert how["HostConfig"]["CapDrop"] == ["ALL"]
        assert how["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]
        assert how["HostConfig"]["ReadonlyRootfs"]
        assert how["HostConfig"]["NetworkMode"] == "none"
    assert keys
    compose("--profile", "broker", "stop")
