"""Regenerate the Python stubs beside the .proto files of proto/oscine_proto.

Files keep their canonical names (oscine/v1/x.proto), which other languages and reflection see; Python's packages lie
one level deeper, in oscine_proto, so the generated imports are moved there.
"""

import re
import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent / "proto" / "oscine_proto"
_GENERATED_IMPORT = re.compile(r"(?<![\w./])oscine\.(?=(?:\w+\.)*v\d+(?: import |\.\w+_pb2))")


def moved(text: str) -> str:
    """Generated code with its imports pointing into oscine_proto."""
    return _GENERATED_IMPORT.sub("oscine_proto.oscine.", text)


def main() -> int:
    protos = sorted(ROOT.rglob("*.proto"))
    outputs = [f"--{kind}_out={ROOT}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    includes = [f"-I{ROOT}", f"-I{files('grpc_tools') / '_proto'}"]
    status = protoc.main(["protoc", *includes, *outputs, *map(str, protos)])
    if status:
        return int(status)
    for path in [*ROOT.rglob("*_pb2*.py"), *ROOT.rglob("*_pb2*.pyi")]:
        path.write_text(moved(path.read_text()))
    for proto in protos:
        for folder in (proto.parent, *proto.parent.parents):
            if folder == ROOT:
                break
            (folder / "__init__.py").touch()
    print(f"proto: {len(protos)} files, stubs written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
