"""An S3 server on loopback, as a process of its own: moto's, which keeps objects in memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

from pyarrow import fs

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""
KEY, SECRET = "testing", "quite secret"


@dataclass(frozen=True)
class S3:
    """A server that runs."""

    endpoint: str

    @property
    def environ(self) -> dict[str, str]:
        """What a user sets who works with it."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}

    @property
    def options(self) -> dict[str, str]:
        """The same as options of deltalake."""
        return {"endpoint": self.endpoint, "access_key_id": KEY, "secret_access_key": SECRET}

    def files(self) -> fs.S3FileSystem:
        """Its content, as Arrow sees it by itself."""
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            region="us-east-1",
            endpoint_override=self.endpoint,
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def remove(self, bucket: str) -> None:
        """With all that is in it."""
        files = self.files()
        files.delete_dir_contents(bucket)
        files.delete_dir(bucket)

    def bucket(self) -> str:
        """A new one."""
        name = f"fleet-{uuid4().hex}"
        self.files().create_dir(name)
        return name


@contextlib.contextmanager
def serving(settings: Mapping[str, str] | None = None) -> Iterator[S3]:
    """A server, with settings of moto, until the end."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env=os.environ | dict(settings or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield S3(process.stdout.readline().strip())
        finally:
            process.kill()
