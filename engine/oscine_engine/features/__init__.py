"""Audio features in torch alone, on any device: what the flow, the speech tokenizer and the speaker encoder take in.

Audio is float32 in [-1, 1], mono, one signal [n] or a batch [B, n] of equal lengths. Everything is differentiable.
"""

from oscine_engine.features.kaldi import kaldi_fbank80
from oscine_engine.features.mel import mel24k, whisper128
from oscine_engine.features.resampling import resample

__all__ = ["kaldi_fbank80", "mel24k", "resample", "whisper128"]
