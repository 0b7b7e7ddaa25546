"""Starts the program of a container, and ends everything that it has started: `python -I -S launcher.py INPUT INFO`.

It is a program of its own without packages. The descriptor INPUT has what to start, as JSON; to INFO it writes JSON: the pid
of the container's first process (`child-pid`), and why the program could not be started (`error` and its exit `code`).

1. It makes name spaces for the container or enters those of a running one, if asked. Without any it adopts all orphans below it.
2. A first process of new name spaces mounts the files of the container, and collects its zombies.
3. The program's process joins its control groups, gives up all privileges, and executes the program.
4. When that has ended, or this process gets SIGTERM (the kernel sends it when the cluster ends), everything below is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import stat
import struct
import sys
import termios
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from volcanopy_local.process.beneath import open_beneath, open_source, opened
else:
    sys.path.append(os.path.dirname(__file__))
    from beneath import open_beneath, open_source, opened

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 36, 38, 47
_CLEAR_AMBIENT = 4
_VIEW, _PROCESSES, _USERS = 0x00020000 | 0x04000000 | 0x08000000, 0x20000000, 0x10000000
"""Name spaces: of mounts, host names and IPC, which only processes of the container enter; of processes; of users."""
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXEC = 1, 2, 4, 8
_BIND, _RECURSIVE, _SLAVE = 0x1000, 0x4000, 0x80000
_DETACH = 2
_AT_RECURSIVE, _AT_EMPTY_PATH = 0x8000, 0x1000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""The numbers of system calls, which are the same on all machines; Linux 5.12 and later have them."""
_CLONE_TREE, _FROM_DESCRIPTOR, _TO_DESCRIPTOR = 1, 0x04, 0x40
_LAST_CAPABILITY = 63
_CAPABILITY_VERSION = 0x20080522
_BASE = "/tmp"
"""Where the new root is put together: a folder that every machine has."""
_KILLED = 137


class LaunchError(Exception):
    """A program that could not be started, with the exit code that a kubelet shows."""

    def __init__(self, message: str, code: int = 128) -> None:
        super().__init__(message)
        self.code = code


def _call(what: str, *arguments: Any) -> None:
    """Call a function of the C library, the first word of `what`. Raises LaunchError."""
    function = getattr(_LIBC, what.partition(" ")[0])
    if function(*arguments) != 0:
        raise LaunchError(f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _call(f"mount {target}", encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])


def main() -> int:
    """Start the program and wait for its end; its exit code."""
    reading, info = int(sys.argv[1]), int(sys.argv[2])
    with open(reading, "rb") as file:
        launch = json.load(file)
    os.set_inheritable(info, False)
    os.umask(0o022)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _kill_and_exit)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != launch["parent"]:
        return _KILLED
    try:
        child = _start(launch, info)
    except (LaunchError, OSError) as error:
        return _report(info, error)
    os.write(info, json.dumps({"child-pid": child if launch["namespaces"] else os.getpid()}).encode() + b"\n")
    os.close(info)
    _release_streams()
    code = _wait_for(child)
    _kill_all()
    return code


def _start(launch: dict[str, Any], info: int) -> int:
    """Start the first process of the container; its pid. Raises LaunchError, OSError."""
    groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in launch["groups"]]
    uid, gid = launch["uid"], launch["gid"]
    spaces = _spaces(launch["enter"]) if launch["enter"] else []
    if spaces:
        _enter(spaces, "user", "pid")
    elif launch["namespaces"]:
        identity = os.geteuid(), os.getegid()
        _call("unshare", _PROCESSES | (_USERS if identity[0] != 0 else 0))
        if identity[0] != 0:
            _map_users(identity, uid, gid)
    else:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if (child := os.fork()) == 0:
        _guarded(info, lambda: _first(launch, info, groups, spaces))
    for descriptor in (*groups, *(space for _, space in spaces)):
        os.close(descriptor)
    return child


