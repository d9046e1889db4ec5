"""Google's own reading of ``.proto`` files and of messages, to judge by: protoc and the runtime of Python."""

from __future__ import annotations

import importlib.resources
import re
import site
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

#: Confluent's files, which no package for Python has.
CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
}
MAIN = "main.proto"


def compiled(text: str, others: Mapping[str, str] | None = None) -> Any:
    """A ``FileDescriptorSet`` of a file and all that it imports; None if protoc refuses it.

    Options of Confluent may stand in it without an import, as its converter writes them.
    """
    if "confluent.field_meta" in text and "confluent/meta.proto" not in text:
        text = re.sub(r"(syntax = [^;]*;)", r'\1 import "confluent/meta.proto";', text, count=1)
    with tempfile.TemporaryDirectory() as folder:
        for name, one in {**CONFLUENT, **(others or {}), MAIN: text}.items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(one, encoding="utf-8", errors="surrogatepass")
        out = Path(folder) / "out"
        known = str(importlib.resources.files("grpc_tools") / "_proto")
        paths = [f"-I{one}" for one in (folder, known, *site.getsitepackages())]
        if protoc.main(["protoc", *paths, "--include_imports", f"--descriptor_set_out={out}", MAIN]) != 0:
            return None
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def message_class(text: str, name: str, others: Mapping[str, str] | None = None) -> Any:
    """The class of a message with this full name."""
    files = compiled(text, others)
    assert files is not None, text
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
