"""Keys: by which a server and its clients know each other. A secret is in a file that only its owner reads, and nowhere else."""

import os
import stat
import struct
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

from farflung.common.data.names import NAME, RULE
from farflung.common.net.address import Address
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused

ACTOR, BROKER = ROLES = ("actor", "broker")
SERVER_FILE = "server.key"
CLIENT_FILE = "actor.key"
ALLOWED = "allowed"  # a folder beside these
DEFAULT_FILE = Path("~/.config/farflung") / CLIENT_FILE  # of an actor that dials another machine


@dataclass(frozen=True, slots=True)
class Client:
    """Whose key it is. An actor's own names begin with its label; a broker has checked the names that it passes on."""

    label: str
    role: str

    def may_speak_for(self, actor: str) -> bool:
        """Whether messages and questions of this actor may come over its connection."""
        return self.role == BROKER or actor.startswith(f"{self.label}/")


ANYBODY = Client("", BROKER)  # where there are no keys, nobody's name is checked


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """What a server needs: its own pair, and the folder of those whom it lets in."""

    public: bytes
    secret: bytes = field(repr=False)
    allowed: Path


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """What a client needs: its own pair, and the key by which it knows the server."""

    path: Path
    client: Client
    public: bytes
    secret: bytes = field(repr=False)
    server: bytes

    def named(self, name: str) -> str:
        """The name of an actor with this key, `<label>/<name>`; one that has another label is refused here already."""
        full = name if "/" in name else f"{self.client.label}/{name}"
        if not self.client.may_speak_for(full):
            raise ConfigurationError(
                f"--name {name}: with the key in {self.path} names begin with {self.client.label}/"
            )
        return full


def require_own_name(actor: str, sender: Client) -> None:
    """Refuse an actor's name that is not one of the key it came under."""
    if not sender.may_speak_for(actor):
        raise Refused(
            "label",
            f"{actor}, from a key of {sender.label}, whose names begin with {sender.label}/",
        )


def full_name(keys: ClientKeys | None, name: str) -> str:
    """The name under which an actor goes, with keys or without."""
    return keys.named(name) if keys is not None else name


def server_keys(folder: Path) -> ServerKeys:
    """The keys of a server, from the folder that `learner keys` made."""
    if not folder.is_dir():
        raise ConfigurationError(
            f"--keys {folder}: there is no such folder. This makes it: learner keys {folder}"
        )
    path = folder / SERVER_FILE
    content = _read(path, secret=True)
    return ServerKeys(
        _key(path, content, "public"), _key(path, content, "secret"), folder / ALLOWED
    )


def client_keys(path: Path) -> ClientKeys:
    """The keys of a client, from a `.key` file or the folder that its first one is in."""
    path = path.expanduser()
    path = path / CLIENT_FILE if path.is_dir() else path
    content = _read(path, secret=True)
    return ClientKeys(
        path,
        _client(path, content),
        *(_key(path, content, name) for name in ("public", "secret", "server")),
    )


def client_keys_for(address: Address, path: str) -> ClientKeys | None:
    """The keys to dial an address with: those that were named, else the usual ones if it is another machine; None: no keys."""
    if path:
        return client_keys(Path(path))
    usual = DEFAULT_FILE.expanduser()
    return client_keys(usual) if not address.is_loopback and usual.exists() else None


def allowed_client(path: Path) -> tuple[str, Client]:
    """The public key in a `.pub` file, as text, and whose it is."""
    content = _read(path, secret=False)
    client = _client(path, content)
    if path.stem != client.label:
        raise ConfigurationError(f"{path} is for {client.label}: call it {client.label}.pub")
    return _key(path, content, "public").decode(), client


def make(folder: Path, label: str = "", role: str = ACTOR) -> list[str]:
    """Make what is missing of a server's keys and its first actor's, then those of another client; says what became of each."""
    _require_client(label or CLIENT_FILE.removesuffix(".key"), role, f"--add {label}")
    try:
        (folder / ALLOWED).mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        said = [_make_server(folder)]
        first = CLIENT_FILE.removesuffix(".key")
        if label != first:
            said.append(_make_client(folder, first, ACTOR, again=False))
        return [*said, _make_client(folder, label, role, again=True)] if label else said
    except OSError as error:
        raise ConfigurationError(f"no keys can be made in {folder}: {error.strerror}") from error


