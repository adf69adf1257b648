"""Messages of the native WebSocket protocol, without a socket."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oscine_engine.errors import InvalidInput
from oscine_service.websocket.messages import Request, parse

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
_TYPES = ["start", "text", "flush", "mark", "played", "cancel", "end"]
_FIELDS = (
    "context text name samples voice format mode seed trim quiet_ms instruction language cross_lingual speed "
    "temperature top_p top_k repetition_window repetition_limit pronunciations reference word_times"
).split()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(_TYPES) | _JSON, st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4))
def test_any_object_is_a_request_or_refused(kind: object, fields: dict[str, object]) -> None:
    with contextlib.suppress(InvalidInput):
        assert isinstance(parse(json.dumps({"type": kind, **fields})), Request)


@settings(max_examples=100, deadline=None)
@given(st.text() | st.binary())
def test_any_message_is_a_request_or_refused(message: str | bytes) -> None:
    with pytest.raises(InvalidInput):
        parse(message)
