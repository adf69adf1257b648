"""Speech tokenizer and speaker encoder as ONNX files with the signatures of the released ones, weights in int8.

    python -m training.onnx_export EXPORT OUT

EXPORT holds `speech_tokenizer.safetensors` and `speaker.safetensors` of training.tokenizer. OUT receives

* `speech_tokenizer_v3.onnx`: float32 [1, 128, frames] log mel at 100 Hz, int32 [1] = frames -> ids [1, frames // 4];
* `campplus.onnx`: float32 [1, frames, 80] mean-subtracted filterbank energies -> embedding [1, 192].

Large weights are stored as int8 with one scale for each output channel and a DequantizeLinear node, which the runtime
folds at load. Needs the `train` extra (onnx, onnxscript).
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from safetensors.torch import load_file
from torch import Tensor, nn

from oscine_engine.checkpoint import layout
from training.networks import SpeakerEncoder, SpeechTokenizer

OPSET = 18
PACK_FROM = 8192
IR_VERSION = 10


def load(module: nn.Module, path: Path) -> nn.Module:
    """`module` with the weights of a safetensors file, in float32 and evaluation mode."""
    module.load_state_dict({name: value.float() for name, value in load_file(path).items()})
    return module.eval()


def trace(module: nn.Module, inputs: dict[str, Tensor], output: str, free: tuple[str, int]) -> onnx.ModelProto:
    """The graph of a module; `free` names the input and the axis whose length may vary."""
    shapes = {name: {free[1]: torch.export.Dim.DYNAMIC} if name == free[0] else {} for name in inputs}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            tuple(inputs.values()),
            input_names=list(inputs),
            output_names=[output],
            dynamic_shapes=tuple(shapes.values()),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("the exporter returned no program")
    model: onnx.ModelProto = program.model_proto
    return model


def output_axis(node: onnx.NodeProto) -> int | None:
    """The axis of a node's second input that runs over output channels; None if that input is no weight."""
    if node.op_type == "Gemm":
        return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
    return {"Conv": 0, "MatMul": 1}.get(node.op_type)


def pack(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store the large weights of convolutions and matrix products as int8; drop what only describes the source code."""
    graph = model.graph
    axes = {node.input[1]: axis for node in graph.node if (axis := output_axis(node)) is not None}
    kept, added = [], []
    for tensor in graph.initializer:
        weight = numpy_helper.to_array(tensor)
        if tensor.name not in axes or weight.dtype != np.float32 or weight.size < PACK_FROM:
            kept.append(tensor)
            continue
        axis = axes[tensor.name]
        scale = np.abs(weight).max(axis=tuple(i for i in range(weight.ndim) if i != axis)) / 127
        scale = np.where(scale > 0, scale, 1).astype(np.float32)
        across = scale.reshape([-1 if i == axis else 1 for i in range(weight.ndim)])
        whole = np.clip(np.round(weight / across), -127, 127).astype(np.int8)
        kept.append(numpy_helper.from_array(whole, f"{tensor.name}.int8"))
        kept.append(numpy_helper.from_array(scale, f"{tensor.name}.scale"))
        names = [f"{tensor.name}.int8", f"{tensor.name}.scale"]
        added.append(helper.make_node("DequantizeLinear", names, [tensor.name], axis=axis))
    nodes = [*added, *graph.node]
    for node in nodes:
        node.doc_string = ""
        del node.metadata_props[:]
    packed = helper.make_graph(nodes, "main", list(graph.input), list(graph.output), kept)
    made = helper.make_model(packed, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="oscine")
    made.ir_version = IR_VERSION
    onnx.checker.check_model(made)
    return made


def tokenizer_model(module: nn.Module) -> onnx.ModelProto:
    """The speech tokenizer's packed graph."""
    frames = torch.tensor([203], dtype=torch.int32)
    inputs = {"feats": torch.zeros(1, 128, 203), "feats_length": frames}
    return pack(trace(module, inputs, "indices", ("feats", 2)))


def speaker_model(module: nn.Module) -> onnx.ModelProto:
    """The speaker encoder's packed graph."""
    return pack(trace(module, {"input": torch.zeros(1, 203, 80)}, "output", ("input", 1)))


def agreement(
    tokenizer: nn.Module, speaker: nn.Module, out: Path, examples: list[tuple[Tensor, Tensor]]
) -> tuple[float, float]:
    """(share of equal ids, lowest cosine of embeddings) of the files in `out` against the modules.

    `examples`: pairs of log mel [128, F] and filterbank energies [F', 80].
    """
    ids = onnxruntime.InferenceSession(str(out / layout.SPEECH_TOKENIZER), providers=["CPUExecutionProvider"])
    voice = onnxruntime.InferenceSession(str(out / layout.SPEAKER_ENCODER), providers=["CPUExecutionProvider"])
    mel_name, length_name = (x.name for x in ids.get_inputs())
    equal, cosines = [], []
    for mel, fbank in examples:
        length = torch.tensor([mel.shape[1]], dtype=torch.int32)
        found = ids.run(None, {mel_name: mel[None].numpy(), length_name: length.numpy()})[0]
        embedding = torch.from_numpy(voice.run(None, {voice.get_inputs()[0].name: fbank[None].numpy()})[0])
        with torch.no_grad():
            equal.append(float((torch.from_numpy(found) == tokenizer(mel[None], length)).float().mean()))
            cosines.append(float(torch.cosine_similarity(embedding, speaker(fbank[None]))))
    return float(np.mean(equal)), min(cosines)


def export(weights: Path, out: Path) -> tuple[nn.Module, nn.Module]:
    """Write both files; returns the two modules for comparison."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = load(SpeechTokenizer(), weights / "speech_tokenizer.safetensors")
    speaker = load(SpeakerEncoder(), weights / "speaker.safetensors")
    (out / layout.SPEECH_TOKENIZER).write_bytes(tokenizer_model(tokenizer).SerializeToString())
    (out / layout.SPEAKER_ENCODER).write_bytes(speaker_model(speaker).SerializeToString())
    return tokenizer, speaker


def main() -> None:
    """Command line entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    a = parser.parse_args()
    tokenizer, speaker = export(a.weights, a.out)
    noise = [(torch.randn(128, n), torch.randn(n - 2, 80)) for n in (80, 203, 1001, 3000)]
    equal, cosine = agreement(tokenizer, speaker, a.out, noise)
    sizes = {name: (a.out / name).stat().st_size for name in (layout.SPEECH_TOKENIZER, layout.SPEAKER_ENCODER)}
    print(f"sizes {sizes}; on noise {equal:.1%} of ids equal, embeddings' lowest cosine {cosine:.5f}")


if __name__ == "__main__":
    main()
