"""The recipes of a folder, looked at again and again: a ConfigMap changes under its readers without a word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from limpet.parser import metrics
from limpet.parser.parsers import Parser
from limpet.parser.parsers.registry import installed
from limpet.parser.recipes.recipe import MAX_BYTES, BadRecipe, load_recipe

log = structlog.get_logger()

LOOK_EVERY: Final = 2.0
# Earlier versions of a recipe that can still be asked for, as `name@version`.
EARLIER: Final = 3


@dataclass(frozen=True, slots=True)
class Source:
    """A recipe as a worker gets it: the key it is asked for by, and its text."""

    key: str
    text: str
    file: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One file as it is shown: the version in use, and what is wrong with a newer one."""

    file: str
    parser: Parser | None
    text: str = ""
    error: str = ""
    loaded_at: float = 0.0


def compiled(sources: Sequence[Source]) -> dict[str, Parser]:
    return {source.key: load_recipe(source.text, file=source.file).parser() for source in sources}


class RecipeFolder:
    """A broken new version of a recipe keeps the old one. `sources` is another object whenever anything changed."""

    def __init__(self, folder: Path | None, *, taken: Mapping[str, Parser] | None = None) -> None:
        self._folder = folder
        self._taken = installed() if taken is None else taken
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._earlier: dict[str, list[Source]] = {}
        self.listed: dict[str, Listed] = {}
        self.sources: tuple[Source, ...] = ()
        self.look()

    def knows(self, name: str) -> bool:
        """Whether there is a parser of this name, installed or by a recipe."""
        return name in self._taken or any(source.key == name for source in self.sources)

    async def run(self) -> None:
        """A part."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Once over the folder; only what changed is read."""
        if self._folder is None:
            return
        signatures = self._signatures(self._folder)
        if signatures == self._seen:
            return
        for file in [file for file in self.listed if file not in signatures]:
            log.info("recipe_removed", file=file)
            del self.listed[file]
        for file, signature in signatures.items():
            if self._seen.get(file) != signature:
                self._load(self._folder / file)
        # A name that was taken may be free now.
        for file, listed in list(self.listed.items()):
            if listed.error and self._seen.get(file) == signatures[file]:
                self._load(self._folder / file)
        self._seen = signatures
        current = [Source(one.parser.name, one.text, one.file) for one in self.listed.values() if one.parser]
        earlier = [source for name in {source.key for source in current} for source in self._earlier.get(name, ())]
        self.sources = (*current, *earlier)
        metrics.RECIPES.labels("ready").set(len(current))
        metrics.RECIPES.labels("refused").set(sum(bool(one.error) for one in self.listed.values()))

    def _signatures(self, folder: Path) -> dict[str, tuple[int, int, int]]:
        found = {}
        try:
            for path in sorted(folder.iterdir()):
                if path.suffix in (".yaml", ".yml") and not path.name.startswith("."):
                    # Follows links: a ConfigMap swaps the folder that they lead to.
                    stat = path.stat()
                    found[path.name] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        except OSError as error:
            # In the middle of a swap, or a folder that is not there yet: what was loaded stays.
            log.warning("recipes_unreadable", folder=str(folder), error=repr(error))
            return dict(self._seen)
        return found

    def _load(self, path: Path) -> None:
        file = path.name
        before = self.listed.get(file)
        try:
            with path.open("rb") as opened:
                text = opened.read(MAX_BYTES + 1).decode()
            parser = load_recipe(text, file=file).parser()
            self._check_name(parser.name, file)
        except (BadRecipe, OSError, UnicodeDecodeError) as error:
            kept = before.parser if before else None
            log.error("recipe_refused", file=file, error=str(error), kept=kept.version if kept else None)
            self.listed[file] = Listed(
                file, kept, before.text if before else "", str(error), before.loaded_at if before else 0.0
            )
            return
        if before is not None and before.parser is not None and before.parser.version != parser.version:
            key = f"{before.parser.name}@{before.parser.version}"
            self._earlier.setdefault(parser.name, []).append(Source(key, before.text, file))
            del self._earlier[parser.name][:-EARLIER]
        self.listed[file] = Listed(file, parser, text, "", time.time())
        log.info("recipe_loaded", file=file, parser=parser.name, version=parser.version)

    def _check_name(self, name: str, file: str) -> None:
        if name in self._taken:
            raise BadRecipe(file, "name", f"{name!r} is the name of an installed parser")
        for other in self.listed.values():
            if other.file != file and other.parser is not None and other.parser.name == name:
                raise BadRecipe(file, "name", f"{name!r} is the name of the recipe in {other.file} already")
