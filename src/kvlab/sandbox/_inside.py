"""Runs beside kvlab, never in it: `python -I -S _inside.py PROGRAM PARENT LIMITS WEAKER`.

Gives up, for itself and for good, what a program of one answer does not need, and then runs the program:

- more than a second of processor, half a gigabyte of memory, 64 KiB of output (`setrlimit`);
- files: all but Python's own library and the folder it starts in, and those for reading only (Landlock, Linux 5.13);
- processes, signals, sockets, shared memory, owners, modes and attributes of files, and what the kernel grew lately
  (seccomp).

Neither needs privileges, a user namespace (Ubuntu 24.04 and Docker refuse those by default) or another program. The
program is not run when one of the last two cannot be had, unless WEAKER is 1.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import struct
import sys

NOT_ISOLATED = 97
"""Exit code: the program was not run."""
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine -> what the kernel calls it in a filter, and its column below."""
_LAST_KNOWN = 450
_NONE = -1
_DENIED = {
    # processes
    "clone": (56, 220), "fork": (57, _NONE), "vfork": (58, _NONE), "execve": (59, 221), "execveat": (322, 281),
    "setpgid": (109, 154), "setsid": (112, 157), "unshare": (272, 97), "setns": (308, 268), "prctl": (157, 167),
    "seccomp": (317, 277), "personality": (135, 92), "capset": (126, 91),
    # other processes
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "prlimit64": (302, 261),
    "setpriority": (141, 140), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "setrlimit": (160, 164),
    # network, and ways around a ban on sockets
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # what outlives the process, and what other processes of the user have of it
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219),
    # files by means that Landlock does not see
    "truncate": (76, 45), "chmod": (90, _NONE), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, _NONE),
    "fchown": (93, 55), "lchown": (94, _NONE), "fchownat": (260, 54), "utime": (132, _NONE), "utimes": (235, _NONE),
    "futimesat": (261, _NONE), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "mknod": (133, _NONE), "mknodat": (259, 33), "open_by_handle_at": (304, 265),
    # the machine, for a process that is root
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "fanotify_init": (300, 262), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "sethostname": (170, 161), "setdomainname": (171, 162),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "iopl": (172, _NONE), "ioperm": (173, _NONE),
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setgroups": (116, 159), "setresuid": (117, 147), "setresgid": (119, 149),
}  # fmt: skip
"""System calls by name -> their numbers on x86_64 and aarch64 (Linux, unistd_64.h and asm-generic/unistd.h)."""
_CLONE3 = 435
_FCNTL, _FCNTL_REFUSED = (72, 25), (8, 10, 15, 1024)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX: whom a pipe sends which signal, SIGKILL too, when there is data; F_SETLEASE."""
_IOCTL, _IOCTL_ALLOWED = (16, 29), (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX. Others change attributes, file systems and devices."""
_LOAD, _EQUAL, _AT_LEAST, _ANSWER = 0x20, 0x15, 0x35, 0x06
"""Operations of a filter: https://docs.kernel.org/networking/filter.html"""
_Step = tuple[int, int, int, int]
"""One of them, how many steps to skip if it holds and if not, and its operand."""

