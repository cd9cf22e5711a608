# cython: language_level=3, freethreading_compatible=True
"""Matching of key expressions: intersection and inclusion (protocol section 12.2).

Both functions take canonical text and do not validate it, as `KeyExpr` does; for other text the result is undefined. A
single chunk is a key expression too, so they also match chunks.

Everything below them works on positions in the UTF-8 bytes and allocates nothing: matching takes less time than one
allocation. A part of a key expression is a run of chunks `text[start:end]`; it is exhausted when `start` has reached
`end`.

Stars are matched greedily, not by the recursion of the specification, which is exponential:

* Where only one side has stars, matching backtracks one step at a time, and only to the latest star: whatever an
  earlier star could still reach, the later one reaches as well. That is at most chunks times length steps between
  chunks; inside a chunk the texts between two `$*` are searched for in linear time.
* Where both sides have stars, the chunks before the first star of either side must agree in pairs, and so must those
  after the last one. The rest always agrees: each side's star matches what the other side has between.
* No star matches a verbatim chunk (12.3). So the verbatim chunks of both sides must be the same in the same order, and
  between them the rules above hold.
"""

from __future__ import annotations

import cython

if cython.compiled:  # pragma: no cover
    from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize

SLASH = cython.declare(cython.uchar, 0x2F)
STAR = cython.declare(cython.uchar, 0x2A)
DOLLAR = cython.declare(cython.uchar, 0x24)
AT = cython.declare(cython.uchar, 0x40)


def intersects(a: str, b: str) -> bool:
    """Whether some key matches both expressions."""
    if a == b:
        return True
    if "*" not in b:
        return "*" in a and _compare(a, b, True)
    if "*" not in a:
        return _compare(b, a, True)
    return _compare(a, b, False)


def includes(a: str, b: str) -> bool:
    """Whether every key that matches `b` also matches `a`.

    A few pairs are rejected although the sets would allow inclusion, as eclipse-zenoh does: `*/**` and `**/a`.
    """
    return a == b or ("*" in a and _compare(a, b, True))


@cython.cfunc
def _compare(a: str, b: str, inclusion: cython.bint) -> cython.bint:
    """Get the bytes of both, and test whether `a` includes `b`, or else whether they intersect."""
    a_size: cython.Py_ssize_t = 0
    b_size: cython.Py_ssize_t = 0
    a_text: cython.p_const_uchar
    b_text: cython.p_const_uchar
    if cython.compiled:  # pragma: no cover
        a_text = cython.cast(cython.p_const_uchar, PyUnicode_AsUTF8AndSize(a, cython.address(a_size)))
        b_text = cython.cast(cython.p_const_uchar, PyUnicode_AsUTF8AndSize(b, cython.address(b_size)))
    else:
        a_text, b_text = a.encode(), b.encode()
        a_size, b_size = len(a_text), len(b_text)
    if inclusion:
        return _matches_chunkwise(a_text, 0, a_size, b_text, 0, b_size, True)
    return _parts_intersect(a_text, 0, a_size, b_text, 0, b_size)


# --- runs of chunks -------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def _matches_chunkwise(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
    inclusion: cython.bint,
) -> cython.bint:
    """Whether part `a` matches all chunks of part `b`, one by one, or several by a `**`."""
    i_end: cython.Py_ssize_t
    j_end: cython.Py_ssize_t
    after_star: cython.Py_ssize_t = -1  # position in a behind its latest `**`
    taken: cython.Py_ssize_t = 0  # position in b up to which that `**` matches
    while j < b_end:
        if i < a_end:
            i_end = _chunk_end(a, i, a_end)
            if _is_star_star(a, i, i_end):
                i = after_star = i_end + 1
                taken = j
                continue
            j_end = _chunk_end(b, j, b_end)
            if _chunks_match(a, i, i_end, b, j, j_end, inclusion):
                i = i_end + 1
                j = j_end + 1
                continue
        if after_star < 0 or b[taken] == AT:
            return False
        i = after_star
        j = taken = _chunk_end(b, taken, b_end) + 1
    return _may_end(a, i, a_end)


