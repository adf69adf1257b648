"""Messages that would take seconds to decode are told by what they are made of. Pure.

Decoding a map takes longer and longer with each of its entries, half a minute for the 600,000 that fit into 9 MiB, and
no other call is served meanwhile. No request of ours has more than some hundred fields, however long they are.
"""

LARGE = 1 << 16
"""Bytes up to which decoding takes no time to speak of, whatever is in them."""
MOST_FIELDS = 1000
TOO_MANY = f"a request of more than {MOST_FIELDS} fields; leave most of them out"


def too_many(data: bytes, inner: int = 0) -> bool:
    """Whether a message has more than MOST_FIELDS fields, those of its field of number `inner` included, or any group,
    which nobody writes any more. One that is not well formed has as many as can be read."""
    if len(data) <= LARGE:
        return False
    left = MOST_FIELDS
    spans = [(0, len(data), True)]
    while spans:
        at, end, outermost = spans.pop()
        while at < end:
            if left == 0:
                return True
            left -= 1
            key, at = _varint(data, at, end)
            match key & 7:
                case 0:
                    _, at = _varint(data, at, end)
                case 1:
                    at += 8
                case 2:
                    size, at = _varint(data, at, end)
                    if outermost and key >> 3 == inner:
                        spans.append((at, min(end, at + size), False))
                    at += size
                case 5:
                    at += 4
                case 3 | 4:
                    return True
                case _:
                    break
    return False


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends; of ten bytes at most, as there are."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            return value, end
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, at
