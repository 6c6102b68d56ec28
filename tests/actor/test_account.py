"""The line a minute in an actor's log, with numbers worked by hand."""

from farflung.actor.account import Account
from farflung.actor.connection.port import Work


def test_each_minute_is_counted_by_itself() -> None:
    """3,000 steps in 60 s are 50 a second; 15 s of waiting are a quarter."""
    account, work = Account(evaluates=False), Work()
    assert account.line(100.0, work, "1.0") == ""
    work.steps = 3000
    account.finished([10.0, 20.0])
    account.waited(15.0)
    assert account.line(159.9, work, "1.4") == ""
    assert account.line(160.0, work, "1.5") == (
        "collected 3,000 steps in the last minute (50 a second), 2 episodes, mean return 15.0; "
        "waited 25 % of the time; version 1.5"
    )
    work.steps = 3600
    assert account.line(160.1, work, "1.5") == ""
    assert account.line(220.0, work, "1.6") == (
        "collected 600 steps in the last minute (10 a second), 0 episodes; "
        "waited 0 % of the time; version 1.6"
    )


def test_an_evaluator_says_that_it_evaluates() -> None:
    """Its steps are not those of the run."""
    account = Account(evaluates=True)
    account.line(0.0, Work(), "-")
    account.waited(60.5)
    assert account.line(60.0, Work(), "-").startswith("evaluated 0 steps in the last minute")
