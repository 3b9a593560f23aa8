"""Become another command that dies with the process that started this one.

Run as a file, not imported: `python -I -S tether.py SIGNAL PARENT USER COMMAND...`. A program of its own because code
between fork and exec is not safe in a process with threads, and because the user must change before the tether is tied:
the kernel forgets the death signal when the user changes.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    death_signal, parent, user, *command = argv
    if user:
        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent died before the tether was tied.
        os.kill(os.getpid(), signal.SIGKILL)
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
