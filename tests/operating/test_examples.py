"""The page about one call shows what calls leave."""

from pathlib import Path

import pytest

from tests.operating.examples import BAD, GOOD, made, shown
from tests.operating.prometheus import ROOT

PAGE = ROOT / "docs/one-call.md"


@pytest.mark.operating
def test_the_page_shows_what_calls_leave(model: Path, tmp_path: Path) -> None:
    page, left = shown(PAGE.read_text()), made(model, tmp_path).all
    assert page.keys() == left.keys()
    for name, objects in left.items():
        assert [each.keys() for each in page[name]] == [each.keys() for each in objects], name
        for ours, theirs in zip(page[name], objects, strict=True):
            if name.startswith("log"):
                for field in ("level", "logger", "outcome", "protocol"):
                    assert ours.get(field) == theirs.get(field), (name, field)
            else:
                assert ours["attributes"].keys() == theirs["attributes"].keys()
                assert list(ours["events"]) == list(theirs["events"])
                assert (ours["name"], ours["status"]) == (theirs["name"], theirs["status"])


def test_the_page_has_a_good_call_and_a_bad_one() -> None:
    page = PAGE.read_text()
    found = shown(page)
    assert found["log-good"][-1]["outcome"] == found["span-good"][0]["attributes"]["oscine.outcome"] == "ok"
    assert found["log-bad"][-1]["outcome"] == found["span-bad"][0]["attributes"]["oscine.outcome"] == "unavailable"
    assert GOOD not in page and BAD[:40] not in page
