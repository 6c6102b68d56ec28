"""A Python without POSIX: what only POSIX has is taken away, as far as a process on POSIX can be.

    python tests/support/elsewhere.py PROGRAM ARGUMENTS

The standard library and the libraries of an actor are imported before: they take other ways on
other systems, and are not under test.
"""

import ctypes
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import time

# Modules that Windows lacks; what imports one fails as it would there.
MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
# Attributes that Windows or macOS lack, by module.
ATTRIBUTES = {
    os: """
        chown chroot confstr cpu_count_posix eventfd fchmod fchown fdatasync fork forkpty
        getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid
        initgroups killpg lchown lockf major mkfifo mknod nice openpty pidfd_open pipe2
        posix_fadvise posix_fallocate posix_spawn posix_spawnp pread pwrite register_at_fork
        sched_getaffinity sched_param sched_setaffinity
        sched_setscheduler sched_yield SCHED_IDLE sendfile setegid seteuid setgid setpgid
        setpriority setsid setuid splice statvfs sync sysconf tcgetpgrp uname wait wait3 wait4
        O_CLOEXEC O_DIRECTORY O_DIRECT O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC
        SEEK_DATA SEEK_HOLE WNOHANG
    """,
    select: "devpoll epoll kqueue poll",
    signal: """
        SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGPWR SIGQUIT
        SIGSTOP SIGSYS SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH
        SIGXCPU SIGXFSZ alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt
        sigpending sigtimedwait sigwait sigwaitinfo
    """,
    socket: "SO_REUSEPORT SO_PEERCRED MSG_DONTWAIT MSG_NOSIGNAL TCP_CORK TCP_USER_TIMEOUT",
    time: "tzset clock_settime pthread_getcpuclockid",
}

OTHERS = (
    *("asyncio", "concurrent.futures", "logging.handlers", "multiprocessing", "random", "shutil"),
    *("ssl", "subprocess", "tempfile", "uuid"),
    *("lz4.block", "msgpack", "msgspec", "numpy", "onnxruntime", "psutil", "zlib_ng", "zmq"),
)

_OPEN = ctypes.CDLL


def leave_posix() -> None:
    """Take away what only POSIX has."""
    for name in ATTRIBUTES[select].split():
        vars(select).pop(name, None)
    for name in OTHERS:
        importlib.import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ATTRIBUTES.items():
        for name in names.split():
            vars(module).pop(name, None)
    ctypes.CDLL = _library  # type: ignore[assignment,misc]


def _library(name: str | None, *rest: object) -> object:
    """Open a library as Windows does: there is none of the whole process."""
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    return _OPEN(name, *rest)  # type: ignore[arg-type]


if __name__ == "__main__":
    leave_posix()
    program, *arguments = sys.argv[1:]
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