def _first(launch: dict[str, Any], info: int, groups: list[int], spaces: list[tuple[str, int]]) -> NoReturn:
    """The first process of a container: the program itself, or in new name spaces what prepares them and starts it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _enter(spaces, "mnt", "uts", "ipc")
    if not launch["namespaces"]:
        _execute(launch, groups)
    _call("unshare", _VIEW)
    hostname = os.fsencode(launch["hostname"])
    _call("sethostname", hostname, len(hostname))
    _mount_all([tuple(operation) for operation in launch["operations"]])
    if (program := os.fork()) == 0:
        _guarded(info, lambda: _execute(launch, groups))
    for descriptor in (info, *groups):
        os.close(descriptor)
    _release_streams()
    _give_up_privileges(launch)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os._exit(_wait_for(program))


def _execute(launch: dict[str, Any], groups: list[int]) -> NoReturn:
    """Become the program. Raises LaunchError, OSError."""
    for group in groups:
        os.write(group, b"0")
    os.setsid()
    if launch["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    _give_streams(launch)
    _give_up_privileges(launch)
    if not launch["namespaces"]:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    argv: list[str] = launch["argv"]
    if not argv:
        os._exit(0)
    try:
        os.chdir(launch["directory"])
    except OSError as error:
        raise LaunchError(f'chdir to cwd ("{launch["directory"]}") failed: {_message(error)}') from None
    try:
        os.execvpe(argv[0], argv, launch["environment"])
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            what = (
                f"stat {argv[0]}: no such file or directory" if "/" in argv[0] else "executable file not found in $PATH"
            )
            raise LaunchError(f'exec: "{argv[0]}": {what}', 127) from None
        raise LaunchError(f'exec: "{argv[0]}": {_message(error)}', 126) from None


def _message(error: OSError) -> str:
    return os.strerror(error.errno or 0).lower()


def _guarded(info: int, work: Any) -> NoReturn:
    """Do the work of a new process, which ends in another program or here."""
    try:
        work()
    except (LaunchError, OSError) as error:
        os._exit(_report(info, error))
    os._exit(1)


def _report(info: int, error: LaunchError | OSError) -> int:
    code = error.code if isinstance(error, LaunchError) else 128
    os.write(info, json.dumps({"error": str(error), "code": code}).encode() + b"\n")
    return code


# Name spaces


def _map_users(identity: tuple[int, int], uid: int, gid: int) -> None:
    """Show this user and group as `uid` and `gid` in the new name space."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {identity[0]} 1"),
        ("gid_map", f"{gid} {identity[1]} 1"),
    ):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError as error:
            raise LaunchError(f"{name}: {error.strerror}") from None


def _spaces(pid: int) -> list[tuple[str, int]]:
    """The name spaces of a process, open, by name."""
    names = ["mnt", "uts", "ipc", "pid"]
    if os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        names.append("user")
    return [(name, os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)) for name in names]


def _enter(spaces: list[tuple[str, int]], *names: str) -> None:
    """Enter some of the name spaces, in this order; only the children of this process enter one of processes."""
    for name in names:
        for _, space in [entry for entry in spaces if entry[0] == name]:
            _call(f"setns {name}", space, 0)


