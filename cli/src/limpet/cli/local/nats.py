"""A real NATS server with JetStream, from the wheel, on loopback."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from limpet.cli.local.ports import LOOPBACK
from limpet.cli.local.private import keep_private, write_private
from limpet.cli.local.supervise import Command

USER: Final = "limpet"
CONFIG: Final = """\
server_name: limpet
listen: "{host}:{port}"
max_payload: 4MB
authorization {{ user: {user}, password: {password} }}
jetstream {{
  store_dir: {store}
  # The server's default flushes every two minutes; a power cut would take them all.
  sync_interval: 1s
  max_memory_store: 256MB
  max_file_store: 8GB
}}
"""


@dataclass(frozen=True)
class Nats:
    """One server with its data in `folder`."""

    folder: Path
    port: int
    password: str

    @classmethod
    def in_folder(cls, data: Path, *, port: int) -> Nats:
        """The server of a data folder, with the password kept there."""
        password = keep_private(data / "secrets" / "nats-password", lambda: secrets.token_hex(16))
        return cls(folder=data / "nats", port=port, password=password)

    @property
    def url(self) -> str:
        return f"nats://{USER}:{self.password}@{LOOPBACK}:{self.port}"

    @property
    def store(self) -> Path:
        """Where JetStream keeps its streams."""
        return self.folder / "store"

    def command(self, log: Path) -> Command:
        """How to run it."""
        binary = Path(sys.executable).with_name("nats-server")
        return Command(
            name="nats",
            argv=(str(binary), "--config", str(self.folder / "nats.conf")),
            log=log,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            prepare=self._write_config,
        )

    def is_ready(self) -> bool:
        """Whether the server greets; it does so only after JetStream has recovered its streams."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1.0) as link:
                return link.recv(4096).startswith(b"INFO ")
        except OSError:
            return False

    def _write_config(self) -> None:
        text = CONFIG.format(
            host=LOOPBACK,
            port=self.port,
            user=USER,
            password=json.dumps(self.password),
            store=json.dumps(str(self.store)),
        )
        write_private(self.folder / "nats.conf", text)
