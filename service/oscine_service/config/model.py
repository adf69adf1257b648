"""The settings of a service: one dataclass for each section, one field for each setting."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from oscine_engine.scheduler.admission import UTILISATION
from oscine_service.config import parse
from oscine_service.config.setting import Setting, setting, settings_of
from oscine_service.storage.address import Address

Maybe: TypeAlias = Path | None


@dataclass(frozen=True, slots=True)
class Server:
    """Where and how it serves."""

    host: str = setting("127.0.0.1", "address to listen on", parse.text, metavar="ADDRESS")
    port: int = setting(50051, "port of gRPC; 0 picks a free one", parse.port, metavar="PORT")
    http_port: int | None = setting(
        8080, "port of HTTP and WebSocket; 0 picks a free one, none turns them off", parse.port_or_none, metavar="PORT"
    )
    page: bool = setting(True, "serve a page to try it with, and the player for others, on the HTTP port", parse.switch)
    openai_voices: tuple[str, ...] = setting(
        (),
        "voices that names in OpenAI's API stand for, such as alloy=anna",
        parse.pairs,
        metavar="NAME=VOICE[,NAME=VOICE...]",
        shown="each of OpenAI's names stands for one of the model's voices",
    )
    grace: float = setting(
        30.0,
        "how long running calls may take to end after SIGTERM, SIGINT or SIGHUP; a second signal cuts them off",
        parse.wait,
        metavar="SECONDS",
    )
    hang_timeout: float = setting(
        10.0, "replace an engine process that answers no heartbeat for so long", parse.seconds, metavar="SECONDS"
    )
    in_process: bool = setting(
        False, "run the engine in this process, where a fault in it ends the service", parse.switch
    )


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a client may hold a place without using it."""

    idle_timeout: float = setting(
        300.0,
        "end a call whose client sends nothing with nothing left to say",
        parse.seconds,
        metavar="SECONDS",
    )
    write_timeout: float = setting(
        60.0,
        "end a call whose client takes no response and reports nothing as played",
        parse.seconds,
        metavar="SECONDS",
    )
    pause_timeout: float = setting(
        3600.0,
        "end a call whose client reported what was played and does so no more, with more left to say",
        parse.seconds,
        metavar="SECONDS",
    )


@dataclass(frozen=True, slots=True)
class Engine:
    """What speaks, and on what."""

    model: Maybe = setting(None, "model directory", parse.path, metavar="DIR", shown="the embedded voice")
    voices: Path | Address | None = setting(
        None,
        "voice store, whose voices can be named as well: a folder of this machine, or what several share, as "
        "s3://BUCKET/PREFIX or file:///FOLDER",
        parse.store,
        metavar="STORE",
        shown="no store",
    )
    voices_copy: Maybe = setting(
        None,
        "folder for this machine's copy of a store that several share",
        parse.path,
        metavar="DIR",
        shown="among the user's caches",
    )
    references: bool = setting(
        False, "let calls bring a recording of their own to speak after; takes memory for such voices", parse.switch
    )
    lm_file: str = setting("llm", "which language model to load", parse.text, choices=("llm", "llm.rl"))
    device: tuple[str, ...] = setting(
        ("cpu",),
        "cpu, cuda (the first GPU) or cuda:N; a service runs an engine process on each of several, such as "
        "cuda:0,cuda:1",
        parse.devices,
        metavar="DEVICE[,DEVICE...]",
    )
    precision: str | None = setting(
        None,
        "of the language model and the flow on a GPU; a CPU computes in float32",
        parse.text,
        choices=("float32", "float16", "bfloat16"),
        shown="float16 on a GPU",
    )
    side_by_side: bool = setting(
        False,
        "on a GPU, let the language model step while the flow is at a step, on a CUDA stream of its own; what is said "
        "stays the same",
        parse.switch,
    )
    max_streams: int = setting(8, "streams a device", parse.count, metavar="COUNT")
    utilisation: float = setting(
        UTILISATION,
        "admit calls up to this share of what the machine can compute when all speak at once, by its own measure; "
        "inf counts calls only",
        parse.share,
        metavar="SHARE",
    )
    vllm: Maybe = setting(
        None,
        "let vLLM compute the language model that oscine convert --to vllm wrote to this directory",
        parse.path,
        metavar="DIR",
        shown="not used",
    )


