"""How many bytes may be in flight to one leader: as many as its link has proved able to carry."""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes in flight to one leader: at first, at least and at most.
_FIRST_WINDOW, _SMALLEST_WINDOW, _LARGEST_WINDOW = 1 << 20, 64 << 10, 64 << 20
#: An answer within the first lets the window grow by what it acknowledges; one after the second makes it smaller.
_QUICK_SECONDS, _SLOW_SECONDS = 1.0, 3.0


@dataclass(slots=True)
class LeaderRoute:
    """What is under way to one leader. ``window``: bytes that its link carries in a second or two, as far as answers
    have shown."""

    requests: int = 0
    bytes: int = 0
    window: float = _FIRST_WINDOW
    heard_at: float = 0.0

    def sent(self, size: int, now: float) -> None:
        if not self.requests:
            self.heard_at = now
        self.requests += 1
        self.bytes += size

    def answered(self, size: int, sent_at: float, now: float, throttle_seconds: float = 0.0) -> None:
        """``throttle_seconds``: for how long the broker, whose quota is used up, takes no further request. It answers
        at once (KIP-219), but a window that grows on would have one request overdraw the quota by more than a
        transaction may last."""
        self.heard_at = now
        seconds = now - sent_at + throttle_seconds
        if seconds < _QUICK_SECONDS:
            self.window = min(self.window + size, _LARGEST_WINDOW)
        elif seconds > _SLOW_SECONDS:
            self.window = max(self.window * 0.7, _SMALLEST_WINDOW)

    def timed_out(self) -> None:
        self.window = max(self.window / 2, _SMALLEST_WINDOW)

    def abandon(self, now: float) -> None:
        if self.requests and now - self.heard_at > _SLOW_SECONDS:
            # The transaction ran out of time before the link had carried it.
            self.timed_out()
        self.requests = self.bytes = 0