def _mount_all(operations: list[tuple[str, ...]]) -> None:
    """Put together the files of the container, and make them the root."""
    before = {operation[1]: os.path.realpath(operation[1]) for operation in operations if len(operation) == 3}
    volumes = {operation[1:3]: open_source(*operation[1:3]) for operation in operations if len(operation) == 4}
    _mount(None, "/", None, _SLAVE | _RECURSIVE)
    _mount("tmpfs", _BASE, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0755")
    os.chdir(_BASE)
    for folder in ("new", "old"):
        os.mkdir(folder)
    _mount("new", "new", None, _BIND)
    _pivot(".", "old")
    os.chdir("/")
    for operation in operations:
        if len(operation) == 4:
            _bind(volumes[operation[1:3]], operation[3], operation[0])
        else:
            _apply(operation, before.get(operation[1], ""))
    for descriptor in volumes.values():
        os.close(descriptor)
    _call("umount2 /old", b"/old", _DETACH)
    os.chdir("/new")
    _pivot(".", ".")
    _call("umount2 .", b".", _DETACH)
    os.chdir("/")


def _pivot(new: str, old: str) -> None:
    _call("pivot_root", os.fsencode(new), os.fsencode(old))


def _apply(operation: tuple[str, ...], source: str) -> None:
    """Carry out one operation of bubblewrap, below /new."""
    kind, path = operation[0], operation[-1]
    if kind == "symlink":
        with opened(_target(os.path.dirname(path))) as folder:
            os.symlink(operation[1], os.path.basename(path), dir_fd=folder)
    elif kind == "dir":
        os.close(_target(path))
    elif kind == "tmpfs":
        _mount_at(path, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0755")
    elif kind == "proc":
        _mount_at(path, "proc", _NO_SUID | _NO_DEVICES | _NO_EXEC)
    elif kind == "remount-ro":
        with opened(_target(path)) as mount:
            _set_attributes(mount, _READ_ONLY, path, recursive=False)
    elif not kind.endswith("-try") or os.path.lexists(f"/old{source}"):
        with opened(os.open(f"/old{source}", os.O_PATH | os.O_CLOEXEC)) as descriptor:
            _bind(descriptor, path, kind)


def _mount_at(path: str, kind: str, flags: int, data: str | None = None) -> None:
    with opened(_target(path)) as folder:
        os.fchdir(folder)
        _mount(kind, ".", kind, flags, data)
    os.chdir("/")


def _bind(source: int, path: str, kind: str) -> None:
    """Mount what a descriptor stands for at a path of the container."""
    flags = _NO_SUID | (0 if kind.startswith("dev-") else _NO_DEVICES) | (_READ_ONLY if kind.startswith("ro-") else 0)
    is_folder = stat.S_ISDIR(os.fstat(source).st_mode)
    with opened(_system_call(path, _OPEN_TREE, source, b"", _CLONE_TREE | _AT_RECURSIVE | _AT_EMPTY_PATH)) as tree:
        _set_attributes(tree, flags, path, recursive=True)
        with opened(_target(path, is_folder=is_folder)) as target:
            _system_call(path, _MOVE_MOUNT, tree, b"", target, b"", _FROM_DESCRIPTOR | _TO_DESCRIPTOR)


def _set_attributes(mount: int, flags: int, path: str, *, recursive: bool) -> None:
    """Add flags to a mount; their numbers are those of mount for the first four."""
    attributes = struct.pack("QQQQ", flags, 0, 0, 0)
    scope = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    _system_call(path, _MOUNT_SETATTR, mount, b"", scope, attributes, ctypes.c_size_t(len(attributes)))


def _system_call(path: str, number: int, *arguments: Any) -> int:
    result: int = _LIBC.syscall(number, *arguments)
    if result < 0:
        raise LaunchError(f"mount {path}: {os.strerror(ctypes.get_errno())}")
    return result


def _target(path: str, *, is_folder: bool = True) -> int:
    """A mount point in the container, which is made if it is missing; links lead to other places in the container only."""
    with opened(os.open("/new", os.O_PATH | os.O_CLOEXEC)) as root:
        return open_beneath(root, path, in_root=True, mode=0o755, is_folder=is_folder)


# Privileges


def _give_up_privileges(launch: dict[str, Any]) -> None:
    """Take the user and group of the program, without capabilities and ways to get new ones; root alone keeps what it has."""
    uid, gid = launch["uid"], launch["gid"]
    if launch["privileged"]:
        return
    _call("prctl no_new_privs", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.geteuid() != uid:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _LIBC.prctl(_PR_CAP_AMBIENT, _CLEAR_AMBIENT, 0, 0, 0)
    header, nothing = struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24)
    _call("capset", header, nothing)


def _give_streams(launch: dict[str, Any]) -> None:
    """Let the program open its streams by their paths, such as /dev/stderr."""
    for descriptor in range(3):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, launch["uid"], launch["gid"])


# Processes


def _release_streams() -> None:
    """Keep no stream of the program open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _wait_for(child: int) -> int:
    """Collect processes until this one has ended; its exit code."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return _KILLED
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _kill_all() -> None:
    """Kill everything below this process until nothing is left; orphans come to this process."""
    while pids := _descendants(os.getpid()):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _descendants(pid: int) -> list[int]:
    below: list[int] = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        for child in map(int, file.read().split()):
            below += [child, *_descendants(child)]
    return below


def _kill_and_exit(*_: object) -> None:
    _kill_all()
    os._exit(_KILLED)


if __name__ == "__main__":
    sys.exit(main())
