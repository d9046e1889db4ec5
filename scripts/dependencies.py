"""Checks what is installed against constraints.txt, from the packages' own metadata: ``make lint`` runs it.

- whatever is installed has the version that constraints.txt has, and nothing is installed that it does not name;
- what this project needs from its users' environments has a licence of ``LICENCES``;
- no version is one that ``scripts/known-bad.txt`` names, with the reason.

    python scripts/dependencies.py          prints what is wrong, and exits with 1
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "srm-kafka"
#: Of every environment, and made by it.
_NOT_PINNED = {PROJECT, "pip", "setuptools", "wheel"}
#: Extras whose packages users install; the others are for who works on this.
_SHIPPED = ("", "serve", "spark", "transforms", "airflow", "gssapi", "aws", "postgres")
#: As metadata say it, in words of their own: a part of what they say is enough. LGPL and MPL allow use as it is.
LICENCES: tuple[str, ...] = (
    "apache",
    "mit",
    "bsd",
    "isc",
    "psf",
    "python software foundation",
    "mpl",
    "mozilla",
    "lgpl",
    "unlicense",
)
LICENCES += ("lesser general public", "0bsd", "zlib", "cc0", "public domain", "hpnd", "zpl", "zope public", "artistic")
_GPL = re.compile(r"(?<![a-z])a?gpl|general public", re.IGNORECASE)


def pinned(text: str) -> dict[str, str]:
    """Versions by name of a constraints file."""
    lines = (line.partition("#")[0].partition(";")[0].strip() for line in text.splitlines())
    return {
        canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines) if version
    }


@dataclass(frozen=True)
class BadVersions:
    """Versions of a package that must not be used, and why."""

    name: str
    versions: SpecifierSet
    reason: str


def known_bad(text: str) -> list[BadVersions]:
    """Of lines of ``name<version reason``. Raises ``packaging.requirements.InvalidRequirement``."""
    found = []
    for line in text.splitlines():
        what, _, reason = line.partition("#")[0].strip().partition(" ")
        if what:
            need = Requirement(what)
            found.append(BadVersions(canonicalize_name(need.name), need.specifier, reason.strip()))
    return found


def used_anyway(pins: Mapping[str, str], bad: Iterable[BadVersions]) -> Iterator[str]:
    """One sentence for each pin that is one of them."""
    for one in bad:
        version = pins.get(one.name)
        if version is not None and one.versions.contains(version, prereleases=True):
            yield f"{one.name} {version} must not be used: {one.reason}"


def differences(installed: Mapping[str, str], pins: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each package that is not as it is pinned."""
    for name, version in sorted(installed.items()):
        if name in _NOT_PINNED:
            continue
        if name not in pins:
            yield f"{name} {version} is installed, but constraints.txt does not name it: pin it there, or remove it"
        elif pins[name] != version.partition("+")[0]:
            yield f"{name} {version} is installed, but constraints.txt has {pins[name]}: run make setup"


def licence(found: Distribution) -> str:
    """What its metadata say of it, in one text."""
    told = [line.partition("\n")[0] for name in ("License-Expression", "License") for line in _all(found, name)]
    told += [one.rpartition("::")[2] for one in _all(found, "Classifier") if one.startswith("License")]
    return "; ".join(one.strip() for one in told if one.strip())


def _all(found: Distribution, name: str) -> list[str]:
    return found.metadata.get_all(name) or []


def allowed(text: str) -> bool:
    """Whether a licence is one of those that are allowed; nothing is told by an empty text."""
    lower = text.lower()
    strict = _GPL.search(lower.replace("lgpl", "").replace("lesser general public", ""))
    return any(one in lower for one in LICENCES) and not (strict and " or " not in lower)


def shipped(name: str = PROJECT, extras: tuple[str, ...] = _SHIPPED, seen: set[str] | None = None) -> set[str]:
    """The packages that users get with this project and its extras, as far as they are installed."""
    seen = set() if seen is None else seen
    try:
        needs = distribution(name).requires or ()
    except ModuleNotFoundError:  # not for this platform, or left out
        return seen
    for text in needs:
        need = Requirement(text)
        inner = canonicalize_name(need.name)
        wanted = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)
        if wanted and inner not in seen and inner != PROJECT:
            seen.add(inner)
            shipped(inner, ("", *need.extras), seen)
    return seen


def main() -> int:
    """The code to exit with."""
    installed: dict[str, str] = {canonicalize_name(one.metadata["Name"]): one.version for one in distributions()}
    pins = pinned((ROOT / "constraints.txt").read_text())
    wrong = list(differences(installed, pins))
    wrong += used_anyway(pins, known_bad((ROOT / "scripts/known-bad.txt").read_text()))
    for name in sorted(shipped() & installed.keys()):
        text = licence(distribution(name))
        if not allowed(text):
            wrong.append(f"{name} has the licence '{text or 'none'}', which is not among those that are allowed")
    print("\n".join(wrong) if wrong else f"{len(installed)} packages are as constraints.txt has them")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
