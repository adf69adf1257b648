"""What a key may use."""

import pytest

from oscine_engine.events import SessionRequest
from oscine_engine.options import ColdVoice
from oscine_service.security.errors import Forbidden, QuotaExceeded
from oscine_service.security.principal import ANYBODY, Grant, Principal, acting_for
from oscine_service.security.quotas import Lease, Quotas
from oscine_service.visits import Visit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quotas(clock: Clock) -> Quotas:
    return Quotas(lambda: "fledgling", clock)


def call(quotas: Quotas, who: Principal, voice: str | None = None) -> Lease:
    with acting_for(who):
        return quotas.attend(Visit(), SessionRequest(voice=voice))


def test_anybody_may_speak_without_a_limit(quotas: Quotas) -> None:
    leases = [call(quotas, ANYBODY) for _ in range(100)]
    leases[0].text(10**9)


def test_streams_are_counted_by_key_whatever_its_tokens(quotas: Quotas) -> None:
    anna = Principal(name="anna", streams=2)
    first = call(quotas, anna)
    call(quotas, Principal(name="anna", streams=2, token=True))
    with pytest.raises(QuotaExceeded, match="2 streams") as refused:
        call(quotas, anna)
    assert refused.value.retry_after_s > 0
    call(quotas, Principal(name="ben", streams=1))
    first.ended(None, None)
    call(quotas, anna)


def test_characters_come_back_with_time(quotas: Quotas, clock: Clock) -> None:
    anna = Principal(name="anna", characters_per_minute=60)
    lease = call(quotas, anna)
    lease.text(40)
    lease.text(0)
    clock.now += 10
    lease.text(30)
    with pytest.raises(QuotaExceeded, match="60 characters a minute") as refused:
        lease.text(1)
    with pytest.raises(QuotaExceeded):
        call(quotas, anna)
    clock.now += refused.value.retry_after_s
    lease.text(1)
    clock.now += 3600
    call(quotas, anna).text(60)
    with pytest.raises(QuotaExceeded):
        lease.text(1)


def test_one_long_text_is_taken_and_paid_off(quotas: Quotas, clock: Clock) -> None:
    """Or who is granted less than a text has could never say it."""
    lease = call(quotas, Principal(name="anna", characters_per_minute=60))
    lease.text(300)
    with pytest.raises(QuotaExceeded) as refused:
        lease.text(1)
    assert refused.value.retry_after_s == pytest.approx(241)
    clock.now += 240
    with pytest.raises(QuotaExceeded):
        lease.text(1)
    clock.now += 1
    lease.text(1)


def test_a_refused_text_costs_nothing(quotas: Quotas, clock: Clock) -> None:
    lease = call(quotas, Principal(name="anna", characters_per_minute=60))
    lease.text(60)
    for _ in range(10):
        with pytest.raises(QuotaExceeded):
            lease.text(1000)
    clock.now += 1
    lease.text(1)


def test_a_refused_call_holds_no_stream(quotas: Quotas) -> None:
    anna = Principal(name="anna", streams=1, voices=("fledgling",))
    for _ in range(3):
        with pytest.raises(Forbidden, match="'other'"):
            call(quotas, anna, "other")
    call(quotas, anna)


def test_voices_and_speech_itself_are_granted(quotas: Quotas) -> None:
    with pytest.raises(Forbidden, match="'fledgling'"):
        call(quotas, Principal(name="anna", voices=("anna",)))
    call(quotas, Principal(name="anna", voices=("anna",)), "anna")
    with pytest.raises(Forbidden, match="not granted 'speak'"):
        call(quotas, Principal(name="anna", grants=frozenset({Grant.METRICS})))


def test_a_recording_along_with_a_request_is_a_voice_that_is_added(quotas: Quotas) -> None:
    own = SessionRequest(reference=ColdVoice(b"RIFF"))

    def ask(who: Principal) -> Lease:
        with acting_for(who):
            return quotas.attend(Visit(), own)

    ask(Principal(name="anna"))
    with pytest.raises(Forbidden, match="not granted 'voices'"):
        ask(Principal(name="anna", grants=frozenset({Grant.SPEAK})))
    with pytest.raises(Forbidden, match="a voice of its own"):
        ask(Principal(name="anna", voices=("fl*",)))


def test_a_limit_that_changes_counts_at_once(quotas: Quotas) -> None:
    call(quotas, Principal(name="anna", characters_per_minute=600)).text(1)
    lease = call(quotas, Principal(name="anna", characters_per_minute=60))
    lease.text(60)
    with pytest.raises(QuotaExceeded):
        lease.text(1)