@cython.cfunc
@cython.exceptval(check=False)
def _parts_intersect(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
) -> cython.bint:
    """Whether two parts intersect, whatever stars they have."""
    i_end: cython.Py_ssize_t
    j_end: cython.Py_ssize_t
    while i < a_end and j < b_end:
        i_end = _chunk_end(a, i, a_end)
        j_end = _chunk_end(b, j, b_end)
        if not (_is_star_star(a, i, i_end) or _is_star_star(b, j, j_end)):
            if not _chunks_match(a, i, i_end, b, j, j_end, False):
                return False
            i = i_end + 1
            j = j_end + 1
            continue
        # A `**` ends the pairing; it may go on at the next verbatim chunk.
        i_end = _plain_end(a, i, a_end)
        j_end = _plain_end(b, j, b_end)
        if not _plain_parts_intersect(a, i, i_end, b, j, j_end):
            return False
        i = i_end + 1
        j = j_end + 1
    return _may_end(a, i, a_end) and _may_end(b, j, b_end)


@cython.cfunc
@cython.exceptval(check=False)
def _plain_parts_intersect(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    a_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    b_end: cython.Py_ssize_t,
) -> cython.bint:
    """Whether two parts without verbatim chunks intersect; at least one of them starts with `**`."""
    i_start: cython.Py_ssize_t
    j_start: cython.Py_ssize_t
    if not _has_star_star(b, j, b_end):
        return _matches_chunkwise(a, i, a_end, b, j, b_end, False)
    if not _has_star_star(a, i, a_end):
        return _matches_chunkwise(b, j, b_end, a, i, a_end, False)
    while True:  # backwards, until one side comes to its last `**`
        i_start = _chunk_start(a, i, a_end)
        j_start = _chunk_start(b, j, b_end)
        if _is_star_star(a, i_start, a_end) or _is_star_star(b, j_start, b_end):
            return True
        if not _chunks_match(a, i_start, a_end, b, j_start, b_end, False):
            return False
        a_end = i_start - 1
        b_end = j_start - 1


