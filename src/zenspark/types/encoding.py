"""Encoding: the media type of a payload."""

from __future__ import annotations

from typing import ClassVar, Self

from zenspark.types.wire_value import WireValue
from zenspark.wire import values as wire

_TO_CONSTANT = str.maketrans("/-+", "___")


class Encoding(WireValue[wire.Encoding]):
    """The media type of a payload, such as `text/plain`, and after a `;` a schema that only applications interpret.

    The well-known types below are sent as one small number, any other as its text. An encoding equals its text and
    hashes like it, so a dictionary keyed by one is found by the other.

    Args:
        encoding: Its text, such as "application/json;v2"; `zenoh/bytes` by default.

    Raises:
        TypeError: It is no string.

    Example:
        >>> session.put("demo/a", "{}", encoding=zenspark.Encoding.APPLICATION_JSON)
    """

    __slots__ = ()

    def __init__(self, encoding: str | None = None) -> None:
        if not isinstance(encoding, str | None):
            raise TypeError(f"expected a str, found {type(encoding).__name__!r}")
        object.__setattr__(self, "_wire", wire.Encoding.parse(encoding or ""))

    @classmethod
    def of(cls, encoding: Encoding | str) -> Encoding:
        """Return an encoding as it is, and parse a text.

        Args:
            encoding: An encoding, or its text.

        Returns:
            The same encoding, or a new one.

        Raises:
            TypeError: It is neither.

        Example:
            >>> zenspark.Encoding.of("text/plain") == zenspark.Encoding.TEXT_PLAIN
            True
        """
        return encoding if isinstance(encoding, Encoding) else cls(encoding)

    def with_schema(self, schema: str) -> Self:
        """Return the same type with another schema.

        Args:
            schema: The schema.

        Returns:
            The encoding with that schema.

        Raises:
            TypeError: It is no string.

        Example:
            >>> zenspark.Encoding.TEXT_PLAIN.with_schema("utf-8")
            Encoding('text/plain;utf-8')
        """
        if not isinstance(schema, str):
            raise TypeError(f"expected a str, found {type(schema).__name__!r}")
        encoding = self._wire
        if encoding.id != wire.Encoding.CUSTOM:
            return self.from_wire(wire.Encoding(encoding.id, schema))
        name = (encoding.schema or "").partition(";")[0]  # a custom encoding keeps its name in the place of the schema
        return self.from_wire(wire.Encoding(encoding.id, ";".join(filter(None, (name, schema)))))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self._wire == wire.Encoding.parse(other)
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return str(self._wire)

    def __repr__(self) -> str:
        return f"Encoding({str(self)!r})"

    ZENOH_BYTES: ClassVar[Encoding]
    ZENOH_STRING: ClassVar[Encoding]
    ZENOH_SERIALIZED: ClassVar[Encoding]
    APPLICATION_OCTET_STREAM: ClassVar[Encoding]
    TEXT_PLAIN: ClassVar[Encoding]
    APPLICATION_JSON: ClassVar[Encoding]
    TEXT_JSON: ClassVar[Encoding]
    APPLICATION_CDR: ClassVar[Encoding]
    APPLICATION_CBOR: ClassVar[Encoding]
    APPLICATION_YAML: ClassVar[Encoding]
    TEXT_YAML: ClassVar[Encoding]
    TEXT_JSON5: ClassVar[Encoding]
    APPLICATION_PYTHON_SERIALIZED_OBJECT: ClassVar[Encoding]
    APPLICATION_PROTOBUF: ClassVar[Encoding]
    APPLICATION_JAVA_SERIALIZED_OBJECT: ClassVar[Encoding]
    APPLICATION_OPENMETRICS_TEXT: ClassVar[Encoding]
    IMAGE_PNG: ClassVar[Encoding]
    IMAGE_JPEG: ClassVar[Encoding]
    IMAGE_GIF: ClassVar[Encoding]
    IMAGE_BMP: ClassVar[Encoding]
    IMAGE_WEBP: ClassVar[Encoding]
    APPLICATION_XML: ClassVar[Encoding]
    APPLICATION_X_WWW_FORM_URLENCODED: ClassVar[Encoding]
    TEXT_HTML: ClassVar[Encoding]
    TEXT_XML: ClassVar[Encoding]
    TEXT_CSS: ClassVar[Encoding]
    TEXT_JAVASCRIPT: ClassVar[Encoding]
    TEXT_MARKDOWN: ClassVar[Encoding]
    TEXT_CSV: ClassVar[Encoding]
    APPLICATION_SQL: ClassVar[Encoding]
    APPLICATION_COAP_PAYLOAD: ClassVar[Encoding]
    APPLICATION_JSON_PATCH_JSON: ClassVar[Encoding]
    APPLICATION_JSON_SEQ: ClassVar[Encoding]
    APPLICATION_JSONPATH: ClassVar[Encoding]
    APPLICATION_JWT: ClassVar[Encoding]
    APPLICATION_MP4: ClassVar[Encoding]
    APPLICATION_SOAP_XML: ClassVar[Encoding]
    APPLICATION_YANG: ClassVar[Encoding]
    AUDIO_AAC: ClassVar[Encoding]
    AUDIO_FLAC: ClassVar[Encoding]
    AUDIO_MP4: ClassVar[Encoding]
    AUDIO_OGG: ClassVar[Encoding]
    AUDIO_VORBIS: ClassVar[Encoding]
    VIDEO_H261: ClassVar[Encoding]
    VIDEO_H263: ClassVar[Encoding]
    VIDEO_H264: ClassVar[Encoding]
    VIDEO_H265: ClassVar[Encoding]
    VIDEO_H266: ClassVar[Encoding]
    VIDEO_MP4: ClassVar[Encoding]
    VIDEO_OGG: ClassVar[Encoding]
    VIDEO_RAW: ClassVar[Encoding]
    VIDEO_VP8: ClassVar[Encoding]
    VIDEO_VP9: ClassVar[Encoding]


for _number, _name in enumerate(wire.Encoding.NAMES):
    setattr(Encoding, _name.upper().translate(_TO_CONSTANT), Encoding.from_wire(wire.Encoding(_number)))
