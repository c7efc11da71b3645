"""How many classes are certified, and how many a graph was found to change, as the radius grows; kept in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fishergcn._base.checks import check_text
from fishergcn._base.entries import Entries
from fishergcn._base.records import load_record, save_record
from fishergcn._base.reprs import one_line
from fishergcn.certificates._certify import Certificate
from fishergcn.errors import InputError

_FORMAT, _VERSION = "fishergcn-certificates", 1


@dataclass(frozen=True)
class CertifiedCurve:
    """Counts of ``nodes`` nodes at ascending ``radii``; ``title`` says of which network on which graph.

    ``bound`` is that of λ_max(L), None for none.
    """

    title: str
    nodes: int
    bound: float | None
    radii: tuple[float, ...]
    certified: tuple[int, ...]
    broken: tuple[int, ...]

    __repr__ = one_line

    @classmethod
    def of(cls, title: str, found: Sequence[Certificate]) -> CertifiedCurve:
        """Count what was found at several radii for the same nodes."""
        ordered = sorted(found, key=lambda each: each.radius)
        counts = [each.counts() for each in ordered]
        return cls(
            title, len(ordered[0].nodes), ordered[0].bound, tuple(each.radius for each in ordered),
            tuple(each["certified"] for each in counts), tuple(each["broken"] for each in counts),
        )  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CertifiedCurve:
        """Undo :meth:`to_dict`; raise if something is missing or does not fit."""
        given = Entries(values, "the file", ["format", "version", *(each.name for each in dataclasses.fields(cls))])
        if (given.text("format"), given.whole("version")) != (_FORMAT, _VERSION):
            raise InputError(f"the format must be {_FORMAT!r} of version {_VERSION}.")
        nodes, radii = given.whole("nodes", minimum=1), given.reals("radii")
        certified, broken = given.wholes("certified"), given.wholes("broken")
        if not radii or not len(radii) == len(certified) == len(broken):
            raise InputError("there must be as many radii as counts, and at least one.")
        if (
            max(map(sum, zip(certified, broken, strict=True))) > nodes
            or min(radii) <= 0
            or list(radii) != sorted(radii)
        ):
            raise InputError(f"counts must add up to at most {nodes}, and radii must ascend from above 0.")
        return cls(
            check_text("title", given.text("title")), nodes, given.real_or_none("bound"), radii, certified, broken
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"format": _FORMAT, "version": _VERSION, **dataclasses.asdict(self)}

    def save(self, path: Path) -> None:
        """Write a JSON file, wholly or not at all."""
        save_record(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> CertifiedCurve:
        """Read what :meth:`save` wrote; anything else is refused with one sentence."""
        return load_record(path, cls.from_dict, "certificates of a model")
