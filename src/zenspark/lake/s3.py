"""S3 configuration and credentials, shared by deltalake, Arrow and Spark tasks on other machines.

They are given as deltalake's `storage_options`, or in the standard AWS environment variables; options take precedence.
The options that the driver resolves are pickled to the tasks with the `StoragePath`. Without credentials in either,
each process uses its own: a profile in its home directory, or the role of its machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from pyarrow import fs

OPTION_PREFIX = "AWS_"
ENVIRONMENT_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_SKIP_SIGNATURE",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
)
"""Environment variables that are read; of aliases the last one wins."""
OPTION_ALIASES = {
    "AWS_TOKEN": "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION": "AWS_REGION",
    "AWS_ENDPOINT": "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3": "AWS_ENDPOINT_URL",
}
"""Canonical names of aliases."""
ALLOW_HTTP = "AWS_ALLOW_HTTP"
KNOWN_OPTIONS = {*ENVIRONMENT_VARIABLES, *OPTION_ALIASES, ALLOW_HTTP}
CREDENTIAL_OPTIONS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
DEFAULT_REGION = "us-east-1"
"""Region for a server with its own endpoint."""
TRUE_VALUES = ("true", "1", "yes", "on")
MAX_ATTEMPTS, MAX_PROBE_ATTEMPTS = 8, 3
"""Attempts of a request: enough for an outage of some seconds, and for a quick access check."""
CREDENTIAL_ERRORS = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "INVALID_CLIENT_TOKEN_ID",
    "EXPIRED",
)

Options = Mapping[str, str]


def resolve_options(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """Merge options and environment variables under canonical names, as deltalake accepts them."""
    explicit = _canonicalize_names(options)
    resolved = _canonicalize_names({name: environ[name] for name in ENVIRONMENT_VARIABLES if environ.get(name)})
    if any(name in explicit for name in CREDENTIAL_OPTIONS):  # credentials of two users are never mixed
        resolved = {name: value for name, value in resolved.items() if name not in CREDENTIAL_OPTIONS}
    resolved |= explicit
    endpoint = resolved.get("AWS_ENDPOINT_URL")
    if endpoint is not None:
        resolved.setdefault("AWS_REGION", DEFAULT_REGION)
    if endpoint is not None and endpoint.startswith("http://"):
        resolved[ALLOW_HTTP] = "true"
    return resolved


def _canonicalize_names(options: Options) -> dict[str, str]:
    """Replace option names by their canonical form; options that are not about S3 are unchanged."""
    canonical = {}
    for name, value in options.items():
        full = name.upper() if name.upper().startswith(OPTION_PREFIX) else OPTION_PREFIX + name.upper()
        canonical[OPTION_ALIASES.get(full, full) if full in KNOWN_OPTIONS else name] = value
    return canonical


def filesystem(options: Options, attempts: int = MAX_ATTEMPTS) -> fs.S3FileSystem:
    """Arrow's S3 filesystem for resolved options."""
    return _filesystem(frozenset(options.items()), attempts)


@cache  # shared: each filesystem has its own threads and connections
def _filesystem(resolved_options: frozenset[tuple[str, str]], attempts: int) -> fs.S3FileSystem:
    options = dict(resolved_options)
    return fs.S3FileSystem(
        access_key=options.get("AWS_ACCESS_KEY_ID"),
        secret_key=options.get("AWS_SECRET_ACCESS_KEY"),
        session_token=options.get("AWS_SESSION_TOKEN"),
        anonymous=_is_set(options, "AWS_SKIP_SIGNATURE"),
        region=options.get("AWS_REGION"),
        endpoint_override=options.get("AWS_ENDPOINT_URL"),
        force_virtual_addressing=_is_set(options, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
        allow_delayed_open=True,  # a small file is one request
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
    )


def _is_set(options: Options, name: str) -> bool:
    return options.get(name, "").lower() in TRUE_VALUES


def check_access(path: str, options: Options) -> str | None:
    """Check access to a path with a read-only request; describes the problem, or returns None."""
    try:
        filesystem(options, MAX_PROBE_ATTEMPTS).get_file_info(fs.FileSelector(f"{path}/_nothing"))
    except FileNotFoundError:
        return None  # the bucket is accessible
    except OSError as error:
        return explain_error(str(error), path.split("/")[0], options.get("AWS_ENDPOINT_URL", "AWS"))
    return None


def explain_error(text: str, bucket: str, endpoint: str) -> str:
    """Explain an error message of Arrow's S3 filesystem."""
    match = re.search(r"AWS Error (\w+)", text)
    code = match[1] if match else ""
    if code == "NO_SUCH_BUCKET":
        return f"there is no bucket {bucket!r} at {endpoint}"
    if code.startswith(CREDENTIAL_ERRORS):
        return f"{endpoint} refuses the credentials ({code})"
    if code == "NETWORK_CONNECTION":
        return f"{endpoint} cannot be reached ({text.split('Details: ')[-1].strip()})"
    return f"{endpoint} refuses the request ({' '.join(text.split())})"
