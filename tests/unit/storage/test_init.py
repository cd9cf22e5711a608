from __future__ import annotations

import subprocess
import sys

import pytest

MODULES = "import sys, zenspark.storage, zenspark.storage.manager, zenspark.storage.settings"


@pytest.mark.slow
def test_storage_imports_no_spark() -> None:
    script = f"{MODULES}; print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    completed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert completed.stdout == "[]\n"