_READ = 1 << 2 | 1 << 3
"""Landlock: read a file, list a folder."""
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Version of Landlock -> how many rights over files it knows; all of them are taken away."""


class Refused(Exception):
    """The kernel does not give a part of the isolation."""


def limit(cpu: int, memory: int, output: int) -> None:
    """Hard limits: seconds, bytes, bytes. A program past the first is killed, past the others it gets an error."""
    limits = {"CORE": 0, "CPU": cpu, "AS": memory, "FSIZE": output, "NPROC": 0, "NOFILE": 32}
    for name, most in limits.items():
        try:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
        except (ValueError, OSError):  # macOS has no limit of the address space
            if sys.platform == "linux":
                raise


def confine_files(libc: ctypes.CDLL) -> None:
    """Leaves Python's library, the system's libraries and this folder, for reading. Raises Refused."""
    version = libc.syscall(444, None, 0, 1)
    if version < 1:
        raise Refused("files: this kernel has no Landlock")
    rights = (1 << max(count for since, count in _FILE_RIGHTS.items() if since <= version)) - 1
    # From version 4 on it also knows TCP, from 6 on signals and abstract sockets.
    attributes = struct.pack("QQQ", rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    ruleset = libc.syscall(444, attributes, 24 if version >= 6 else 16 if version >= 4 else 8, 0)
    if ruleset < 0:
        raise Refused(f"files: {os.strerror(ctypes.get_errno())}")
    for path in _readable():
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = _READ if os.path.isdir(path) else 1 << 2
        if libc.syscall(445, ruleset, 1, struct.pack("=Qi", allowed, folder), 0):
            raise Refused(f"files: {path}: {os.strerror(ctypes.get_errno())}")
        os.close(folder)
    if libc.syscall(446, ruleset, 0):
        raise Refused(f"files: {os.strerror(ctypes.get_errno())}")
    os.close(ruleset)


def _readable() -> list[str]:
    prefix = os.path.join(sys.base_prefix, "lib")
    system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/urandom"]
    paths = [os.path.dirname(os.__file__), prefix, *system, os.getcwd()]
    return [path for path in paths if os.path.exists(path)]


def confine_calls(libc: ctypes.CDLL) -> None:
    """Refuses the system calls above with EPERM, and those newer than this list with ENOSYS. Raises Refused.

    Of fcntl some commands are refused, of ioctl all but some, as a file answers that is no device (ENOTTY).
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise Refused(f"system calls: no list for {machine}")
    architecture, column = _ARCHITECTURES[machine]
    permission, unknown, no_device = (0x00050000 | code for code in (errno.EPERM, errno.ENOSYS, errno.ENOTTY))
    kill, allow = 0x80000000, 0x7FFF0000
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_ANSWER, 0, 0, kill), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":  # the second numbering of the same calls
        program += [(_AT_LEAST, 0, 1, 0x40000000), (_ANSWER, 0, 0, permission)]
    program += [(_AT_LEAST, 0, 1, _LAST_KNOWN + 1), (_ANSWER, 0, 0, unknown)]
    program += [(_EQUAL, 0, 1, _CLONE3), (_ANSWER, 0, 0, unknown)]
    for numbers in _DENIED.values():
        if numbers[column] != _NONE:
            program += [(_EQUAL, 0, 1, numbers[column]), (_ANSWER, 0, 0, permission)]
    program += _by_command(_FCNTL[column], _FCNTL_REFUSED, permission, allow)
    program += _by_command(_IOCTL[column], _IOCTL_ALLOWED, allow, no_device)
    program.append((_ANSWER, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    filters = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    if libc.prctl(22, 2, filters, 0, 0):
        raise Refused(f"system calls: {os.strerror(ctypes.get_errno())}")


def _by_command(call: int, commands: tuple[int, ...], listed: int, others: int) -> list[_Step]:
    """Steps that answer a call by its second argument: `listed` for one of the commands, `others` for any other."""
    steps: list[_Step] = [(_LOAD, 0, 0, 24)]
    for command in commands:
        steps += [(_EQUAL, 0, 1, command), (_ANSWER, 0, 0, listed)]
    steps.append((_ANSWER, 0, 0, others))
    return [(_EQUAL, 0, len(steps), call), *steps]


def isolate(parent: int) -> list[str]:
    """All of it; what could not be had. Raises Refused when the parent is gone."""
    if sys.platform != "linux":
        return [f"files and system calls: {sys.platform} has neither Landlock nor seccomp"]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # this process ends with its parent
    if os.getppid() != parent:
        raise Refused("kvlab is gone")
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges: both parts ask for it
    missing = []
    for confine in (confine_files, confine_calls):
        try:
            confine(libc)
        except Refused as refusal:
            missing.append(str(refusal))
    return missing


def main() -> None:
    """Isolates this process and runs the program; with "-" for it, says what is missing of the isolation."""
    path, parent, limits, weaker = sys.argv[1:]
    text = ""
    if path != "-":
        with open(path, encoding="utf-8") as file:
            text = file.read()
    cpu, memory, output = map(int, limits.split(","))
    limit(cpu, memory, output)
    missing = ", ".join(isolate(int(parent)))
    if path == "-":
        sys.stdout.write(missing)
        return
    if missing and weaker != "1":
        os._exit(NOT_ISOLATED)
    sys.argv = ["answer.py"]
    exec(compile(text, "answer.py", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
