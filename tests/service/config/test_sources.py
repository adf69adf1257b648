"""Settings from a file, the environment and flags, and what is said of those that are wrong."""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from oscine_engine.errors import InvalidInput
from oscine_service.cli.main import main
from oscine_service.config.engine import engine_settings
from oscine_service.config.model import SETTINGS, Settings
from oscine_service.config.sources import resolve


def write(folder: Path, text: str) -> Path:
    path = folder / "oscine.toml"
    path.write_text(text)
    return path


def test_a_flag_counts_before_the_environment_that_before_the_file_and_that_before_the_default(tmp_path: Path) -> None:
    file = write(tmp_path, "[server]\nhost = '0.0.0.0'\nport = 1\ngrace = 1\n[engine]\nutilisation = inf\n")
    found = resolve(file, {"OSCINE_PORT": "2", "OSCINE_GRACE": "2"}, {"grace": 3.0, "command": "serve"})
    server = found.settings.server
    assert (server.host, server.port, server.grace, server.http_port) == ("0.0.0.0", 2, 3.0, 8080)
    assert found.settings.engine.utilisation == math.inf
    assert found.sources == {
        "host": str(file),
        "port": "OSCINE_PORT",
        "grace": "--grace",
        "utilisation": str(file),
    }


def test_nothing_set_is_the_default_and_an_empty_variable_is_nothing() -> None:
    assert resolve().settings == resolve(None, {"OSCINE_PORT": "", "OSCINE_CONFIG": ""}).settings == Settings()


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[server]\nhttp_port = 'none'\nin_process = true\n")
    server = resolve(None, {"OSCINE_CONFIG": str(file)}).settings.server
    assert server.http_port is None and server.in_process


def test_paths_in_a_file_are_taken_from_its_folder(tmp_path: Path) -> None:
    file = write(tmp_path, "[engine]\nmodel = 'm'\nvoices = '/v'\n[security]\norigins = ['https://a', 'https://b']\n")
    settings = resolve(file).settings
    assert (settings.engine.model, settings.engine.voices) == (tmp_path / "m", Path("/v"))
    assert settings.security.origins == ("https://a", "https://b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nport = 70000", ("port", "'70000'", "65535")),
        ("[server]\nport = '1.5'", ("port", "'1.5'")),
        ("[server]\nport = 1.5", ("port", "'1.5'")),
        ("[server]\nprot = 1", ("'prot'", "[server]", "did you mean port?")),
        ("[server]\nvoices = 'v'", ("'voices'", "belongs to [engine]")),
        ("[servre]\nport = 1", ("'servre'", "did you mean server?", "observe")),
        ("port = 1", ("'port' is no section",)),
        ("[server]\nport = 2024-01-01", ("port", "neither a text")),
        ("[security]\norigins = [1]", ("origins", "neither a text")),
        ("[security]\norigins = ['app.example.com']", ("origins", "'app.example.com' is no origin", "https://HOST")),
        ("[security]\norigins = ['*', 'https://app.example.com/']", ("'https://app.example.com/'", "without a path")),
        ("[engine]\nlm_file = 'lm'", ("lm_file", "'lm'", "llm.rl")),
        ("[engine]\ndevice = ['cpu', 'cuda']", ("device", "a CPU and a GPU")),
        ("[server]\nin_process = 'maybe'", ("in_process", "'maybe'", "true")),
        ("[server", ("is not TOML",)),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InvalidInput) as refused:
        resolve(file)
    assert all(word in str(refused.value) for word in (str(file), *words)), refused.value


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.toml cannot be read"):
        resolve(tmp_path / "nowhere.toml")


def test_what_is_wrong_in_the_environment_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"OSCINE_MAX_STREAMS: '0' is not a number from 1 up"):
        resolve(None, {"OSCINE_MAX_STREAMS": "0"})


@pytest.mark.parametrize(
    "ours",
    [
        {"OSCINE_PORT": "tcp://10.0.0.7:50051", "OSCINE_HTTP_PORT": "tcp://10.0.0.7:8080"},
        {"OSCINE_SERVICE_HOST": "10.0.0.7", "OSCINE_SERVICE_PORT": "50051", "OSCINE_SERVICE_PORT_GRPC": "50051"},
        {"OSCINE_PORT_50051_TCP": "tcp://10.0.0.7:50051", "OSCINE_PORT_50051_TCP_ADDR": "10.0.0.7"},
        {"OTHER": "1"},
    ],
)
def test_what_kubernetes_says_of_a_service_called_oscine_is_no_setting(ours: Mapping[str, str]) -> None:
    found = resolve(None, ours)
    assert found.settings == Settings() and not found.warnings


def test_a_variable_that_is_no_setting_is_mentioned() -> None:
    (warning,) = resolve(None, {"OSCINE_MAX_STREAM": "3"}).warnings
    assert "OSCINE_MAX_STREAM " in warning and "OSCINE_MAX_STREAMS?" in warning
    assert not resolve(None, {"OSCINE_KEY": "osk_secret"}).warnings, "it is that of clients"


def test_what_is_shown_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "--port",
        "7",
        "--origins",
        "https://a,https://b",
        "--grace",
        "inf",
        "--model",
        str(tmp_path),
        "--keys",
        "k",
    ]
    assert main(["settings", *given]) == 0
    shown = capsys.readouterr().out
    again = resolve(write(tmp_path, shown)).settings
    assert again.server.port == 7 and again.server.grace == math.inf and again.engine.model == tmp_path
    assert again.security.origins == ("https://a", "https://b")
    # What is commented out are the defaults, and can be read, too.
    everything = "\n".join(line.removeprefix("# ") for line in shown.splitlines())
    tables = tomllib.loads(everything)
    assert {name for table in tables.values() for name in table} == set(SETTINGS)
    assert resolve(write(tmp_path, everything)).settings == again


def test_wrong_settings_end_a_command_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OSCINE_PORT", "x")
    assert main(["settings"]) == 2
    assert capsys.readouterr().err == "oscine: OSCINE_PORT: 'x' is not a port: use a number from 0 to 65535\n"


def test_an_engine_is_told_the_first_device_and_its_precision() -> None:
    told = engine_settings(resolve(None, {"OSCINE_DEVICE": "cuda:1,cuda:2", "OSCINE_MAX_STREAMS": "3"}).settings)
    assert (told.device, told.precision, told.max_streams) == ("cuda:1", "float16", 3)
    assert engine_settings(Settings()).precision == "float32"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(f"[server]\nport = {'9' * 5000}", "is not TOML", id="a number too long to be read"),
        pytest.param("a = " + "[" * 100_000, "is not TOML", id="brackets too deep"),
        pytest.param(f"[server]\nport = '{'9' * 5000}'", "port: .* is not a port", id="a port of many digits"),
        pytest.param(
            f"[engine]\nmax_streams = '{'9' * 5000}'", "max_streams: .* from 1 up", id="a count of many digits"
        ),
        pytest.param(
            f"[engine]\ndevice = 'cuda:{'9' * 5000}'", "device: .* is not a device", id="a GPU of many digits"
        ),
        pytest.param('[engine]\nmodel = "a\\u0000b"', "model: .* zero byte", id="a path with a zero byte"),
        pytest.param("[engine]\nmodel = '~nobody-of-that-name/x'", "model: .* home folder", id="the home of nobody"),
    ],
)
def test_what_no_reader_can_stand_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        resolve(write(tmp_path, text))
    assert len(str(refused.value)) < 400
