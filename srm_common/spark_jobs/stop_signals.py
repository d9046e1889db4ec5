"""How our Spark applications are stopped: by SIGTERM, or because the JVM is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

from srm_common.kafka.client.connections.event_loop import interrupt
from srm_common.replication.spark.spark_application import JVM_GONE

#: Exit code of a stopped process, as shells have it for Ctrl-C.
STOPPED = 130
_LOOK_SECONDS = 1.0
#: How long a shutdown may take when nothing waits for it any longer.
_END_SECONDS = 60.0


class StopSignals:
    """Raises KeyboardInterrupt in the main thread when the process is told to stop, and ends Spark's jobs. The
    exception's text is the reason, empty for SIGTERM."""

    def __init__(self) -> None:
        #: Set when the process has been told to stop.
        self.stopping = threading.Event()
        self._without_jvm = threading.Event()

    def watch(self) -> None:
        """From now on; to be called in the main thread."""
        signal.signal(signal.SIGTERM, self._stop)
        # PySpark replaces this one, unless its context is made in another thread.
        signal.signal(signal.SIGINT, self._stop)
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            # spark-submit's JVM has started this process. What does not talk to it would not notice that it is gone.
            threading.Thread(target=self._stop_without, args=(os.getppid(),), name="srm-jvm", daemon=True).start()

    def _stop_without(self, parent: int) -> None:
        """In a thread of its own: stop this process when it has another parent."""
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        self._without_jvm.set()
        if not self.stopping.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_END_SECONDS)
        os._exit(STOPPED)

    def _stop(self, *_: object) -> None:
        """Stop cleanly; further signals change nothing."""
        if self.stopping.is_set():
            return
        self.stopping.set()
        # In another thread, which has its own connection to the JVM: this one may be in the middle of a call.
        threading.Thread(target=self._cancel_jobs, name="srm-cancel", daemon=True).start()
        interrupt(JVM_GONE if self._without_jvm.is_set() else "")

    def _cancel_jobs(self) -> None:
        """So that workers do not continue while the process ends."""
        from py4j.protocol import Py4JError
        from pyspark import SparkContext

        # While a context is being made, or after it was stopped, it has no JVM's, and no jobs.
        java = getattr(SparkContext._active_spark_context, "_jsc", None)
        if java is not None and not self._without_jvm.is_set():
            with contextlib.suppress(Py4JError, OSError):  # it may be ending, too
                java.sc().cancelAllJobs()