@dataclass(frozen=True, slots=True)
class Telephony:
    """Telephone calls (docs/telephony.md)."""

    audiosocket_port: int | None = setting(
        None, "port of Asterisk's AudioSocket; none turns it off", parse.port_or_none, metavar="PORT"
    )
    audiosocket_host: str = setting(
        "127.0.0.1",
        "address to listen on for AudioSocket, which knows no keys: let nobody but an exchange reach it",
        parse.text,
        metavar="ADDRESS",
    )
    twilio_token: Maybe = setting(
        None,
        "file with the auth token that Twilio signs with: only what is signed may open a call as Twilio does",
        parse.path,
        metavar="FILE",
        shown="not checked",
    )
    plivo_token: Maybe = setting(
        None, "file with Plivo's auth token, likewise", parse.path, metavar="FILE", shown="not checked"
    )
    vonage_secret: Maybe = setting(
        None, "file with Vonage's signature secret, likewise", parse.path, metavar="FILE", shown="not checked"
    )
    public_url: str | None = setting(
        None,
        "address that carriers connect to, such as wss://voice.example.com, as it stands in what they sign",
        parse.text,
        metavar="URL",
        shown="wss:// and the host that the carrier names",
    )
    carrier_key: str | None = setting(
        None,
        "name of the key on whose behalf calls come that bring none: signed ones, and those of AudioSocket",
        parse.text,
        metavar="NAME",
        shown="everybody's calls",
    )
    rtp_host: str | None = setting(
        None,
        "address of this machine that calls over RTP are taken at; none turns them off",
        parse.text_or_none,
        metavar="ADDRESS",
    )
    rtp_public: str | None = setting(
        None,
        "address that is answered to offers instead, where others reach this machine by another",
        parse.text_or_none,
        metavar="ADDRESS",
        shown="that of --rtp-host",
    )
    rtp_ports: str = setting(
        "16384-32767",
        "UDP ports of calls over RTP, two for each; 0 lets the system pick",
        parse.port_range,
        metavar="FIRST-LAST",
    )
    rtp_timeout: float = setting(
        60.0,
        "end a call over RTP whose other side sends nothing, reports included, while nobody speaks into it",
        parse.seconds,
        metavar="SECONDS",
    )
    most_calls: int = setting(1000, "telephone calls that may be up at a time", parse.count, metavar="COUNT")


@dataclass(frozen=True, slots=True)
class Security:
    """Who may come in, and how the connection is protected."""

    keys: Maybe = setting(
        None,
        "file of API keys, as oscine keys keeps it: every call must bring one",
        parse.path,
        metavar="FILE",
        shown="anybody may call",
    )
    token_secret: Maybe = setting(
        None,
        "file with at least 32 random bytes that tokens for browsers are signed with; give all services behind one "
        "address the same",
        parse.path,
        metavar="FILE",
        shown="a new secret with each start",
    )
    tls_cert: Maybe = setting(
        None, "certificate chain (PEM) of the service, for gRPC and HTTP", parse.path, metavar="FILE", shown="no TLS"
    )
    tls_key: Maybe = setting(None, "its private key (PEM)", parse.path, metavar="FILE", shown="no TLS")
    tls_client_ca: Maybe = setting(
        None,
        "certificates (PEM) of who signs those of clients, which must then have one",
        parse.path,
        metavar="FILE",
        shown="clients need no certificate",
    )
    origins: tuple[str, ...] = setting(
        (),
        "web pages of these origins may call, such as https://app.example.com; * is any",
        parse.origins,
        metavar="ORIGIN[,ORIGIN...]",
        shown="those that the service itself serves",
    )


@dataclass(frozen=True, slots=True)
class Observe:
    """What it tells of itself."""

    log_level: str = setting("warning", "what is logged", parse.text, choices=("debug", "info", "warning", "error"))
    log_format: str = setting("text", "lines for people, or a JSON object each", parse.text, choices=("text", "json"))
    metrics: bool = setting(True, "serve Prometheus metrics at /metrics of the HTTP port", parse.switch)
    traces: bool = setting(
        False,
        "send OpenTelemetry spans to where OTEL_EXPORTER_OTLP_ENDPOINT names; needs pip install 'oscine[traces]'",
        parse.switch,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them."""

    server: Server = field(default_factory=Server)
    timeouts: Timeouts = field(default_factory=Timeouts)
    engine: Engine = field(default_factory=Engine)
    telephony: Telephony = field(default_factory=Telephony)
    security: Security = field(default_factory=Security)
    observe: Observe = field(default_factory=Observe)


SECTIONS: dict[str, type[Any]] = {
    "server": Server,
    "timeouts": Timeouts,
    "engine": Engine,
    "telephony": Telephony,
    "security": Security,
    "observe": Observe,
}
SETTINGS: dict[str, Setting] = {
    each.name: each for section, kind in SECTIONS.items() for each in settings_of(section, kind)
}
"""By name: no two sections have one in common."""
assert len(SETTINGS) == sum(len(fields(kind)) for kind in SECTIONS.values())
