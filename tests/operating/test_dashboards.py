"""Each panel shows something of a real service, asked of a real Prometheus as Grafana would."""

import asyncio
import json
from pathlib import Path

import grpc
import pytest

from bench.served import served
from oscine_proto.oscine.v1.speech_pb2_grpc import SpeechServiceStub
from tests.operating.dashboards import DASHBOARDS, expressions, panels
from tests.operating.prometheus import watching
from tests.service.calls import config, converse, text

ELSEWHERE = {"Days that the certificate is valid", "Since shared voices were read"}
"""Of a service with more than this one has."""


@pytest.mark.operating
async def test_every_panel_shows_something(model: Path, tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    flags = ("--utilisation", "inf", "--voices", str(tmp_path / "voices"))
    with served(*flags, model=model, http=True, log=tmp_path / "log") as service:
        assert service.http is not None
        with watching(tmp_path, service.http) as prometheus:
            async with grpc.aio.insecure_channel(service.grpc, (("grpc.enable_http_proxy", 0),)) as channel:
                speech = SpeechServiceStub(channel)
                assert (await converse(speech, [config(), *text("Hello.")])).code is grpc.StatusCode.OK
                await prometheus.until_seen("oscine_engine_segments_total > 0")
                # What rises while it is looked at.
                assert (await converse(speech, [config(), *text("Hello again.")])).code is grpc.StatusCode.OK
                await prometheus.until_seen("increase(oscine_engine_segments_total[1m]) > 0")
            silent = set()
            for path in DASHBOARDS:
                for title, asked in expressions(path):
                    if not await asyncio.to_thread(prometheus.query, asked):
                        silent.add(title)
    assert silent <= ELSEWHERE


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: str(path.stem))
def test_a_dashboard_is_whole(path: Path) -> None:
    """What Grafana would make of it silently: panels over one another, sources that are not asked."""
    board = json.loads(path.read_text())
    assert board["uid"] == path.stem and board["title"] and board["schemaVersion"] >= 36
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    for panel in panels(path):
        assert panel["datasource"]["uid"] == "${datasource}" and panel["targets"] and panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
        for target in panel["targets"]:
            assert 'job="oscine"' in target["expr"] and '=~"$instance"' in target["expr"], target["expr"]
