"""Secrets in the layers of an image, also in files that a later layer covers or removes."""

import re
import tarfile
from collections.abc import Iterator
from typing import IO

BLOCK = 1 << 22
OVERLAP = 4096  # a secret that two blocks share is whole in the second one
NAMES = re.compile(
    r"(^|/)(\.git|\.ssh|\.aws|\.gnupg|\.netrc|\.pypirc|\.pgpass|\.env[^/]*|id_(rsa|dsa|ecdsa|ed25519)"
    r"|[^/]+\.key|\.docker/config\.json|\.npmrc|tests)(/|$)"
)
ALLOWED = re.compile(r"/(site|dist)-packages/.*/tests(/|$)")  # those that packages bring along
PEM = b"PRIVATE KEY-----"
CONTENTS = {  # a literal that is found fast, and the whole around it
    PEM: re.compile(rb"PRIVATE KEY-----\r?\n([\w-]+: .*\n|\r?\n)*[A-Za-z0-9+/=]{40}"),
    b'secret = "': re.compile(rb"""\nsecret = "[\w.:+=^!/*?&<>()\[\]{}@%$#-]{40}"\n"""),  # ours
    b"ghp_": re.compile(rb"\bghp_[A-Za-z0-9]{36}\b"),
    b"AKIA": re.compile(rb"\bAKIA[0-9A-Z]{16}\b"),
    b"xoxb-": re.compile(rb"\bxoxb-[0-9A-Za-z-]{20,}"),
}
LIBRARY = b"\x7fELF"  # GnuTLS tests itself with keys that everyone knows
PASSWORD = re.compile(rb"\bhttps?://[^/\s:@\"]+:[^/\s@\"]+@")  # in an address
SETTINGS = re.compile(r"^/(etc|root|home|tmp|farflung/[^/]+$)")  # where no manual has examples


def secrets(saved: IO[bytes], planted: bytes) -> Iterator[str]:
    """Yield each secret of an image that `docker save` writes, by layer and path."""
    with tarfile.open(fileobj=saved, mode="r|") as image:
        for entry in image:
            if not entry.isreg() or (file := image.extractfile(entry)) is None:
                continue
            head = file.read(512)
            if head[257:262] == b"ustar":
                with tarfile.open(fileobj=_Again(head, file), mode="r|") as layer:
                    yield from _in_layer(layer, entry.name, planted)
            else:  # settings and history of the image
                text = _Again(head, file)
                yield from (f"{entry.name}: {what}" for what in _in_file(text, "/etc", planted))


def _in_layer(layer: tarfile.TarFile, name: str, planted: bytes) -> Iterator[str]:
    for entry in layer:
        path = f"/{entry.name.removeprefix('./')}"
        if NAMES.search(path) and not ALLOWED.search(path):
            yield f"{name}: {path}: its name"
        if entry.isreg() and (file := layer.extractfile(entry)) is not None:
            yield from (f"{name}: {path}: {what}" for what in _in_file(file, path, planted))


def _in_file(file: "IO[bytes] | _Again", path: str, planted: bytes) -> Iterator[str]:
    tail, kinds = b"\n", dict(CONTENTS)
    if SETTINGS.search(path):
        kinds[b"://"] = PASSWORD
    while block := file.read(BLOCK):
        if tail == b"\n" and block.startswith(LIBRARY):
            kinds.pop(PEM)
        text = tail + block
        if planted in text:
            yield "the planted secret"
        for literal, whole in kinds.items():
            if literal in text and whole.search(text):
                yield literal.decode()
        tail = text[-OVERLAP:]


class _Again:
    """A file of which the first bytes were read already."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; fewer only at the end."""
        taken, self._head = self._head[:size], self._head[size:]
        return taken + self._rest.read(size - len(taken)) if len(taken) < size else taken
