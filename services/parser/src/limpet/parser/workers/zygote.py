"""The process that workers are forked from: it has imported everything, runs no thread and holds nothing of a page.

Run as a module: `python -m limpet.parser.workers.zygote SOCKET PARENT MEMORY_MB`. Starting a worker takes a few
milliseconds from here; a fork of the service itself would copy its threads' locks, a new interpreter takes half a second.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from typing import Any, Final, NoReturn

import orjson

from limpet.parser.parsers.registry import installed
from limpet.parser.workers.slate import Slate
from limpet.parser.workers.worker import tie_to, work

MESSAGE: Final = 4_096


class Zygote:
    def __init__(self, control: socket.socket, *, memory_mb: int) -> None:
        self._control = control
        self._memory_mb = memory_mb
        self._serials: dict[int, int] = {}

    def run(self) -> None:
        """Until the service is gone. Everything it started dies with it then."""
        signal.signal(signal.SIGCHLD, self._reap)
        self._say(ready=os.getpid())
        while True:
            message, fds, _, _ = socket.recv_fds(self._control, MESSAGE, 2)
            if not message:
                return
            self._start(int(message), *fds)

    def _start(self, serial: int, sock: int, slate: int) -> None:
        # A worker that dies at once must not be reaped before it is known.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        zygote = os.getpid()
        pid = os.fork()
        if not pid:
            self._become_worker(zygote, sock, slate)
        self._serials[pid] = serial
        os.close(sock)
        os.close(slate)
        self._say(serial=serial, pid=pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _become_worker(self, zygote: int, sock: int, slate: int) -> NoReturn:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            self._control.close()
            tie_to(zygote)
            work(socket.socket(fileno=sock), Slate(slate), memory_mb=self._memory_mb)
        except (BrokenPipeError, ConnectionResetError):
            # The keeper has gone while it was answered.
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)

    def _reap(self, *_: object) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if (serial := self._serials.pop(pid, None)) is not None:
                self._say(serial=serial, status=os.waitstatus_to_exitcode(status))

    def _say(self, **facts: Any) -> None:
        try:
            self._control.sendall(orjson.dumps(facts, option=orjson.OPT_APPEND_NEWLINE))
        except OSError:
            os._exit(0)


def main(argv: list[str]) -> None:
    fd, parent, memory_mb = map(int, argv)
    # The service says when it is over: a Ctrl-C or a SIGTERM to the whole group is first of all its own business.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    tie_to(parent)
    installed()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    Zygote(socket.socket(fileno=fd), memory_mb=memory_mb).run()


if __name__ == "__main__":
    main(sys.argv[1:])
