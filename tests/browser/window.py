"""A browser window of somebody who has logged in to Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Frame, FrameLocator, Request, Response, expect

LIMIT_MS = 180_000
PAGE = "/plugin/replications"


class Logins:
    """Each user logs in once, by Airflow's own form; later windows have the cookie."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self._states: dict[str, Any] = {}

    def of(self, user: str) -> Any:
        """What Playwright keeps of a login."""
        if user not in self._states:
            context = self._browser.new_context()
            page = context.new_page()
            page.set_default_timeout(LIMIT_MS)
            page.goto(self._url)
            page.get_by_label("Username").fill(user)
            page.get_by_role("textbox", name="Password").fill(user)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(lambda address: "/auth/" not in address)
            self._states[user] = context.storage_state()
            context.close()
        return self._states[user]


class Window:
    """``page`` is Playwright's page, ``inside`` our page within Airflow's. ``faults`` collects what no visitor should
    cause: messages of the console, uncaught errors, answers with an error, requests to anywhere else."""

    def __init__(self, browser: Browser, url: str, login: Any, **options: Any) -> None:
        self.url = url
        self.faults: list[str] = []
        settings: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light", **options}
        self._context = browser.new_context(storage_state=login, **settings)
        self._context.set_default_timeout(LIMIT_MS)
        self._context.on("console", self._said)
        self._context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))
        self._context.on("request", self._asked)
        self._context.on("response", self._answered)
        self.page = self._context.new_page()

    @property
    def inside(self) -> FrameLocator:
        return self.page.frame_locator("iframe")

    @property
    def frame(self) -> Frame:
        """The same, for scripts; there once it is shown."""
        return self.page.frames[1]

    def test_ids(self, selector: str) -> list[str]:
        """Of all elements inside that match, in the order of the page."""
        found = self.inside.locator(selector).evaluate_all("all => all.map(one => one.dataset.testid)")
        return [str(one) for one in found]

    def open(self, fragment: str = "") -> None:
        """Our page within Airflow."""
        self.page.goto(f"{self.url}{PAGE}{fragment}")

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

    def forget(self) -> None:
        """Leave the page. The next one starts from scratch, with what the browser has cached for this one."""
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        self.faults.clear()

    def close(self) -> None:
        self._context.close()

    # ---- inside

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"console: {message.text} ({message.location.get('url')})")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.faults.append(f"a request to elsewhere: {request.url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.faults.append(f"{response.request.method} {response.url}: HTTP {response.status}")


class Windows:
    """Each is used by many tests, one after another: Airflow's pages take a new one three times the CPU."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self._logins = Logins(browser, url)
        self._unused: dict[tuple[str, str], list[Window]] = {}
        self._kinds: dict[Window, tuple[str, str]] = {}

    def take(self, user: str, **options: Any) -> Window:
        """One of ``user``, who has logged in, with ``options`` as Playwright's ``new_context`` takes."""
        kind = user, repr(sorted(options.items()))
        unused = self._unused.setdefault(kind, [])
        if not unused:
            unused.append(Window(self._browser, self._url, self._logins.of(user), **options))
            self._kinds[unused[-1]] = kind
        return unused.pop()

    def give_back(self, window: Window) -> None:
        window.forget()
        self._unused[self._kinds[window]].append(window)


expect.set_options(timeout=LIMIT_MS)
