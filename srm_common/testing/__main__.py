"""``python -m srm_common.testing fetch [kafka] [mirror-maker]``: Kafka's jars into the cache; ``check-spark``: is
the installed PySpark whole? Errors go to standard error, with exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from srm_common.errors import LocalKafkaError
from srm_common.testing.artifacts import kafka_jars, mirror_maker_jars
from srm_common.testing.installation import spark_faults


def main(arguments: Sequence[str]) -> int:
    match list(arguments):
        case ["fetch", *kinds] if set(kinds) <= {"kafka", "mirror-maker"}:
            try:
                for kind in kinds or ["kafka", "mirror-maker"]:
                    print(kafka_jars() if kind == "kafka" else mirror_maker_jars())
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
