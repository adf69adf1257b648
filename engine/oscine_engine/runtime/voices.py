"""The voices' pages: a cache under a budget of pages, filled step by step like any other speech.

    state      pages         holders              what moves it on
    ---------  ------------  -------------------  ----------------------------------------------------
    absent     none          none                 `pin`: makes room, then building
    building   growing       those who wait       Euler steps of `voice.prompt`; the last one: built
    built      all           any number, or none  `pin`, `unpin`; without holders it may be evicted
    spoilt     none          those who waited     nothing: its holders end, and then it is absent

A voice counts with all its pages from the moment it begins to be built, so a build never runs out of room. Only a voice
nobody holds is evicted, the one unused for longest first. Who cannot be made room for is refused, never waited for.
Voices of a store come and go, so their number has a bound as well, above that of streams: those in use never reach it.
"""

from collections import OrderedDict
from collections.abc import Iterable

import torch

from oscine_engine.errors import InvalidInput, Overloaded
from oscine_engine.flow.stream import FlowPrefix, FlowStream
from oscine_engine.flow.streams import FlowStreams
from oscine_engine.runtime.book import ReadyVoice


class CachedVoice:
    """One voice's place in the cache. key: of what it sounds like, which may have several names. pages: what it takes
    in the end. holders: open streams that speak in it.

    prompt: its finished chunks on their way; prefix: what they became. At most one of both is set, and both are None in
    a voice that was evicted or spoilt.
    """

    __slots__ = ("holders", "key", "name", "open_tokens", "pages", "prefix", "prompt", "prompt_frames")

    def __init__(self, ready: ReadyVoice, pages: int, flow: FlowStreams) -> None:
        ratio, prompt_tokens = flow.config.token_mel_ratio, ready.tokens
        self.key, self.name = ready.key, ready.name
        self.pages = pages
        self.holders = 0
        self.prompt_frames = ratio * prompt_tokens
        self.open_tokens = prompt_tokens - pages * flow.config.dit.static_chunk_size // ratio
        self.prompt: FlowStream | None = None
        self.prefix: FlowPrefix | None = None

    @property
    def pages_held(self) -> int:
        if self.prefix is not None:
            return len(self.prefix.pages)
        return len(self.prompt.pages) if self.prompt is not None else 0


class VoiceCache:
    """Belongs to the loop's thread, as do the pages. max_pages: the budget, of the flow's pool. max_voices: at once.

    longest: speech tokens that must fit the flow's fixed noise after the prompt.
    """

    def __init__(self, flow: FlowStreams, max_pages: int, max_voices: int, longest: int = 0) -> None:
        self._flow = flow
        self._longest = longest
        self._max_voices = max_voices
        self.max_pages = max_pages
        self._cached: OrderedDict[str, CachedVoice] = OrderedDict()
        """Unused for longest first."""
        self._held = 0

    @property
    def pages_held(self) -> int:
        """Pages that built and growing voices hold now."""
        return sum(voice.pages_held for voice in self._cached.values())

    @property
    def built(self) -> tuple[str, ...]:
        """Keys of the voices that are ready to speak, unused for longest first."""
        return tuple(key for key, voice in self._cached.items() if voice.prefix is not None)

    def pin(self, ready: ReadyVoice) -> CachedVoice:
        """The voice, held until `unpin`; it begins to be built if it is not there.

        Raises InvalidInput for a voice that can never fit, Overloaded while those in use leave no room for it.
        """
        voice = self._cached.get(ready.key)
        if voice is None:
            voice = self._begin(ready)
        voice.holders += 1
        self._cached.move_to_end(ready.key)
        return voice

    def unpin(self, voice: CachedVoice) -> None:
        voice.holders -= 1
        if self._cached.get(voice.key) is voice:
            self._cached.move_to_end(voice.key)

    def steps_left(self, voice: CachedVoice) -> int:
        """Euler steps until it is built."""
        if voice.prompt is None:
            return 0
        done = voice.prompt.chunk.step if voice.prompt.chunk is not None else 0
        solved = voice.prompt.frames // self._flow.config.dit.static_chunk_size
        return (voice.pages - solved) * self._flow.n_timesteps - done

    def advanced(self, voice: CachedVoice) -> None:
        """To be called when `voice.prompt` finished a chunk: the last one makes it a prefix.

        Raises ValueError if its numbers are not finite; then it should be spoilt.
        """
        prompt = voice.prompt
        if prompt is None or prompt.chunk is not None:
            return
        if not self._flow.sound(prompt):
            raise ValueError(f"the numbers of voice {voice.name!r} are not finite")
        self._flow.take_mel(prompt)
        if not self._flow.ready(prompt):
            voice.prefix, voice.prompt = self._flow.prefix(prompt), None

    def spoil(self, voice: CachedVoice) -> None:
        """Drop a voice whose build failed; its holders still have to be ended."""
        if self._cached.get(voice.key) is voice:
            self._drop(voice)

    def warm(self, voices: Iterable[ReadyVoice]) -> None:
        """Build those of the voices that fit together, in this order, at once. Bad ones are left for who asks."""
        for ready in voices:
            if ready.key in self._cached or self._held + self._size(ready) > self.max_pages:
                continue
            try:
                voice = self._begin(ready)
            except InvalidInput:
                continue
            try:
                while voice.prompt is not None:
                    if voice.prompt.chunk is None:
                        self._flow.begin(voice.prompt)
                    self._flow.step([voice.prompt])
                    self.advanced(voice)
            except ValueError:
                self.spoil(voice)

    def close(self) -> None:
        """Give every page back; nobody may hold a voice any more."""
        for voice in list(self._cached.values()):
            self._drop(voice)

    def _size(self, ready: ReadyVoice) -> int:
        return self._flow.prompt_pages(ready.tokens)

    @torch.no_grad()
    def _begin(self, ready: ReadyVoice) -> CachedVoice:
        prompt, size, name = ready.prompt, self._size(ready), ready.name
        if size > self.max_pages:
            raise InvalidInput(
                f"voice {name!r} needs {size} pages of memory, and {self.max_pages} are set aside for voices"
            )
        tokens = prompt.flow_speech_tokens
        if tokens.numel() + self._longest > self._flow.max_tokens:
            most = (self._flow.max_tokens - self._longest) / self._flow.config.input_frame_rate
            raise InvalidInput(f"voice {name!r} has too long a prompt; {most:.0f} s is the most that fits")
        self._make_room(size, name)
        voice = CachedVoice(ready, size, self._flow)
        stream = self._flow.prompt(tokens, prompt.mel, prompt.embedding)
        if self._flow.ready(stream):
            voice.prompt = stream
        else:
            voice.prefix = self._flow.prefix(stream)
        self._cached[ready.key] = voice
        self._held += size
        return voice

    def _make_room(self, size: int, name: str) -> None:
        idle = [voice for voice in self._cached.values() if not voice.holders]
        if self._held - sum(voice.pages for voice in idle) + size > self.max_pages:
            raise Overloaded(f"the voices in use leave no memory for voice {name!r}; try again", 1.0)
        for voice in idle:
            if self._held + size <= self.max_pages and len(self._cached) < self._max_voices:
                return
            self._drop(voice)

    def _drop(self, voice: CachedVoice) -> None:
        del self._cached[voice.key]
        self._held -= voice.pages
        if voice.prompt is not None:
            self._flow.close(voice.prompt)
        if voice.prefix is not None:
            self._flow.release(voice.prefix)
        voice.prompt = voice.prefix = None
