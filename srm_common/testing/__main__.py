"""``python -m srm_common.testing fetch [kafka] [mirror-maker] [tools] [tiered]``: Kafka's jars into the cache;
``archive [VERSION ...]``: class-data archives beside them, with which brokers start faster;
``check-spark``: checks that the installed PySpark is complete. Errors go to standard error, with exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from srm_common.errors import LocalKafkaError
from srm_common.testing.artifacts import (
    DEFAULT_KAFKA_VERSION,
    kafka_jars,
    kafka_tools_jars,
    mirror_maker_jars,
    tiered_storage_jars,
)
from srm_common.testing.class_archive import kafka_class_archive
from srm_common.testing.installation import spark_faults

_KINDS = {
    "kafka": kafka_jars,
    "mirror-maker": mirror_maker_jars,
    "tools": kafka_tools_jars,
    "tiered": tiered_storage_jars,
}


def main(arguments: Sequence[str]) -> int:
    match list(arguments):
        case ["fetch", *kinds] if set(kinds) <= _KINDS.keys():
            try:
                for kind in kinds or _KINDS:
                    print(_KINDS[kind]())
            except LocalKafkaError as failure:
                print(failure, file=sys.stderr)
                return 1
            return 0
        case ["archive", *versions]:
            try:
                for version in versions or (DEFAULT_KAFKA_VERSION,):
                    print(kafka_class_archive(version))
            except LocalKafkaError as failure:
                print(failure, file=sys.stderr)
                return 1
            return 0
        case ["check-spark"]:
            faults = spark_faults()
            print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
            return 1 if faults else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