def _make_server(folder: Path) -> str:
    path = folder / SERVER_FILE
    if path.exists():
        server_keys(folder)  # else it is named what is wrong with it
        return f"{path}: kept as it is"
    public, secret = zmq.curve_keypair()
    _write(
        path,
        "the key pair of a server: learner --keys, broker --keys",
        0o600,
        public=public.decode(),
        secret=secret.decode(),
    )
    return f"{path}: made; it stays on this machine"


def _make_client(folder: Path, label: str, role: str, again: bool) -> str:
    """The keys of a client. What is there is kept; `again`: a client whose key is here, but not allowed any more, is."""
    path, listed = folder / f"{label}.key", folder / ALLOWED / f"{label}.pub"
    if path.exists():
        held = client_keys(path)
        if listed.exists() or not again:
            return f"{path}: kept as it is, {'allowed' if listed.exists() else f'but not allowed (learner keys {folder} --add {label})'}"
        _allow(listed, held.client, held.public.decode())
        return f"{path}: kept as it is, and allowed again"
    if listed.exists():
        return f"{listed}: kept as it is; its {path.name} is elsewhere"
    public, secret = zmq.curve_keypair()
    texts = {"label": label, "role": role, "public": public.decode(), "secret": secret.decode()}
    about = f"all that {'a broker' if role == BROKER else 'an actor'} needs: {'--upstream-keys' if role == BROKER else '--keys'}"
    _write(path, about, 0o600, **texts, server=server_keys(folder).public.decode())
    _allow(listed, Client(label, role), public.decode())
    return f"{path}: made, for {role}s; take it to their machines"


def _allow(path: Path, client: Client, public: str) -> None:
    about = "a client that is let in, until this file is removed"
    _write(path, about, 0o644, label=client.label, role=client.role, public=public)


def _write(path: Path, about: str, mode: int, **texts: str) -> None:
    """Write a key file, for as many readers as `mode` says."""
    content = "".join(f'{name} = "{text}"\n' for name, text in texts.items())
    atomic_file.write(path, f"# Farflung: {about}\n{content}".encode(), mode)


def _read(path: Path, secret: bool) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            if secret:
                _require_private(path, os.fstat(file.fileno()))
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"the keys in {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is no key file: {error}") from error


def _require_private(path: Path, status: os.stat_result) -> None:
    """A secret that others can read is none."""
    wide = stat.S_IMODE(status.st_mode) & 0o077
    if status.st_uid == 0 and os.geteuid() != 0:
        wide &= ~0o040  # root keeps it and lets our group read: how a cluster hands secrets to whoever is not root
    if wide:
        raise ConfigurationError(f"others can read the secret in {path}: chmod 600 {path}")


def _client(path: Path, content: dict[str, object]) -> Client:
    label, role = str(content.get("label", "")), str(content.get("role", ""))
    _require_client(label, role, str(path))
    return Client(label, role)


def _require_client(label: str, role: str, where: str) -> None:
    if not NAME.fullmatch(label):
        raise ConfigurationError(f"{where}: {label!r} is no label: {RULE}")
    if label == SERVER_FILE.removesuffix(".key"):
        raise ConfigurationError(f"{where}: {label} is the server's own file")
    if role not in ROLES:
        raise ConfigurationError(f"{where}: {role!r} is no role: there is {' and '.join(ROLES)}")


def _key(path: Path, content: dict[str, object], name: str) -> bytes:
    try:
        key = str(content.get(name)).encode("ascii")
        whole = len(z85.decode(key)) == 32
    except (ValueError, KeyError, struct.error):
        whole = False
    if not whole:
        raise ConfigurationError(f"{path} has no {name} key that could be one")
    return key
