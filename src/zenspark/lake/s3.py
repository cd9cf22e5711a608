"""How to get into S3, said once: for deltalake, for Arrow, and for tasks of Spark on other machines.

A user says it as the `storage_options` that deltalake has, or in the environment variables that all tools of AWS know;
options count more. What the driver finds there travels to the tasks with the location. Where neither has credentials,
each process looks for its own: a profile in its home directory, or the role of the machine it runs on.
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
"""The variables that count, of those with the same meaning the last."""
OPTION_ALIASES = {
    "AWS_TOKEN": "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION": "AWS_REGION",
    "AWS_ENDPOINT": "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3": "AWS_ENDPOINT_URL",
}
"""Other names of the same."""
ALLOW_HTTP = "AWS_ALLOW_HTTP"
KNOWN_OPTIONS = {*ENVIRONMENT_VARIABLES, *OPTION_ALIASES, ALLOW_HTTP}
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
DEFAULT_REGION = "us-east-1"
"""The region of a server that has none."""
TRUE_VALUES = ("true", "1", "yes", "on")
MAX_ATTEMPTS, MAX_PROBE_ATTEMPTS = 8, 3
"""How often something is tried: through an outage of some seconds, and only to see whether it works at all."""
CREDENTIAL_ERRORS = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "INVALID_CLIENT_TOKEN_ID",
    "EXPIRED",
)

Options = Mapping[str, str]


def resolve_options(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """All that is said of how to get in, under one name each: as deltalake takes it."""
    given = _canonicalize_names(options)
    found = _canonicalize_names({name: environ[name] for name in ENVIRONMENT_VARIABLES if environ.get(name)})
    if any(name in given for name in CREDENTIALS):  # those of two users are never mixed
        found = {name: value for name, value in found.items() if name not in CREDENTIALS}
    found |= given
    endpoint = found.get("AWS_ENDPOINT_URL")
    if endpoint is not None:
        found.setdefault("AWS_REGION", DEFAULT_REGION)
    if endpoint is not None and endpoint.startswith("http://"):
        found[ALLOW_HTTP] = "true"
    return found


def _canonicalize_names(options: Options) -> dict[str, str]:
    """With one spelling of each name, of the several that deltalake knows; what is not about S3 stays as it is."""
    found = {}
    for name, value in options.items():
        full = name.upper() if name.upper().startswith(OPTION_PREFIX) else OPTION_PREFIX + name.upper()
        found[OPTION_ALIASES.get(full, full) if full in KNOWN_OPTIONS else name] = value
    return found


def filesystem(options: Options, attempts: int = MAX_ATTEMPTS) -> fs.S3FileSystem:
    """S3 for Arrow, by settled options."""
    return _filesystem(frozenset(options.items()), attempts)


@cache  # one for all folders: each has its own threads and connections
def _filesystem(settled_options: frozenset[tuple[str, str]], attempts: int) -> fs.S3FileSystem:
    options = dict(settled_options)
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
    """What keeps us from a place, in one sentence; None if nothing does. Quick, and without a trace."""
    try:
        filesystem(options, MAX_PROBE_ATTEMPTS).get_file_info(fs.FileSelector(f"{path}/_nothing"))
    except FileNotFoundError:
        return None  # the bucket answers that there is no such thing
    except OSError as error:
        return explain_error(str(error), path.split("/")[0], options.get("AWS_ENDPOINT_URL", "AWS"))
    return None


def explain_error(text: str, bucket: str, endpoint: str) -> str:
    """What Arrow says is wrong, in words."""
    found = re.search(r"AWS Error (\w+)", text)
    code = found[1] if found else ""
    if code == "NO_SUCH_BUCKET":
        return f"there is no bucket {bucket!r} at {endpoint}"
    if code.startswith(CREDENTIAL_ERRORS):
        return f"{endpoint} refuses the credentials ({code})"
    if code == "NETWORK_CONNECTION":
        return f"{endpoint} cannot be reached ({text.split('Details: ')[-1].strip()})"
    return f"{endpoint} does not let us work there ({' '.join(text.split())})"