@cython.cfunc
@cython.exceptval(check=False)
def _may_end(text: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether the rest of a part can match zero chunks."""
    return start >= end or _is_star_star(text, start, end)


@cython.cfunc
@cython.exceptval(check=False)
def _plain_end(text: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """End of the part before the next verbatim chunk; before `start` if the very next one is verbatim."""
    while start < end and text[start] != AT:
        start = _chunk_end(text, start, end) + 1
    return start - 1


@cython.cfunc
@cython.exceptval(check=False)
def _has_star_star(text: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    chunk_end: cython.Py_ssize_t
    while start < end:
        chunk_end = _chunk_end(text, start, end)
        if _is_star_star(text, start, chunk_end):
            return True
        start = chunk_end + 1
    return False


@cython.cfunc
@cython.exceptval(check=False)
def _chunk_end(text: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    while start < end and text[start] != SLASH:
        start += 1
    return start


@cython.cfunc
@cython.exceptval(check=False)
def _chunk_start(text: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    while end > start and text[end - 1] != SLASH:
        end -= 1
    return end


# --- single chunks --------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def _chunks_match(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    i_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    j_end: cython.Py_ssize_t,
    inclusion: cython.bint,
) -> cython.bint:
    """Whether chunk `a` includes chunk `b`, or else intersects it; `a` is not `**`, and `b` is only for inclusion."""
    if _is_same(a, i, i_end, b, j, j_end):
        return True
    if i == i_end or j == j_end or a[i] == AT or b[j] == AT:
        return False
    if a[i] == STAR:
        return not _is_star_star(b, j, j_end)
    if inclusion:
        return _has_dollar(a, i, i_end) and _glob_matches_chunk(a, i, i_end, b, j, j_end)
    if b[j] == STAR:
        return True
    if not _has_dollar(b, j, j_end):
        return _has_dollar(a, i, i_end) and _glob_matches_chunk(a, i, i_end, b, j, j_end)
    if not _has_dollar(a, i, i_end):
        return _glob_matches_chunk(b, j, j_end, a, i, i_end)
    return _same_ends(a, i, i_end, b, j, j_end)


@cython.cfunc
@cython.exceptval(check=False)
def _glob_matches_chunk(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    i_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    j_end: cython.Py_ssize_t,
) -> cython.bint:
    """Whether chunk `a`, which has a `$*`, takes all of chunk `b`: its `$*` any run of bytes, the rest itself.

    A `$*` of b is bytes like others. The texts between two `$*` are searched for in order, each at its first place:
    whatever a later place would leave for the rest, the first place leaves as well.
    """
    piece_end: cython.Py_ssize_t
    while i < i_end and a[i] != DOLLAR:
        if j >= j_end or a[i] != b[j]:
            return False
        i += 1
        j += 1
    while i < i_end and a[i_end - 1] != STAR:
        if j >= j_end or a[i_end - 1] != b[j_end - 1]:
            return False
        i_end -= 1
        j_end -= 1
    i += 2
    while i < i_end:
        piece_end = i
        while piece_end < i_end and a[piece_end] != DOLLAR:
            piece_end += 1
        if piece_end > i:  # always, in canonical text
            j = _search(a, i, piece_end, b, j, j_end)
            if j < 0:
                return False
            j += piece_end - i
        i = piece_end + 2
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _search(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    i_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    j_end: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Position of the first occurrence of part `a` in part `b`, -1 if there is none: two-way search, linear in both.

    `a` is cut where the periods to the left and right of the cut are longest. The right side is compared first: after
    a mismatch there nothing up to it can match. If the whole of `a` repeats with a period, what matched before a shift
    by that period is not compared again.
    """
    size: cython.Py_ssize_t = i_end - i
    forward: cython.Py_ssize_t = _greatest_suffix(a, i, i_end, False)
    reverse: cython.Py_ssize_t = _greatest_suffix(a, i, i_end, True)
    cut: cython.Py_ssize_t = max(forward, reverse) // (size + 1)
    period: cython.Py_ssize_t = max(forward, reverse) % (size + 1)
    repeats: cython.bint
    matched: cython.Py_ssize_t = 0  # bytes of the left side that are known to match
    at: cython.Py_ssize_t
    repeats = _is_same(a, i, i + cut, a, i + period, i + period + cut)
    if not repeats:
        period = max(cut, size - cut) + 1
    while j + size <= j_end:
        at = max(cut, matched)
        while at < size and a[i + at] == b[j + at]:
            at += 1
        if at < size:
            j += at - cut + 1
            matched = 0
            continue
        at = cut
        while at > matched and a[i + at - 1] == b[j + at - 1]:
            at -= 1
        if at <= matched:
            return j
        j += period
        matched = size - period if repeats else 0
    return -1


@cython.cfunc
@cython.exceptval(check=False)
def _greatest_suffix(
    a: cython.p_const_uchar, i: cython.Py_ssize_t, i_end: cython.Py_ssize_t, reverse: cython.bint
) -> cython.Py_ssize_t:
    """The suffix of a part that is greatest by the order of its bytes, or by the reverse: where it starts, times the
    size of the part and one, plus its period."""
    size: cython.Py_ssize_t = i_end - i
    suffix: cython.Py_ssize_t = 0
    period: cython.Py_ssize_t = 1
    rival: cython.Py_ssize_t = 1
    same: cython.Py_ssize_t = 0
    while rival + same < size:
        if a[i + suffix + same] == a[i + rival + same]:
            same += 1
            if same == period:
                rival += period
                same = 0
        elif (a[i + suffix + same] > a[i + rival + same]) != reverse:
            rival += same + 1
            same = 0
            period = rival - suffix
        else:
            suffix = rival
            rival += 1
            same = 0
            period = 1
    return suffix * (size + 1) + period


@cython.cfunc
@cython.exceptval(check=False)
def _same_ends(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    i_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    j_end: cython.Py_ssize_t,
) -> cython.bint:
    """Whether two chunks that both have a `$*` agree before the first and after the last one."""
    while a[i] != DOLLAR and b[j] != DOLLAR:
        if a[i] != b[j]:
            return False
        i += 1
        j += 1
    while i < i_end and j < j_end and a[i_end - 1] != STAR and b[j_end - 1] != STAR:
        if a[i_end - 1] != b[j_end - 1]:
            return False
        i_end -= 1
        j_end -= 1
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _is_same(
    a: cython.p_const_uchar,
    i: cython.Py_ssize_t,
    i_end: cython.Py_ssize_t,
    b: cython.p_const_uchar,
    j: cython.Py_ssize_t,
    j_end: cython.Py_ssize_t,
) -> cython.bint:
    if i_end - i != j_end - j:
        return False
    while i < i_end:
        if a[i] != b[j]:
            return False
        i += 1
        j += 1
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _is_star_star(text: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    return end - start == 2 and text[start] == STAR


@cython.cfunc
@cython.exceptval(check=False)
def _has_dollar(text: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    while start < end and text[start] != DOLLAR:
        start += 1
    return start < end
