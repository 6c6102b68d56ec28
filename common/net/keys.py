"""Key files: a server and its clients know each other by them; only the owner reads a secret."""

import os
import stat
import struct
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import zmq
from zmq.utils import z85

from farflung.common.data.fields import NAME, RULE
from farflung.common.net.address import Address
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused

ACTOR, BROKER, OPERATOR = ROLES = ("actor", "broker", "operator")
SERVER_FILE = "server.key"
CLIENT_FILE = "actor.key"
ALLOWED = "allowed"  # a folder beside these
NEEDED = {
    ACTOR: "an actor needs: --keys",
    BROKER: "a broker needs: --upstream-keys",
    OPERATOR: "an operator needs: learner pause ADDRESS --keys, and so on",
}
FILE_BYTES = 1 << 16  # of a key file at most; ours have 300
DEFAULT_FILE = Path("~/.config/farflung") / CLIENT_FILE  # of an actor that dials another machine
OPERATOR_FILE = Path("~/.config/farflung/operator.key")  # of one who steers from another machine


@dataclass(frozen=True, slots=True)
class Client:
    """The owner of a key, or the sender of a frame: then with the connection that it came through.

    The names of an actor begin with its label. A broker checks the names that it relays.
    """

    label: str
    role: str
    # Counted from 1 by the listener that accepted the connection: each has another number, and no
    # number comes again while the process lives. 0: no connection, as within one process.
    connection: int = 0
    address: str = ""  # of the machine at the other end; a broker or a NAT has one for many

    @property
    def peer(self) -> int | str:
        """The identity by which clients share: the label, or the connection without keys."""
        return self.label or self.connection

    def may_speak_for(self, actor: str) -> bool:
        """Return whether this client may send and subscribe in the name of an actor."""
        return self.role == BROKER or actor.startswith(f"{self.label}/")


# Every client where there are no keys: no name is checked. As it stands it has no connection.
ANY_CLIENT = Client("", BROKER)


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The key pair of a server, and the folder of the clients that it admits."""

    public: bytes
    secret: bytes = field(repr=False)
    allowed: Path


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The key pair of a client, and the public key of its server."""

    path: Path
    client: Client
    public: bytes
    secret: bytes = field(repr=False)
    server: bytes

    def named(self, name: str) -> str:
        """Return an actor's full name with this key, `<label>/<name>`; refuse another label."""
        full = name if "/" in name else f"{self.client.label}/{name}"
        if not self.client.may_speak_for(full):
            raise ConfigurationError(
                f"--name {name}: names with the key in {self.path} begin with {self.client.label}/"
            )
        return full


def require_own_name(actor: str, sender: Client) -> None:
    """Refuse an actor's name that does not belong to the key of its sender."""
    if not sender.may_speak_for(actor):
        raise Refused(
            "label",
            f"{actor}, from a key of {sender.label}: its names begin with {sender.label}/",
        )


def full_name(keys: ClientKeys | None, name: str) -> str:
    """Return the full name of an actor, with keys or without."""
    return keys.named(name) if keys is not None else name


def server_keys(folder: Path) -> ServerKeys:
    """Read the keys of a server from the folder that `learner keys` made."""
    if not folder.is_dir():
        raise ConfigurationError(
            f"--keys {folder}: there is no such folder. To make it: learner keys {folder}"
        )
    path = folder / SERVER_FILE
    content = _read(path, secret=True)
    return ServerKeys(
        _key(path, content, "public"), _key(path, content, "secret"), folder / ALLOWED
    )


def client_keys(path: Path) -> ClientKeys:
    """Read the keys of a client from a `.key` file, or from a folder's `actor.key`."""
    path = path.expanduser()
    path = path / CLIENT_FILE if path.is_dir() else path
    content = _read(path, secret=True)
    return ClientKeys(
        path,
        _client(path, content),
        *(_key(path, content, name) for name in ("public", "secret", "server")),
    )


def client_keys_for(address: Address, path: str, usual: Path = DEFAULT_FILE) -> ClientKeys | None:
    """Return the keys for an address: the named ones, or the default ones for another machine."""
    if path:
        return client_keys(Path(path))
    usual = usual.expanduser()
    return client_keys(usual) if not address.is_loopback and usual.exists() else None


