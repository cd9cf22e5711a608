"""Directories of a lake, wherever they are: the one place that lists, reads and removes files.

An address is a path of this machine, a `file://` URI, or the URI of a filesystem that both Arrow and deltalake reach.
Spark, Arrow and the Delta log each spell the same address in their own way.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore, from_url
from pyarrow import fs

from zenspark.errors import LakeError, UsageError
from zenspark.lake import s3

S3_SCHEME = "s3://"
NO_HARD_LINK_ERRORS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
HADOOP_SCHEMES = {"s3": "s3a", "gs": "gs", "abfs": "abfss"}
"""What Spark's filesystems call what the others call by the name on the left."""


@dataclass(frozen=True)
class FileInfo:
    """A file in a location: its path there, and its size."""

    path: str
    size: int


@dataclass(frozen=True)
class StoragePath:
    """One directory; it need not exist before something is written there."""

    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What deltalake needs to reach it, as `storage_options`; on S3 Arrow needs it too. There may be secrets in it."""

    @classmethod
    def at(cls, address: str | Path, options: Mapping[str, str] | None = None) -> StoragePath:
        """The location an address names; paths become absolute, `file://` URIs paths."""
        text = re.sub("^s3[an]://", S3_SCHEME, str(address))
        if text.startswith("file:"):
            text = unquote(urlsplit(text).path)
        if "://" not in text:
            text = str(Path(text).absolute())
        if text.startswith(S3_SCHEME):
            options = s3.resolve_options(options or {}, os.environ)
        return cls(text.rstrip("/"), options or {})

    def __reduce__(self) -> tuple[type[StoragePath], tuple[str, Mapping[str, str]]]:
        return StoragePath, (self.address, self.options)  # connections stay where they are

    @property
    def is_local(self) -> bool:
        return "://" not in self.address

    @property
    def spark_uri(self) -> str:
        """The address for Spark, which takes names as they are, without percent signs for other characters."""
        if self.is_local:
            return f"file://{self.address}"
        scheme, rest = self.address.split("://", 1)
        return f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}"

    def __truediv__(self, name: str) -> StoragePath:
        return StoragePath(f"{self.address}/{name}", self.options)

    @cached_property
    def _arrow(self) -> tuple[fs.FileSystem, str]:
        if self.is_local:
            return fs.LocalFileSystem(), self.address
        if self.address.startswith(S3_SCHEME):
            return s3.filesystem(self.options), self.address.removeprefix(S3_SCHEME)
        try:
            found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(self.address)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"{self.address}: {error}") from None
        return found

    def check(self) -> None:
        """Says what is wrong with the place itself, if anything, before something is begun there."""
        if self.address.startswith(S3_SCHEME):
            problem = s3.check_access(self.address.removeprefix(S3_SCHEME), self.options)
            if problem is not None:
                raise LakeError(self.address, problem)

    def _at(self, path: str) -> tuple[fs.FileSystem, str]:
        system, root = self._arrow
        return system, f"{root}/{path}" if path else root

    def exists(self, path: str = "") -> bool:
        system, where = self._at(path)
        return bool(system.get_file_info(where).type != fs.FileType.NotFound)

    def files(self, path: str = "", suffix: str = "") -> list[FileInfo]:
        """All files below a directory, by path; none if there is no such directory."""
        system, where = self._at(path)
        _, root = self._arrow
        found = system.get_file_info(fs.FileSelector(where, allow_not_found=True, recursive=True))
        return sorted(
            (FileInfo(info.path[len(root) + 1 :], info.size) for info in found if _is_file(info, suffix)),
            key=lambda file: file.path,
        )

    def names(self, path: str = "") -> list[str]:
        """What stands directly in a directory; nothing if there is none."""
        system, where = self._at(path)
        found = system.get_file_info(fs.FileSelector(where, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def open(self, path: str) -> pa.NativeFile:
        """Opens a file to read anywhere in it."""
        system, where = self._at(path)
        return system.open_input_file(where)

    def read(self, path: str) -> bytes | None:
        """The content of a small file, or None if there is none."""
        system, where = self._at(path)
        try:
            with system.open_input_stream(where) as stream:
                content: bytes = stream.read()
        except FileNotFoundError:
            return None
        return content

    def write(self, path: str, content: bytes) -> None:
        """Writes a small file whole: whoever reads it finds the old content or the new."""
        system, where = self._made(path)
        written = f"{where}.{uuid4().hex}.tmp" if self.is_local else where  # elsewhere a file appears when it is closed
        with system.open_output_stream(written) as stream:
            stream.write(content)
        if written != where:
            system.move(written, where)

    def create(self, path: str, content: bytes) -> bool:
        """Write a small file unless there is one of that name, in one step; whether it was written."""
        if not self.is_local:
            return self._created_elsewhere(path, content)
        _, where = self._made(path)
        draft = f"{where.rsplit('/', 1)[0]}/.{uuid4().hex}.tmp"
        try:
            with open(draft, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _link_exclusive(draft, where, content)
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        return True

    def _created_elsewhere(self, path: str, content: bytes) -> bool:
        try:
            obstore.put(self._objects, path, content, mode="create")
        except AlreadyExistsError:
            return False
        except BaseError as error:
            raise OSError(str(error).split("\n")[0]) from error
        return True

    @cached_property
    def _objects(self) -> ObjectStore:
        """The location for the one thing that Arrow cannot do: to write only what is not there."""
        config: Any = {name: value for name, value in self.options.items() if name != s3.ALLOW_HTTP} or None
        return from_url(
            self.address,
            config=config,
            client_options={"allow_http": True} if s3.ALLOW_HTTP in self.options else None,
        )

    def open_output(self, path: str) -> pa.NativeFile:
        """Opens a new file to write, and makes its directory."""
        system, where = self._made(path)
        return system.open_output_stream(where)

    def _made(self, path: str) -> tuple[fs.FileSystem, str]:
        """A place for a file: its directory is there, if there are directories at all."""
        system, where = self._at(path)
        if not self.address.startswith(S3_SCHEME):
            system.create_dir(where.rsplit("/", 1)[0], recursive=True)
        return system, where

    def remove(self, path: str) -> None:
        """Removes a file, or a directory with everything in it; nothing if it is not there."""
        system, where = self._at(path)
        match system.get_file_info(where).type:
            case fs.FileType.Directory:
                system.delete_dir(where)
            case fs.FileType.File:
                system.delete_file(where)

    def move(self, path: str, to: str) -> None:
        """Give a directory of a local disk another name."""
        system, where = self._at(path)
        _, target = self._made(to)
        system.move(where, target)

    def copy(self, path: str, location: StoragePath, to: str) -> None:
        """Copy a file into another location of the same place."""
        system, where = self._at(path)
        _, target = location._made(to)
        system.copy_file(where, target)

    def link(self, path: str, to: str) -> None:
        """Give a file a second name: on a local disk without a copy, elsewhere by one. An older one is replaced."""
        if not self.is_local:
            self.copy(path, self, to)
            return
        _, where = self._at(path)
        _, target = self._made(to)
        with suppress(FileNotFoundError):
            os.unlink(target)
        os.link(where, target)


def _link_exclusive(draft: str, where: str, content: bytes) -> None:
    """Give a file its name if there is none of that name; where a disk has no hard links, write it under that name."""
    try:
        os.link(draft, where)
    except OSError as error:
        if error.errno not in NO_HARD_LINK_ERRORS:
            raise
        with open(where, "xb") as file:
            file.write(content)


def _is_file(info: fs.FileInfo, suffix: str) -> bool:
    return bool(info.type == fs.FileType.File and info.path.endswith(suffix))
