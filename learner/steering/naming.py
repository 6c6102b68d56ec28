"""The name under which a user of this machine steers."""

import os
import pwd
import re
import socket

LETTERS = 64


def own_name(program: str = "") -> str:
    """Return `USER-HOST`; with a program, such as the dashboard, its name comes first."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    words = "-".join(filter(None, (program, user, socket.gethostname())))
    return re.sub(r"[^A-Za-z0-9_.-]", "-", words)[:LETTERS].lstrip(".-")
