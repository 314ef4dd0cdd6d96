"""The import rule: a file imports only from what stands left of it in ORDER, and siblings never import each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "kvlab"
ORDER = [
    {"core"},
    {"store", "variants"},
    {"facts", "families", "engines", "readers", "runners", "traces", "workload", "rules", "diagnoses"},
    {
        "causes",
        "options",
        "machine",
        "ports",
        "interrupts",
        "logsize",
        "detect",
        "source",
        "logs",
        "verdict",
        "request",
        "overhead",
        "manifests",
        "prices",
        "kinds",
        "tables",
        "supervisor",
        "recordings",
    },
    {"speed", "calibration", "observe", "failing", "supervised"},
    {"ranges", "tiering", "freeroom", "servedname"},
    {"planning", "launch", "load", "symptoms"},
    {"reasons", "external"},
    {"breakers", "on_ray"},
    {"attach", "codes", "sizing", "deploy", "flagcheck", "following", "rightsize"},
    {"grid", "polling", "interventions"},
    {"diagnosing"},
    {"asked"},
    {"prompts", "answers", "sharing", "lab", "settings"},
    {"exams", "harness", "needles", "sandbox"},
    {"haystack"},
    {"gates"},
    {"preflight", "serving", "measuring"},
    {"gate"},
    {"judging"},
    {"experiment", "showcase", "sweeping"},
    {"lockfile", "resuming"},
    {"weightfiles"},
    {"freezing"},
    {"frozenfiles", "refit"},
    {"repeating"},
    {"verifying"},
    {"timeline"},
    {"reporting"},
    {"prefixing", "keeping", "swept", "rightsized"},
    {"api"},
    {"cli"},
]
VARIANTS = (
    *("diagnoses", "engines", "exams", "families", "gates", "needles", "readers", "recordings", "rules", "runners"),
    "traces",
)
FILES = sorted(SRC.rglob("*.py"))


def area(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def rank(name: str) -> int:
    return next(at for at, areas in enumerate(ORDER) if name in areas)


def imported(file: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {module for module in modules if module.startswith("kvlab.")}


def module_of(file: Path) -> str:
    parts = ("kvlab", *file.relative_to(SRC).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_imports_only_from_the_left(file: Path) -> None:
    here = area(module_of(file))
    if here in ("", "__main__"):
        return
    for module in imported(file):
        there = area(module)
        known = any(there in areas for areas in ORDER)
        if known and there != here:
            assert rank(there) < rank(here), f"{module_of(file)} imports {module}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_nobody_imports_a_variant_by_name(file: Path) -> None:
    here = module_of(file).split(".")
    for module in imported(file):
        there = module.split(".")
        if len(there) > 2 and there[1] in VARIANTS and _is_variant(there):
            assert here[:3] == there[:3], f"{module_of(file)} names the variant {module}"


def _is_variant(parts: list[str]) -> bool:
    if parts[2].startswith("_"):  # what variants share
        return False
    folder = SRC / parts[1]
    return (folder / parts[2]).is_dir() or (folder / f"{parts[2]}.py").is_file()


def test_every_area_has_its_place() -> None:
    areas = {area(module_of(file)) for file in FILES} - {"", "__main__"}
    assert areas <= set().union(*ORDER)
