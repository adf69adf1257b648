"""Regenerate the Python stubs of the .proto files of proto/oscine_proto, there and in the Python client.

Files keep their canonical names (oscine/v1/x.proto), which other languages and reflection see; Python's packages lie
one level deeper, in oscine_proto, so the generated imports are moved there. The client has copies of those that are
public, flat and in a descriptor pool of its own: it is installed without the service, or beside another version of it.
"""

import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

REPOSITORY = Path(__file__).resolve().parent.parent
ROOT = REPOSITORY / "proto" / "oscine_proto"
PUBLIC = ROOT / "oscine" / "v1"
CLIENT = REPOSITORY / "clients" / "python" / "oscine_client" / "_stubs"
_PACKAGES = r"oscine\.(?:\w+\.)*v\d+|nvidia_riva"
_GENERATED_IMPORT = re.compile(rf"(?<![\w./])({_PACKAGES})(?= import |\.\w+_pb2)")
_OUR_PACKAGE = re.compile(r"\boscine_proto\.oscine\.v1\b")


def moved(text: str) -> str:
    """Generated code with its imports pointing into oscine_proto."""
    return _GENERATED_IMPORT.sub(r"oscine_proto.\1", text)


def copied(text: str) -> str:
    """Moved code as the client has it."""
    text = _OUR_PACKAGE.sub("oscine_client._stubs", text)
    text = text.replace("_descriptor_pool.Default()", "POOL")
    return text.replace(
        "from google.protobuf import descriptor_pool as _descriptor_pool", "from oscine_client._stubs import POOL"
    )


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
    for path in PUBLIC.glob("*_pb2*.py*"):
        copy = CLIENT / path.name
        shutil.copyfile(path, copy)
        copy.write_text(copied(copy.read_text()))
    print(f"proto: {len(protos)} files, stubs written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
