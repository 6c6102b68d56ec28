"""Any input yields a value or one of our own errors.

The long form, guided by coverage, is `make fuzz`.
"""

import sys
from random import Random

import pytest
from fuzz import run
from fuzz.targets import TARGETS

ENOUGH, CONVERSATIONS = 60, 15  # a conversation has up to 24 inputs


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_decoder_takes_any_input(name: str) -> None:
    """Real inputs with a byte, a length or a part of their structure changed."""
    target, chance = TARGETS[name], Random(1)
    for data in target.seeds():
        for _ in range(CONVERSATIONS if name == "conversation" else ENOUGH):
            position = chance.randrange(len(data) + 1)
            changes = (
                bytes([chance.randrange(256)]) + data[position + 1 :],
                data[position + 1 :],
                b"",
                data[position:] + data[position:],
            )
            target.run(data[:position] + chance.choice(changes))
            target.run(target.changed(data, chance.getrandbits(32)))


def test_real_inputs_are_read() -> None:
    """The first seed of each is something that is really written, so that changes to it get far."""
    for target in TARGETS.values():
        target.decode(target.seeds()[0])


def test_name_of_no_target_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo would count as a decoder that is broken."""
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "parcel", "parcels"])
    with pytest.raises(SystemExit) as ended:
        run.main()
    assert ended.value.code == 2
    assert "no target is called parcels: there are" in capsys.readouterr().err
