"""`oscine voices` and `oscine doctor` on shared voices, as their users meet them."""

import os
from pathlib import Path

import pytest

from oscine_engine.checkpoint.voices import read_voices, write_voices
from oscine_service.cli.main import main
from oscine_service.config.model import Engine, Settings
from oscine_service.config.sources import resolve
from oscine_service.doctor import service, shared_voices
from oscine_service.doctor.finding import Finding, Level
from oscine_service.storage import mounts, places
from oscine_service.storage.address import Address
from oscine_service.storage.bucket import Listed, opened
from oscine_service.storage.copy import Copy
from oscine_service.storage.folder import Folder
from oscine_service.storage.shared import SharedVoices
from tests.engine.voices.test_store import same
from tests.engine.voices.test_store import voice as spoken
from tests.service.storage.voices import voice


def test_voices_are_imported_shown_exported_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    address = Address("file", "", str(tmp_path / "shared"))

    def oscine(*arguments: str) -> tuple[int, str, str]:
        status = main(["voices", *arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    monkeypatch.setenv("OSCINE_VOICES", str(address))
    write_voices({"ann": spoken("ann")}, tmp_path / "spk2info.pt")
    assert oscine("import", str(tmp_path / "spk2info.pt"))[0] == 0
    status, _, told = oscine("import", str(tmp_path / "spk2info.pt"))
    assert status == 1 and "already" in told
    assert oscine("import", str(tmp_path / "spk2info.pt"), "--replace")[0] == 0
    assert oscine()[1].splitlines()[-1].startswith("ann ")
    assert "seconds      0.8" in oscine("show", "ann")[1]
    assert oscine("export", "ann", str(tmp_path / "out.pt"))[0] == 0
    exported, given = (read_voices(tmp_path / name, str)["ann"] for name in ("out.pt", "spk2info.pt"))
    assert same(exported, given)
    assert oscine("remove", "ann")[:2] == (0, "removed ann\n")
    status, _, told = oscine("show", "ann")
    assert status == 1 and told.strip() == "oscine: there is no voice 'ann'"


def found(address: Address, copy: Path) -> list[Finding]:
    return list(service.voices(Settings(engine=Engine(voices=address, voices_copy=copy))))


def test_doctor_tries_what_it_is_shared_by(
    s3_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SharedVoices(opened(s3_address)).add(*voice("ann"))
    well = found(s3_address, tmp_path / "copy")
    assert [each.level for each in well] == [Level.GOOD, Level.GOOD]
    assert well[0].what == f"1 in {s3_address}"
    assert opened(s3_address).list("probe/") == {}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "looks")
    (advised,) = (each for each in found(s3_address, tmp_path / "copy") if each.level is not Level.GOOD)
    assert advised.level is Level.ADVICE and "access was denied" in advised.what and advised.mend
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert found(s3_address, tmp_path / "copy")[0].level is Level.FAULT


class Careless(Folder):
    """Writes over what is there, as S3 servers do that do not know the header."""

    def write(self, key: str, data: bytes, *, new: bool = False) -> str:
        return super().write(key, data)

    def list(self, prefix: str) -> dict[str, Listed]:
        return dict(super().list(prefix))


def test_doctor_finds_a_server_that_would_lose_voices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    address = Address("file", "", str(tmp_path / "shared"))
    assert Level.FAULT not in [each.level for each in found(address, tmp_path / "copy")]
    monkeypatch.setattr(shared_voices, "opened", lambda address: Careless(address.folder))
    (fault,) = (each for each in found(address, tmp_path / "copy") if each.level is Level.FAULT)
    assert "told not to" in fault.what and "If-None-Match" in fault.mend


def test_doctor_looks_at_what_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    options = {"slow": "rw,vers=4.2,hard", "named": "rw,acdirmin=1,acdirmax=30", "quick": "rw,acregmax=1,acdirmax=1"}
    table.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        + "".join(f"40 22 0:41 / {tmp_path}/{name} rw - nfs4 host:/v {each}\n" for name, each in options.items())
        + f"41 22 0:42 / {tmp_path}/with\\040blank rw - fuse.sshfs host rw\n"
    )
    monkeypatch.setattr(mounts, "_TABLE", table)
    for name in (*options, "with blank", "local"):
        (tmp_path / name).mkdir()
    mends = {
        name: [each.mend for each in found(Address("file", "", str(tmp_path / name)), tmp_path / "copy") if each.mend]
        for name in (*options, "local")
    }
    assert mends == {
        "slow": ["mount it with actimeo=1"],
        "named": ["mount it with actimeo=1"],
        "quick": [],
        "local": ["mount what others mount, too"],
    }
    last = found(Address("file", "", str(tmp_path / "quick")), tmp_path / "with blank" / "copy")[-1]
    assert last.level is Level.FAULT and "fuse.sshfs" in last.what


def test_a_store_is_named_like_every_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "oscine.toml"
    file.write_text('[engine]\nvoices = "s3://a-bucket/x"\nvoices_copy = "copy"\n')
    engine = resolve(file).settings.engine
    assert (places.shared(engine), places.folder(engine)) == (Address("s3", "a-bucket", "x"), tmp_path / "copy")
    file.write_text('[engine]\nvoices = "here"\n')
    engine = resolve(file).settings.engine
    assert (places.shared(engine), places.folder(engine)) == (None, tmp_path / "here")
    source = Address("file", "", "/mnt/v")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.delenv("CACHE_DIRECTORY", raising=False)
    assert places.copy_of(source, None).parent == Path("/cache/oscine")
    assert places.copy_of(source, None) != places.copy_of(Address("file", "", "/mnt/w"), None)
    monkeypatch.setenv("CACHE_DIRECTORY", "/var/cache/oscine")
    assert places.copy_of(source, None).parent == Path("/var/cache/oscine")
    with pytest.raises(SystemExit):
        main(["voices", "--store", "s3://A/b"])


@pytest.mark.slow
def test_a_command_speaks_in_a_shared_voice(
    s3_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from oscine_engine.voices.packing import pack

    monkeypatch.setenv("OSCINE_VOICES", str(s3_address))
    monkeypatch.setenv("OSCINE_VOICES_COPY", str(tmp_path / "copy"))
    stored, packed = pack(spoken("ann", tokens=100))
    SharedVoices(opened(s3_address)).add(stored, packed)
    out = tmp_path / "out.wav"
    assert main(["say", "--voice", "ann", "Good morning.", "-o", str(out)]) == 0, capsys.readouterr().err
    assert os.path.getsize(out) > 1000
    # And goes on doing so when nobody can be asked.
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert main(["say", "--voice", "ann", "Good morning.", "-o", str(out)]) == 0
    assert "as they were last known" in capsys.readouterr().err
    assert Copy(tmp_path / "copy", str(s3_address)).count() == 1
