"""All checks, in order."""

import argparse
from collections.abc import AsyncIterator, Callable, Iterator

from oscine_engine.errors import InvalidInput
from oscine_service.config import arguments
from oscine_service.config.model import Settings
from oscine_service.doctor import machine, service, speaking
from oscine_service.doctor.finding import Finding, advice, fault, good

CHECKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    machine.python,
    machine.codecs,
    machine.processors,
    machine.memory,
    machine.open_files,
    machine.sockets,
    machine.devices,
    service.model,
    service.voices,
    service.ports,
    service.exposure,
    service.credentials,
    service.certificates,
    service.traces,
)


async def examine(options: argparse.Namespace, *, speak: bool) -> AsyncIterator[Finding]:
    """All that is found. options: of a command with all settings. A check that fails itself is a fault, too, and the
    others go on. speak: start an engine as well."""
    try:
        resolved = arguments.resolved(options)
    except InvalidInput as error:
        yield fault("settings", str(error), "oscine settings shows all there are, and docs/settings.md explains them")
        return
    for warning in resolved.warnings:
        yield advice("settings", warning, "rename it, or unset it")
    set_ = ", ".join(f"{name} ({source})" for name, source in resolved.sources.items())
    yield good("settings", f"set: {set_}" if set_ else "all as they come")
    for check in CHECKS:
        try:
            for finding in check(resolved.settings):
                yield finding
        except Exception as error:
            yield fault(check.__name__, f"the check failed: {type(error).__name__}: {error}", "tell us of it")
    if speak:
        try:
            async for finding in speaking.speaking(resolved.settings):
                yield finding
        except Exception as error:
            yield fault("speech", f"the check failed: {type(error).__name__}: {error}", "tell us of it")
