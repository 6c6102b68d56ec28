"""The search for secrets in an image finds each kind of them, in any layer."""

import io
import tarfile

import pytest
from support import layers

PLANTED = b"planted-here"
FILLER = b"\0" * (layers.BLOCK - 10)


def archive(files: dict[str, bytes]) -> bytes:
    """Return a tar of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def found(first: dict[str, bytes], settings: bytes = b"{}") -> list[str]:
    """Return the secrets of an image with two layers, of which the second covers the first."""
    saved = archive(
        {
            "blobs/sha256/1": archive(first),
            "blobs/sha256/2": archive(dict.fromkeys(first, b"") if first else {}),
            "config.json": settings,
        }
    )
    said = list(layers.secrets(io.BytesIO(saved), PLANTED))
    return [each for each in said if not each.startswith("blobs/sha256/2")]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("keys/server.key", b""),
        ("source/.git/config", b""),
        ("root/.netrc", b""),
        ("source/.env.local", b""),
        ("source/tests/conftest.py", b""),
        ("a", b"x" + PLANTED),
        ("a", FILLER + PLANTED),
        ("a", b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A" * 64),
        ("a", b'public = "x"\nsecret = "' + b"a#" * 20 + b'"\n'),
        ("a", b"token ghp_" + b"a" * 36 + b"\n"),
        ("etc/pip.conf", b"index-url = https://me:word@index.example/simple"),
    ],
)
def test_secret_in_a_covered_layer_is_found(path: str, content: bytes) -> None:
    """By its name or by its content, also where two blocks meet."""
    assert len(found({path: content})) == 1


def test_password_in_the_history_is_found() -> None:
    """A build's arguments stay there."""
    assert found({}, b'{"history": "|1 TORCH_INDEX=https://me:word@index.example"}')


def test_plain_files_are_no_secret() -> None:
    """A library that names keys, a certificate, and the tests of a package."""
    files = {
        "usr/lib/libcrypto.so": b"\0-----BEGIN RSA PRIVATE KEY-----\0%s\0",
        "etc/ssl/cert.pem": b"-----BEGIN CERTIFICATE-----\n" + b"A" * 64,
        "farflung/lib/python3.11/site-packages/numpy/tests/test_one.py": b"",
        "farflung/keys.py": b'secret = "the secret"\n',
    }
    assert found(files) == []
