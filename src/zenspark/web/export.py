"""Samples as files: CSV, JSON lines of documents, or Parquet with the sample schema."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from zenspark.arrow.decode import concat_chunks
from zenspark.arrow.schema import SCHEMA
from zenspark.handlers.arrow import chunk_from_samples
from zenspark.types.payload_text import decode_text
from zenspark.types.sample import Sample
from zenspark.web.values import decode_json, iso


class ExportFormat(msgspec.Struct, frozen=True):
    """A file format: its suffix, media type, and the function that writes it."""

    suffix: str
    media_type: str
    write: Callable[[list[Sample]], bytes]


def export(samples: list[Sample], kind: ExportFormat) -> bytes:
    """Write samples in a format."""
    return kind.write(samples)


def _row(sample: Sample) -> dict[str, object]:
    payload, encoding = sample.payload.to_bytes(), str(sample.encoding)
    text = decode_text(payload, encoding)
    value = decode_json(payload, encoding)
    stamp = sample.timestamp
    return {
        "timestamp": None if stamp is None else iso(stamp.get_time()),
        "key": str(sample.key_expr),
        "kind": sample.kind.name,
        "encoding": encoding,
        "value": value if value is not None else text,
        "base64": None if text is not None or value is not None else base64.b64encode(payload).decode(),
    }


def _write_json(samples: list[Sample]) -> bytes:
    return msgspec.json.encode([_row(sample) for sample in samples])


def _write_csv(samples: list[Sample]) -> bytes:
    names = ["timestamp", "key", "kind", "encoding", "value", "base64"]
    rows = [_row(sample) for sample in samples]
    columns = {name: pa.array([_cell(row[name]) for row in rows], pa.string()) for name in names}
    output = io.BytesIO()
    pyarrow.csv.write_csv(pa.table(columns), output)
    return output.getvalue()


def _cell(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _write_parquet(samples: list[Sample]) -> bytes:
    batches = [concat_chunks([chunk_from_samples(samples, 0)])] if samples else []
    table = pa.Table.from_batches(batches, SCHEMA).drop_columns(["received_at", "via"])  # not known of stored samples
    output = io.BytesIO()
    pyarrow.parquet.write_table(table, output, compression="zstd")
    return output.getvalue()


DOWNLOAD_FORMATS = {
    "csv": ExportFormat("csv", "text/csv; charset=utf-8", _write_csv),
    "json": ExportFormat("json", "application/json", _write_json),
    "parquet": ExportFormat("parquet", "application/vnd.apache.parquet", _write_parquet),
}
