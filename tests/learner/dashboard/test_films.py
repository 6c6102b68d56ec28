"""Videos of evaluations: listed with their figures, played in ranges, and never another file."""

import json
from pathlib import Path

import pytest
from support.dashboards import served
from support.runs import a_run, point

from farflung.learner.dashboard.films import FILMS, film, films_of
from farflung.learner.dashboard.folders import Folders
from farflung.learner.dashboard.library import Library
from farflung.learner.policies import report

BYTES = bytes(range(256)) * 40


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with a video, and a file beside the folder."""
    folder = a_run(tmp_path / "runs", "red", point(10, 5.0)).folder
    (folder / "best.mp4").write_bytes(BYTES)
    (tmp_path / "runs/secret.mp4").write_bytes(b"secret")
    return Path(folder)


def test_video_is_listed_with_the_figures_of_its_evaluation(run: Path) -> None:
    """`learner evaluate` wrote them beside it; one without them has nulls."""
    document = {"version": "1.7", "steps": 500, "mean": 9.5, "episodes": 10, "checkpoint": "best"}
    report.keep_beside(run / "best.mp4", run, {**document, "returns": [1.0] * 10})
    (run / "videos").mkdir()
    (run / "videos/later.webm").write_bytes(b"x")
    found = {each["name"]: each for each in films_of(run)}
    assert found.keys() == {"best.mp4", "videos/later.webm"}
    assert document.items() <= found["best.mp4"].items()
    assert found["best.mp4"]["bytes"] == len(BYTES)
    assert found["videos/later.webm"]["mean"] is None


def test_figures_of_a_video_elsewhere_are_left_to_its_owner(run: Path, tmp_path: Path) -> None:
    """Beside a video outside of the run's folder nothing is written."""
    report.keep_beside(tmp_path / "runs/secret.mp4", run, {"mean": 1.0})
    report.keep_beside(run / "none.mp4", run, {"mean": 1.0})
    assert list(run.parent.rglob("*.mp4.json")) == []


def test_links_drafts_and_folders_are_no_videos(run: Path) -> None:
    """A link could lead anywhere; a draft begins with a dot."""
    (run / "out.mp4").symlink_to(run.parent / "secret.mp4")
    (run / "videos").symlink_to(run.parent)
    (run / "folder.mp4").mkdir()
    (run / ".best.mp4").write_bytes(b"x")
    (run / "best.mp4.json").symlink_to(run.parent / "secret.mp4")
    assert [each["name"] for each in films_of(run)] == ["best.mp4"]
    for name in ("out.mp4", "videos/secret.mp4", "../secret.mp4", "/etc/passwd", "", "config.toml"):
        assert film(run, name) is None, name


@pytest.mark.parametrize(
    "figures", ["no JSON", "[" * 100_000, "[1]", '{"mean": {"x": 1}, "steps": [1]}', "\xff"]
)
def test_odd_figures_are_none(run: Path, figures: str) -> None:
    """The video is listed without them."""
    (run / "best.mp4.json").write_bytes(figures.encode("latin-1"))
    [found] = films_of(run)
    assert (found["mean"], found["steps"]) == (None, None)


def test_number_of_videos_is_bounded(run: Path) -> None:
    """The newest are listed."""
    for number in range(FILMS + 5):
        (run / f"{number}.mp4").write_bytes(b"x")
    assert len(films_of(run)) == FILMS


def test_video_is_served_in_ranges_and_no_other_file_is(run: Path, tmp_path: Path) -> None:
    """As players ask for it: the whole, a part, the end; a path out of the folder is not there."""
    library = Library()
    Folders([tmp_path / "runs"], library, pytest.fail).look()
    [known] = library.all()
    (run / "best.mp4.json").write_text(json.dumps({"mean": 3.0}))
    with served(library) as dashboard:
        where = f"/api/runs/{known.key}"
        [video] = dashboard.ask(f"{where}/evaluations").document["videos"]
        assert (video["name"], video["mean"]) == ("best.mp4", 3.0)
        whole = dashboard.ask(f"{where}/videos/best.mp4")
        assert (whole.code, whole.body) == (200, BYTES)
        assert (whole.headers["content-type"], whole.headers["accept-ranges"]) == (
            "video/mp4",
            "bytes",
        )
        part = dashboard.ask(f"{where}/videos/best.mp4", range="bytes=100-199")
        assert (part.code, part.body) == (206, BYTES[100:200])
        assert part.headers["content-range"] == f"bytes 100-199/{len(BYTES)}"
        assert dashboard.ask(f"{where}/videos/best.mp4", range="bytes=-5").body == BYTES[-5:]
        assert dashboard.ask(f"{where}/videos/best.mp4", range="bytes=99999-").code == 416
        for name in (
            *("../secret.mp4", "%2e%2e/secret.mp4", "..%2fsecret.mp4", "config.toml"),
            *("//etc/passwd", "videos/../../secret.mp4", "best.mp4%00", "best.mp4/"),
        ):
            answer = dashboard.ask(f"{where}/videos/{name}")
            assert answer.code == 404, name
            assert b"secret" not in answer.body
