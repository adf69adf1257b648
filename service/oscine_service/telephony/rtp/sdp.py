"""Session descriptions (RFC 8866): text <-> lines that mean something. No I/O."""

from dataclasses import dataclass

from oscine_engine.errors import InvalidInput
from oscine_engine.options import check_text

MAX_BYTES = 1 << 16
_MAX_MEDIA = 32


@dataclass(frozen=True, slots=True)
class Attribute:
    """`a=name:value`, or `a=name` with an empty value."""

    name: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Media:
    """An `m=` line and what is below it. formats: of RTP, payload types. address: of its own `c=` line, or of the whole
    description's; "" where there is none."""

    kind: str
    port: int
    protocol: str
    formats: tuple[str, ...]
    address: str
    attributes: tuple[Attribute, ...]

    def all(self, name: str) -> list[str]:
        """The values of this attribute, in order."""
        return [each.value for each in self.attributes if each.name == name]

    def has(self, name: str) -> bool:
        return any(each.name == name for each in self.attributes)


@dataclass(frozen=True, slots=True)
class Description:
    """attributes: those above the first `m=` line."""

    media: tuple[Media, ...]
    attributes: tuple[Attribute, ...]


def parse(text: str) -> Description:
    """Lines of kinds that are not used here are passed over. Raises InvalidInput, which names the line."""
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"offer: {len(text)} characters of SDP; at most {MAX_BYTES} are read")
    check_text("offer", text)
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines[0] != "v=0":
        raise InvalidInput(f"offer: SDP begins with the line v=0, not with {lines[0][:40]!r}")
    above: list[Attribute] = []
    media: list[_Section] = []
    address = ""
    for number, line in enumerate(lines, 1):
        kind, equals, value = line.partition("=")
        if len(kind) != 1 or not equals:
            raise InvalidInput(f"offer: line {number} is {line[:40]!r}; a line of SDP is a letter, = and a value")
        if "\0" in line or "\r" in line:
            raise InvalidInput(
                f"offer: line {number} is {line[:40]!r}; lines end with CR LF, and hold neither CR nor NUL"
            )
        match kind:
            case "m":
                media.append(_section(number, value))
                if len(media) > _MAX_MEDIA:
                    raise InvalidInput(f"offer: more than {_MAX_MEDIA} media")
            case "c" if media:
                media[-1].address = _connection(number, value)
            case "c":
                address = _connection(number, value)
            case "a":
                name, _, told = value.partition(":")
                (media[-1].attributes if media else above).append(Attribute(name.strip(), told.strip()))
    return Description(tuple(each.done(address) for each in media), tuple(above))


@dataclass(slots=True)
class _Section:
    """A `Media` that is still being read."""

    kind: str
    port: int
    protocol: str
    formats: tuple[str, ...]
    address: str
    attributes: list[Attribute]

    def done(self, address: str) -> Media:
        attributes = tuple(self.attributes)
        return Media(self.kind, self.port, self.protocol, self.formats, self.address or address, attributes)


def _section(number: int, value: str) -> _Section:
    match value.split():
        case [kind, ports, protocol, *formats] if formats:
            port = ports.partition("/")[0]
            if port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536:
                return _Section(kind, int(port), protocol, tuple(formats), "", [])
    raise InvalidInput(f"offer: line {number} is {'m=' + value[:60]!r}; expected m=KIND PORT PROTOCOL FORMATS")


def _connection(number: int, value: str) -> str:
    match value.split():
        case ["IN", "IP4" | "IP6", address]:
            # What follows a slash is of groups of receivers, which are not sent to.
            return address.partition("/")[0]
    raise InvalidInput(f"offer: line {number} is {'c=' + value[:60]!r}; expected c=IN IP4 ADDRESS, or IP6")
