"""The two images: their content and their size."""

import pytest

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(1000)]

MB = 1e6
MAX_ACTOR_MB = 450


WHEELS = """
import configparser, pathlib
settings = configparser.ConfigParser()
settings.read("/etc/pip.conf")
folder = pathlib.Path(settings.get("global", "find-links", fallback="/nowhere"))
print(sum(wheel.stat().st_size for wheel in folder.glob("*.whl")))"""


def size_mb(engine, image):
    """Return the size of an image, and of the wheels that a test's base image brings along."""
    return engine.inspect(image)["Size"] / MB, int(
        engine.once(image, "-c", WHEELS, program="python")
    ) / MB


def test_actor_image_is_small(engine, images, capsys):
    """At most 450 MB with the base; wheels of a test's base image do not count and are printed."""
    sizes = {image: size_mb(engine, image) for image in images.values()}
    with capsys.disabled():
        for image, (whole, wheels) in sizes.items():
            print(
                f"\n{image}: {whole - wheels:.0f} MB"
                + (f" and {wheels:.0f} MB of wheels in the base" if wheels else ""),
                end="",
            )
        print()
    whole, wheels = sizes[images["ACTOR_IMAGE"]]
    assert whole - wheels <= MAX_ACTOR_MB


def test_actor_image_has_no_torch(engine, images):
    """The actor acts by the learner's graph; the learner's image has torch."""
    for name, there in (("ACTOR", False), ("LEARNER", True)):
        code = "import importlib.util as u; print(u.find_spec('torch') is not None)"
        assert engine.once(images[f"{name}_IMAGE"], "-c", code, program="python").strip() == str(
            there
        )


def test_images_bring_no_keys_and_no_runs(engine, images):
    """Folders for them are there, and empty."""
    for image in images.values():
        assert engine.once(image, "-c", "ls -A /keys /actor-keys /runs /receipts") == (
            "/actor-keys:\n\n/keys:\n\n/receipts:\n\n/runs:\n"
        )


def test_images_run_their_program_without_root(engine, images):
    """In the exec form, so that signals reach it, and with a healthcheck of its progress."""
    for name, program in (("ACTOR", "actor"), ("LEARNER", "learner")):
        settings = engine.inspect(images[f"{name}_IMAGE"])["Config"]
        assert settings["Entrypoint"] == [program]
        assert settings["Healthcheck"]["Test"][0] in ("CMD", "CMD-SHELL")
        assert engine.once(images[f"{name}_IMAGE"], "-u", program="id").strip() == "10001"


def test_images_hold_bytecode_of_every_module(engine, images):
    """Images are read-only: a module without bytecode would be compiled at each start."""
    code = """
import importlib.util, pathlib, sys
import farflung.actor.loop, farflung.learner.cli.commands, farflung.broker.relay_loop
import gymnasium, onnxruntime
missing = [m.__file__ for m in list(sys.modules.values())
           if getattr(m, "__file__", None) and m.__file__.endswith(".py")
           and not pathlib.Path(importlib.util.cache_from_source(m.__file__)).exists()]
print(missing)"""
    assert engine.once(images["ACTOR_IMAGE"], "-c", code, program="python").strip() == "[]"
