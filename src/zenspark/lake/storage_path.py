"""Directories of a lake on a local disk or in an object store: listing, reading, writing and deleting files.

An address is a local path, a `file://` URI, or the URI of a filesystem that both Arrow and deltalake support. Spark,
Arrow and deltalake use different forms of the same address.
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
"""URI schemes of Hadoop filesystems, by the scheme that Arrow and deltalake use."""


@dataclass(frozen=True)
class FileInfo:
    """Path of a file relative to its location, and its size in bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class StoragePath:
    """One directory; the first write creates it."""

    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """deltalake's `storage_options`, on S3 also used by Arrow; may have secrets."""

    @classmethod
    def at(cls, address: str | Path, options: Mapping[str, str] | None = None) -> StoragePath:
        """Parse an address; makes paths absolute, and converts `file://` URIs to paths."""
        text = re.sub("^s3[an]://", S3_SCHEME, str(address))
        if text.startswith("file:"):
            text = unquote(urlsplit(text).path)
        if "://" not in text:
            text = str(Path(text).absolute())
        if text.startswith(S3_SCHEME):
            options = s3.resolve_options(options or {}, os.environ)
        return cls(text.rstrip("/"), options or {})

    def __reduce__(self) -> tuple[type[StoragePath], tuple[str, Mapping[str, str]]]:
        return StoragePath, (self.address, self.options)  # connections are not pickled

    @property
    def is_local(self) -> bool:
        return "://" not in self.address

    @property
    def spark_uri(self) -> str:
        """The URI for Spark, whose paths are not percent-encoded."""
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
            resolved: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(self.address)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"{self.address}: {error}") from None
        return resolved

    def check(self) -> None:
        """Check access before the first use; raises LakeError."""
        if self.address.startswith(S3_SCHEME):
            problem = s3.check_access(self.address.removeprefix(S3_SCHEME), self.options)
            if problem is not None:
                raise LakeError(self.address, problem)

    def _resolve(self, path: str) -> tuple[fs.FileSystem, str]:
        system, root = self._arrow
        return system, f"{root}/{path}" if path else root

    def exists(self, path: str = "") -> bool:
        system, where = self._resolve(path)
        return bool(system.get_file_info(where).type != fs.FileType.NotFound)

    def files(self, path: str = "", suffix: str = "") -> list[FileInfo]:
        """List files below a directory recursively, sorted by path; empty if it does not exist."""
        system, where = self._resolve(path)
        _, root = self._arrow
        infos = system.get_file_info(fs.FileSelector(where, allow_not_found=True, recursive=True))
        return sorted(
            (FileInfo(info.path[len(root) + 1 :], info.size) for info in infos if _is_file(info, suffix)),
            key=lambda file: file.path,
        )

    def names(self, path: str = "") -> list[str]:
        """List the names in a directory; empty if it does not exist."""
        system, where = self._resolve(path)
        infos = system.get_file_info(fs.FileSelector(where, allow_not_found=True))
        return sorted(info.base_name for info in infos)

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        system, where = self._resolve(path)
        return system.open_input_file(where)

    def read(self, path: str) -> bytes | None:
        """Read a small file; None if it does not exist."""
        system, where = self._resolve(path)
        try:
            with system.open_input_stream(where) as stream:
                content: bytes = stream.read()
        except FileNotFoundError:
            return None
        return content

    def write(self, path: str, content: bytes) -> None:
        """Write a small file atomically: a reader gets the old content or the new."""
        system, where = self._create_parent(path)
        written = f"{where}.{uuid4().hex}.tmp" if self.is_local else where  # an object appears when it is closed
        with system.open_output_stream(written) as stream:
            stream.write(content)
        if written != where:
            system.move(written, where)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """Write a small file atomically unless it exists. Returns whether it was written."""
        if not self.is_local:
            return self._put_object_if_absent(path, content)
        _, where = self._create_parent(path)
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

    def _put_object_if_absent(self, path: str, content: bytes) -> bool:
        try:
            obstore.put(self._object_store, path, content, mode="create")
        except AlreadyExistsError:
            return False
        except BaseError as error:
            raise OSError(str(error).split("\n")[0]) from error
        return True

    @cached_property
    def _object_store(self) -> ObjectStore:
        """obstore client, for conditional writes, which Arrow does not support."""
        config: Any = {name: value for name, value in self.options.items() if name != s3.ALLOW_HTTP} or None
        return from_url(
            self.address,
            config=config,
            client_options={"allow_http": True} if s3.ALLOW_HTTP in self.options else None,
        )

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing, and create its directory."""
        system, where = self._create_parent(path)
        return system.open_output_stream(where)

    def _create_parent(self, path: str) -> tuple[fs.FileSystem, str]:
        """Resolve a path for writing: creates its directory, on filesystems that have directories."""
        system, where = self._resolve(path)
        if not self.address.startswith(S3_SCHEME):
            system.create_dir(where.rsplit("/", 1)[0], recursive=True)
        return system, where

    def remove(self, path: str) -> None:
        """Delete a file, or a directory recursively; does nothing if it does not exist."""
        system, where = self._resolve(path)
        match system.get_file_info(where).type:
            case fs.FileType.Directory:
                system.delete_dir(where)
            case fs.FileType.File:
                system.delete_file(where)

    def move(self, path: str, to: str) -> None:
        """Rename a directory on a local disk."""
        system, where = self._resolve(path)
        _, target = self._create_parent(to)
        system.move(where, target)

    def copy(self, path: str, location: StoragePath, to: str) -> None:
        """Copy a file to another location of the same filesystem."""
        system, where = self._resolve(path)
        _, target = location._create_parent(to)
        system.copy_file(where, target)

    def link(self, path: str, to: str) -> None:
        """Make a file available under a second path, by a hard link or an object copy; replaces the target."""
        if not self.is_local:
            self.copy(path, self, to)
            return
        _, where = self._resolve(path)
        _, target = self._create_parent(to)
        with suppress(FileNotFoundError):
            os.unlink(target)
        os.link(where, target)


def _link_exclusive(draft: str, where: str, content: bytes) -> None:
    """Hard-link a file to a new path, atomically; without support for hard links, create the file exclusively."""
    try:
        os.link(draft, where)
    except OSError as error:
        if error.errno not in NO_HARD_LINK_ERRORS:
            raise
        with open(where, "xb") as file:
            file.write(content)


def _is_file(info: fs.FileInfo, suffix: str) -> bool:
    return bool(info.type == fs.FileType.File and info.path.endswith(suffix))
