"""OpenMetrics text: families of metrics, declared once, and their samples, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

MEDIA_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels: TypeAlias = Mapping[str, str]


class Family(msgspec.Struct, frozen=True):
    """A family of metrics: name without suffix, type, help text and labels."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def sample_names(self) -> tuple[str, ...]:
        """Names of its samples, with suffixes."""
        suffixes = {"counter": ("_total",), "info": ("_info",), "histogram": ("_bucket", "_sum", "_count")}
        return tuple(f"{self.name}{suffix}" for suffix in suffixes.get(self.kind, ("",)))


MetricSample: TypeAlias = tuple[Family, Labels, float]
"""A family, labels and the value."""


def format_families(
    families: Iterable[Family], samples: Iterable[MetricSample], lines_of: Mapping[Family, Iterable[str]] | None = None
) -> Iterator[str]:
    """Yield families with their samples, line by line; `lines_of` has samples that are formatted already."""
    lines_by_family: dict[Family, list[str]] = {family: list((lines_of or {}).get(family, ())) for family in families}
    for family, labels, value in samples:
        lines_by_family[family].append(f"{family.sample_names[0]}{format_labels(labels)} {value:.15g}")
    for family, lines in lines_by_family.items():
        yield f"# HELP {family.name} {family.help}"
        yield f"# TYPE {family.name} {family.kind}"
        yield from lines
    yield "# EOF"


def samples_by_label(family: Family, label: str, values: Mapping[str, float]) -> Iterator[MetricSample]:
    """Yield a sample for each value of a label, in order."""
    for name, value in sorted(values.items()):
        yield family, {label: name}, value


def format_labels(labels: Labels) -> str:
    """Format labels, and escape backslashes, quotes and line breaks in their values."""
    if not labels:
        return ""
    texts = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in texts.items()) + "}"