def allowed_client(path: Path) -> tuple[str, Client]:
    """Return the public key in a `.pub` file, as text, and its client."""
    content = _read(path, secret=False)
    client = _client(path, content)
    if path.stem != client.label:
        raise ConfigurationError(f"{path} is for {client.label}: call it {client.label}.pub")
    return _key(path, content, "public").decode(), client


def make(folder: Path, label: str = "", role: str = ACTOR) -> list[str]:
    """Make the missing keys of a server, of its first actor, and of another client.

    Return a sentence about each.
    """
    _require_client(label or CLIENT_FILE.removesuffix(".key"), role, f"--add {label}")
    try:
        (folder / ALLOWED).mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        made = [_make_server(folder)]
        first = CLIENT_FILE.removesuffix(".key")
        if label != first:
            made.append(_make_client(folder, first, ACTOR, again=False))
        return [*made, _make_client(folder, label, role, again=True)] if label else made
    except OSError as error:
        raise ConfigurationError(f"no keys can be made in {folder}: {error.strerror}") from error


def _make_server(folder: Path) -> str:
    path = folder / SERVER_FILE
    if path.exists():
        server_keys(folder)  # raises if the file is malformed
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
    """Make the keys of a client, but keep existing ones; `again`: allow a revoked client again."""
    path, listed = folder / f"{label}.key", folder / ALLOWED / f"{label}.pub"
    if path.exists():
        held = client_keys(path)
        if listed.exists():
            return f"{path}: kept as it is, allowed"
        if not again:
            return f"{path}: kept as it is, but not allowed (learner keys {folder} --add {label})"
        _allow(listed, held.client, held.public.decode())
        return f"{path}: kept as it is, and allowed again"
    if listed.exists():
        return f"{listed}: kept as it is; its {path.name} is elsewhere"
    public, secret = zmq.curve_keypair()
    texts = {"label": label, "role": role, "public": public.decode(), "secret": secret.decode()}
    about = f"all that {NEEDED[role]}"
    _write(path, about, 0o600, **texts, server=server_keys(folder).public.decode())
    _allow(listed, Client(label, role), public.decode())
    return f"{path}: made, for {role}s; take it to their machines"


def _allow(path: Path, client: Client, public: str) -> None:
    about = "a client that is allowed until this file is removed"
    _write(path, about, 0o644, label=client.label, role=client.role, public=public)


def _write(path: Path, about: str, mode: int, **texts: str) -> None:
    """Write a key file with these permissions."""
    content = "".join(f'{name} = "{text}"\n' for name, text in texts.items())
    atomic_file.write(path, f"# Farflung: {about}\n{content}".encode(), mode)


def _read(path: Path, secret: bool) -> dict[str, object]:
    try:
        return tomllib.loads(_content(path, secret).decode())
    except OSError as error:
        raise ConfigurationError(f"the keys in {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is no key file: {error}") from error


def _content(path: Path, secret: bool) -> bytes:
    """Return the bytes of a small regular file.

    Opening a pipe waits for its other end, and opening a device may do anything: neither is opened.
    """
    _require_regular(path, path.stat())
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        _require_regular(path, status)  # it may be another one by now
        if secret:
            _require_private(path, status)
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise ConfigurationError(f"{path} is no key file: it has more than {FILE_BYTES:,} bytes")
    return content


def _require_regular(path: Path, status: os.stat_result) -> None:
    """Refuse everything but a file: a folder, a pipe, a socket, a device."""
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(
            f"{path} is no key file: it is {_kind(status.st_mode)}. Remove it, or name another"
        )


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _require_private(path: Path, status: os.stat_result) -> None:
    """Refuse a secret that other users can read."""
    wide = stat.S_IMODE(status.st_mode) & 0o077
    if status.st_uid == 0 and os.geteuid() != 0:
        wide &= ~0o040  # a cluster hands out secrets as root's files that our group may read
    if wide:
        raise ConfigurationError(
            f"other users can read the secret in {path}. To prevent it: chmod 600 {path}"
        )


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
        raise ConfigurationError(f"{where}: {role!r} is no role: write one of {', '.join(ROLES)}")


def _key(path: Path, content: dict[str, object], name: str) -> bytes:
    try:
        key = str(content.get(name)).encode("ascii")
        whole = len(z85.decode(key)) == 32
    except (ValueError, KeyError, struct.error):
        whole = False
    if not whole:
        raise ConfigurationError(f"{path} has no valid {name} key: copy the file again")
    return key
