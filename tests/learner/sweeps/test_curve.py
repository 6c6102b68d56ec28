"""The objective of a trial over its steps."""

from support.runs import point

from farflung.learner.sweeps.curve import EVALUATION, Curve, Take, judged, marks, taken

POINTS = [(120, 5.0), (180, 9.0), (250, 7.0), (610, 3.0)]


def test_figure_that_counts():
    """By hand: best 9 or, minimised, 3; last 3; mean (5 + 9 + 7 + 3) / 4."""
    assert taken(POINTS, Take.BEST, maximize=True) == 9.0
    assert taken(POINTS, Take.BEST, maximize=False) == 3.0
    assert taken(POINTS, Take.LAST, maximize=True) == 3.0
    assert taken(POINTS, Take.MEAN, maximize=True) == 6.0
    assert taken([], Take.BEST, maximize=True) is None


def test_marks_are_the_first_figure_from_each_multiple_on():
    """180 belongs to mark 1, which 120 has; at 610 the marks 3 to 5 were passed over."""
    assert marks(POINTS, 100) == {1: 5.0, 2: 7.0, 6: 3.0}
    assert marks([(99, 1.0)], 100) == {}


def test_trial_is_judged_by_the_mean_of_its_last_figures():
    """By hand: (5 + 7 + 3) / 3 at mark 6; of two, (5 + 7) / 2 at mark 2 and (7 + 3) / 2 at 6."""
    assert judged(POINTS, 100, 3) == {6: 5.0}
    assert judged(POINTS, 100, 2) == {2: 6.0, 6: 5.0}
    assert judged(POINTS, 100, 1) == marks(POINTS, 100)
    assert judged(POINTS, 100, 4) == {}


def test_steps_that_go_back_report_no_mark_twice():
    """A learner that lost its last steps passes marks again after a restart."""
    assert marks([(100, 1.0), (200, 2.0), (150, 9.0), (210, 9.0), (300, 3.0)], 100) == {
        1: 1.0,
        2: 2.0,
        3: 3.0,
    }


def test_curve_follows_a_file_that_grows(tmp_path):
    """A torn line counts once it is whole, and no line counts twice."""
    curve = Curve(tmp_path, EVALUATION)
    curve.follow()
    assert curve.points == []
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"time/total_timesteps": 10.0, "eval/mean_reward": 1.5}\n{"time/total_t')
    curve.follow()
    assert (curve.points, curve.steps) == ([(10, 1.5)], 10)
    with file.open("a") as more:
        more.write('imesteps": 20.0}\n\nnonsense\n{"eval/mean_reward": 2.5}\n')
    curve.follow()
    curve.follow()
    assert (curve.points, curve.steps) == ([(10, 1.5), (20, 2.5)], 20)
    assert point(1, 2.0)[EVALUATION] == 2.0
