"""Key files: made once, read by their owner alone, refused in a sentence when malformed."""

import os
import stat

import pytest

from farflung.common.net import keys
from farflung.common.net.address import parse_address
from farflung.common.net.keys import Client
from farflung.common.process.errors import ConfigurationError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_make_writes_keys_of_a_server_and_its_first_actor(keys_folder):
    """The actor's file has the server's public key, and its own is listed, under any umask."""
    server, actor = keys.server_keys(keys_folder), keys.client_keys(keys_folder / "actor.key")
    assert actor.server == server.public
    assert keys.allowed_client(keys_folder / "allowed/actor.pub") == (
        actor.public.decode(),
        Client("actor", "actor"),
    )
    assert [
        mode(path) for path in (keys_folder, keys_folder / "server.key", keys_folder / "actor.key")
    ] == [
        0o700,
        0o600,
        0o600,
    ]
    assert sorted(path.name for path in keys_folder.rglob("*")) == [
        "actor.key",
        "actor.pub",
        "allowed",
        "server.key",
    ]


def test_make_keeps_existing_keys(keys_folder):
    """A second run changes no file, and says so."""
    before = {path: path.read_bytes() for path in keys_folder.rglob("*") if path.is_file()}
    assert all("kept" in sentence for sentence in keys.make(keys_folder))
    assert {path: path.read_bytes() for path in keys_folder.rglob("*") if path.is_file()} == before


def test_make_adds_a_client_and_allows_a_revoked_one_only_by_name(
    keys_folder,
):
    """`--add robot` allows robot again after its `.pub` was removed; a plain run does not."""
    keys.make(keys_folder, "relay", "broker")
    assert keys.client_keys(keys_folder / "relay.key").client == Client("relay", "broker")
    listed = keys_folder / "allowed/relay.pub"
    before = listed.read_text()
    listed.unlink()
    keys.make(keys_folder)
    assert not listed.exists()
    assert "again" in keys.make(keys_folder, "relay")[-1]
    assert listed.read_text() == before
    (keys_folder / "allowed/actor.pub").unlink()
    assert "not allowed" in keys.make(keys_folder)[1]
    assert not (keys_folder / "allowed/actor.pub").exists()


def test_make_does_not_replace_a_key_that_was_moved_away(keys_folder):
    """Its owner is still allowed."""
    (keys_folder / "actor.key").unlink()
    assert "elsewhere" in keys.make(keys_folder)[-1]
    assert not (keys_folder / "actor.key").exists()


@pytest.mark.parametrize("name", ["server.key", "actor.key"])
@pytest.mark.parametrize("wide", [0o640, 0o604, 0o620, 0o601])
def test_secret_that_others_can_read_is_refused(keys_folder, name, wide):
    """With the command that cures it."""
    (keys_folder / name).chmod(wide)
    with pytest.raises(ConfigurationError, match=f"chmod 600 .*{name}"):
        keys.server_keys(keys_folder) if name == "server.key" else keys.client_keys(
            keys_folder / name
        )


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a pipe"),
        (os.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.write_bytes(b"#" * (1 << 20)), "more than 65,536 bytes"),
    ],
)
def test_key_that_is_no_small_file_is_refused_at_once(tmp_path, make, kind):
    """Opening a pipe would wait for ever, and a device has no end."""
    path = tmp_path / "odd.key"
    make(path)
    with pytest.raises(ConfigurationError, match=f"odd.key is no key file: .*{kind}"):
        keys.allowed_client(path)


def test_secret_of_root_may_be_readable_by_a_group(keys_folder, monkeypatch):
    """A cluster hands secrets over as root's files, to processes that are not root."""
    (keys_folder / "actor.key").chmod(0o640)
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of root's")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert keys.client_keys(keys_folder / "actor.key").client.label == "actor"
    (keys_folder / "actor.key").chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        keys.client_keys(keys_folder / "actor.key")


def test_printed_keys_show_no_secret(keys_folder):
    """A traceback or a log line shows the object, not the key."""
    server, actor = keys.server_keys(keys_folder), keys.client_keys(keys_folder)
    for held in (server, actor):
        assert held.secret.decode() not in repr(held) + str(held)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is no label"),
        ('label = "a/b"\nrole = "actor"\n', "is no label"),
        ('label = "server"\nrole = "actor"\n', "server's own"),
        ('label = "a"\nrole = "king"\n', "is no role"),
        ('label = "a"\nrole = "actor"\npublic = "short"\n', "no valid public key"),
        (
            f'label = "a"\nrole = "actor"\npublic = "{"#" * 40}"\n',
            "no valid public key",
        ),  # as a number it is too large
        (f'label = "a"\nrole = "actor"\npublic = "{"é" * 40}"\n', "no valid public key"),
        ("label = ", "is no key file"),
    ],
)
def test_malformed_key_file_is_refused(tmp_path, text, sentence):
    """Each with what is wrong."""
    path = tmp_path / "a.pub"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=sentence):
        keys.allowed_client(path)


def test_allowed_file_must_bear_the_name_of_its_label(keys_folder):
    """Else removing `robot.pub` would not revoke robot."""
    (keys_folder / "allowed/actor.pub").rename(keys_folder / "allowed/robot.pub")
    with pytest.raises(ConfigurationError, match=r"actor\.pub"):
        keys.allowed_client(keys_folder / "allowed/robot.pub")


def test_missing_key_folder_is_refused_with_the_command_that_makes_it(tmp_path):
    """In the sentence that refuses it."""
    with pytest.raises(ConfigurationError, match="learner keys"):
        keys.server_keys(tmp_path / "none")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        keys.client_keys(tmp_path / "none.key")


def test_actor_name_begins_with_the_label_of_its_key(keys_folder):
    """One without a label gets it, one with another is refused."""
    own = keys.client_keys(keys_folder)
    assert keys.full_name(own, "box-1") == keys.full_name(own, "actor/box-1") == "actor/box-1"
    assert keys.full_name(None, "box-1") == "box-1"
    with pytest.raises(ConfigurationError, match="begin with actor/"):
        keys.full_name(own, "robot/box-1")


def test_broker_key_covers_all_names_and_an_actor_key_its_own():
    """`act/` is not the beginning of `actor/`."""
    assert Client("edge", "broker").may_speak_for("actor/box-1")
    assert Client("actor", "actor").may_speak_for("actor/box-1")
    assert not any(
        Client("actor", "actor").may_speak_for(name)
        for name in ("act/box", "actor", "actor-2/box", "box", "")
    )


def test_default_key_file_is_used_beyond_loopback_only(keys_folder, monkeypatch):
    """On loopback a learner usually has no keys; what is named counts everywhere."""
    home = keys_folder.parent
    monkeypatch.setenv("HOME", str(home))
    assert keys.client_keys_for(parse_address("gpu-box"), "") is None
    (home / ".config/farflung").mkdir(parents=True)
    (keys_folder / "actor.key").rename(home / ".config/farflung/actor.key")
    found = keys.client_keys_for(parse_address("gpu-box"), "")
    assert found is not None
    assert found.path == home / ".config/farflung/actor.key"
    assert keys.client_keys_for(parse_address("localhost"), "") is None
    assert keys.client_keys_for(parse_address("localhost"), "~/.config/farflung/actor.key") == found
