"""A wall clock that can be stepped for chosen processes: a shared library that adds an offset to system time.

Programs that start with `environ` see the machine's time plus the offset; monotonic clocks are left alone.
"""

from __future__ import annotations

import contextlib
import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) offset = page;
    close(file);
}

static long shift(void) { return offset ? *offset : 0; }

int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, found);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) found->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""


class ShiftedClock:
    """The clock of the processes that were started with `environ`."""

    def __init__(self, environ: dict[str, str], page: mmap.mmap) -> None:
        self.environ = environ
        self._page = page

    def set(self, seconds: int) -> None:
        """Have it differ from the machine's by so much from now on."""
        self._page[:8] = struct.pack("q", seconds)


@contextlib.contextmanager
def shifted_clock(directory: Path) -> Iterator[ShiftedClock]:
    """A clock that is right at first."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("the library that shifts the clock needs a C compiler")
    source, library, offset = (directory / f"shifted_clock{end}" for end in (".c", ".so", ".offset"))
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    offset.write_bytes(bytes(mmap.PAGESIZE))
    with open(offset, "r+b") as file, mmap.mmap(file.fileno(), mmap.PAGESIZE) as page:
        yield ShiftedClock({"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(offset)}, page)
