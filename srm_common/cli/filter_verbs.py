"""What ``topics``, ``groups`` and ``reverse-checkpointed-topics`` share: the options of Streams Replication Manager's
srm-control, their newer synonyms, and the edit itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import RenderableType

from srm_common.cli.flow_choice import ChosenFlow, ClientOverrides, chosen_flow, client_options, flow_choice_options
from srm_common.cli.invocation import Invocation, config_option, rows_output_option
from srm_common.cli.output import Answer, table
from srm_common.domain.filters.flow_filters import FilterEdit, FilterLists, FlowFilters, edited
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import ControlRecord
from srm_common.domain.patterns.name_filter import split_list
from srm_common.errors import ConfigError, SrmError

if TYPE_CHECKING:
    from srm_common.cli.filter_store import FilterStore, Store
    from srm_common.usecases.filters.effective_filters import EffectiveFilters

F = TypeVar("F", bound=Callable[..., Any])
_PATIENCE_MS = 5_000
#: The effect of an edit on the existing names: (copied before, copied after, further remarks).
Effect = Callable[[FlowSettings, FlowSettings], tuple[set[str], set[str], list[str]]]


@dataclass(frozen=True)
class Verb:
    """One of the commands: ``include`` is its list, ``what`` the word for its entries. ``acts``: an edit starts or
    stops something that can be listed beforehand."""

    include: str
    what: str
    acts: bool = True

    @property
    def exclude(self) -> str:
        return f"{self.include}.exclude"


@dataclass(frozen=True)
class Request:
    """The request of the command line."""

    edit: FilterEdit
    show: bool = False
    history: bool = False
    dry_run: bool = False
    now: bool = False
    store: Store = "auto"


class ListsCommand(click.Command):
    """A command whose lists may have blanks after their commas, as SRM's manual prints them: ``--add a, b``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        lists = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and parameter.callback is _split
            for name in parameter.opts
        }
        joined: list[str] = []
        in_list = False
        for arg in args:
            if in_list and not arg.startswith("-") and (joined[-1].endswith(",") or arg.startswith(",")):
                joined[-1] += arg
                continue
            # The value of a list's option, which follows its name or is joined to it by '='.
            in_list = (bool(joined) and joined[-1] in lists) or arg.partition("=")[0] in lists - {arg}
            joined.append(arg)
        return super().parse_args(ctx, joined)


def filter_options(verb: Verb) -> Callable[[F], F]:
    """All options of such a command; give its function ``**options`` and hand them to :func:`opened`."""
    plural = verb.what
    lists: list[tuple[tuple[str, ...], str]] = [
        (("--add", "--add-include", "--add-whitelist", "--add-allowlist"), f"Add to the {plural} that are included."),
        (("--remove", "--remove-include", "--remove-whitelist", "--remove-allowlist"), "Remove from them."),
        (("--add-exclude", "--add-blacklist", "--add-denylist"), f"Add to the {plural} that are left out; these win."),
        (("--remove-exclude", "--remove-blacklist", "--remove-denylist"), "Remove from them."),
    ]

    def decorate(command: F) -> F:
        command = rows_output_option(config_option(client_options(command)))
        command = click.option(
            "--store",
            type=click.Choice(["auto", "airflow", "kafka"]),
            default="auto",
            help="Where edits are kept.  [default: the Airflow of $SRM_AIRFLOW_URL or $AIRFLOW_HOME, else Kafka]",
        )(command)
        if verb.acts:
            command = click.option("--now", is_flag=True, help="Start a run of the flow's DAG after the edit.")(command)
        dry = "Change nothing; print " + ("what would start and stop being copied." if verb.acts else "the edit.")
        command = click.option("--dry-run", is_flag=True, help=dry)(command)
        command = click.option("--history", is_flag=True, help="List the edits: who, when, before, after.")(command)
        command = click.option("--list", "show", is_flag=True, help="Print both lists.")(command)
        command = click.option("--reset", is_flag=True, help="Use the lists of the properties file again.")(command)
        command = click.option(
            "--file",
            type=click.File("r", encoding="utf-8"),
            metavar="FILE",
            help='Read from a file (-: standard input): a JSON object such as {"topics": ["a.*"]} replaces the lists '
            "it names; lines of text are added like --add.",
        )(command)
        for names, text in reversed(lists):
            command = click.option(
                *names, multiple=True, metavar="A,B.*", callback=_split, help=f"{text} Names or expressions."
            )(command)
        return flow_choice_options(command)

    return decorate


def opened(
    invocation: Invocation, verb: Verb, options: dict[str, Any]
) -> tuple[ChosenFlow, Request, FilterStore, EffectiveFilters]:
    """The flow, what is asked for, where its edits are kept, and what counts now. Raises :class:`ConfigError`, ..."""
    from srm_common.cli.filter_store import filter_store

    clients = ClientOverrides(
        options["bootstrap_servers"], options["props"], options["producer_props"], options["consumer_props"]
    )
    request = _request(verb, options)
    chosen = chosen_flow(invocation, options["flow"], options["source"], options["target"], clients)
    store = filter_store(chosen.settings, chosen.flows, request.store, writes_to=chosen.writes_to)
    effective = store.effective()
    for fault in effective.faults:
        print(f"srm-control: warning: {fault}", file=sys.stderr)
    return chosen, request, store, effective


def _request(verb: Verb, options: dict[str, Any]) -> Request:
    add, put = list(options["add"]), FilterLists()
    if options["file"] is not None:
        more, put = _from_file(options["file"])
        add += more
    edit = FilterEdit(
        add={verb.include: add, verb.exclude: options["add_exclude"]},
        remove={verb.include: options["remove"], verb.exclude: options["remove_exclude"]},
        put=put,
        reset=(verb.include, verb.exclude) if options["reset"] else (),
    )
    now = options.get("now", False)
    if not edit and (options["dry_run"] or now):
        raise ConfigError("--dry-run and --now need an edit (--add, --remove, --add-exclude, --file, ...)")
    if options["dry_run"] and now:
        raise ConfigError("--dry-run changes nothing, so there is nothing for --now to start")
    return Request(edit, options["show"], options["history"], options["dry_run"], now, options["store"])


def _from_file(file: Any) -> tuple[list[str], FilterLists]:
    name = Path(file.name).name if file.name != "<stdin>" else "standard input"
    try:
        text = file.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8 text: {error.reason} at byte {error.start}", file=name) from None
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        try:
            return [], FilterLists.parse(text.lstrip("\ufeff"))
        except ConfigError as error:
            raise ConfigError(error.reason, file=name) from None
    lines = (line.strip() for line in text.lstrip("\ufeff").splitlines())
    return _pieces(line for line in lines if not line.startswith("#")), FilterLists()


def of_lists(
    verb: Verb,
    chosen: ChosenFlow,
    request: Request,
    store: FilterStore,
    effective: EffectiveFilters,
    effect: Effect | None = None,
) -> Answer | None:
    """The answer if the lists are to be edited or printed; None if what they select is to be listed. ``effect`` None:
    these lists select nothing to copy."""
    if request.edit:
        return _edit(verb, chosen, request, store, effective, effect)
    if request.show:
        return listed(verb, effective)
    return _history(chosen.settings) if request.history else None


def origins(verb: Verb, effective: EffectiveFilters) -> dict[str, str]:
    """Where each of the two lists comes from."""
    return {key: effective.filters.origin_of(key) for key in (verb.include, verb.exclude)}


def listed(verb: Verb, effective: EffectiveFilters) -> Answer:
    """Both lists, in the layout of Streams Replication Manager."""
    filters = effective.filters
    include, exclude = filters.patterns(verb.include), filters.patterns(verb.exclude)
    return Answer(
        {
            "flow": str(effective.flow.name),
            verb.include: list(include),
            verb.exclude: list(exclude),
            "from": origins(verb, effective),
            "warnings": list(effective.faults),
        },
        "\n".join(["Current whitelist:", *include, "Current blacklist:", *exclude, "Done."]),
        rows=[
            ("list", "expression"),
            *((verb.include, one) for one in include),
            *((verb.exclude, one) for one in exclude),
        ],
    )


def _history(flow: FlowSettings) -> Answer:
    """All edits of the flow's lists, the newest last."""
    from srm_common.usecases.filters.filter_history import filter_history

    records, unreadable = filter_history(flow)
    rows = [[record.when, record.who or "unknown", record.origin, record.note, _changes(record)] for record in records]
    columns = ["WHEN", "WHO", "KEPT IN", "HOW", "WHAT"]
    text: list[RenderableType] = [table(columns, rows) if rows else f"{flow.name}: its lists have not been edited yet."]
    return Answer(
        {"flow": str(flow.name), "edits": [record.to_json() for record in records], "unreadable": unreadable},
        [*text, *(f"Note: {one}" for one in unreadable)],
        rows=[[column.lower() for column in columns], *rows],
    )


def _edit(
    verb: Verb,
    chosen: ChosenFlow,
    request: Request,
    store: FilterStore,
    effective: EffectiveFilters,
    effect: Effect | None,
) -> Answer:
    """Make the edit, or say what it would do."""
    if effective.faults and not request.edit.replaces:
        raise ConfigError(
            "the current lists cannot be edited, since they cannot be read (see the warning); fix them in Airflow, "
            "replace them with --file, or use those of the properties file with --reset"
        )
    result = edited(FlowFilters.of(chosen.settings), effective.lists, request.edit)
    changed = result.lists != effective.lists or bool(effective.faults)
    after = result.lists.over(chosen.settings, store.place)
    notes = list(result.notes)
    starts, stops = _effect(chosen, effective.flow, after.applied_to(chosen.settings), effect, request, notes)
    run, exit_code = None, 0
    if request.now:
        store.can_run()
    if changed and not request.dry_run:
        notes += store.write(result.lists, effective, f"srm-control {verb.what.replace(' ', '-')}")
    if request.now:
        try:
            run = store.start_run()
        except SrmError as error:
            notes.append(f"no run was started: {error}")
            exit_code = error.exit_code
    lists = {key: list(after.patterns(key)) for key in (verb.include, verb.exclude)}
    data = {
        "flow": str(chosen.settings.name),
        "changed": changed and not request.dry_run,
        "dry_run": request.dry_run,
        "kept_in": store.place,
        "before": effective.lists.to_json(),
        "after": result.lists.to_json(),
        "lists": lists,
        "starts": starts,
        "stops": stops,
        "notes": notes,
        "run": run,
    }
    text: list[RenderableType] = [_headline(chosen, request, store, changed)]
    text += [f"  {line}" for line in _differences(effective.lists, result.lists, effective)]
    text += [f"Starts: {name}" for name in starts or ()]
    text += [f"Stops:  {name}" for name in stops or ()]
    text += [f"Note: {note}" for note in notes]
    if run is not None:
        text.append(run[0].upper() + run[1:] + ".")
    elif changed and not request.dry_run:
        text.append("It takes effect in the flow's next run.")
    if request.show:
        text.append(
            "\n".join(["Current whitelist:", *lists[verb.include], "Current blacklist:", *lists[verb.exclude], "Done."])
        )
    rows = [
        ("change", "name"),
        *(("starts", start) for start in starts or ()),
        *(("stops", stop) for stop in stops or ()),
    ]
    return Answer(data, text, exit_code, rows)


def _headline(chosen: ChosenFlow, request: Request, store: FilterStore, changed: bool) -> str:
    name = chosen.settings.name
    if not changed:
        return f"{name}: nothing to change in {store.place}"
    return f"{name}: would be edited in {store.place}" if request.dry_run else f"{name}: edited in {store.place}"


def _effect(
    chosen: ChosenFlow,
    before: FlowSettings,
    after: FlowSettings,
    effect: Effect | None,
    request: Request,
    notes: list[str],
) -> tuple[list[str] | None, list[str] | None]:
    """Names that start and stop being copied; None if the source cannot be queried."""
    if effect is None:
        return None, None
    if request.dry_run:
        chosen.need_source("--dry-run")
    elif not chosen.file:
        return None, None
    if not request.dry_run:
        # The edit is made even if the source does not respond.
        before, after = (
            replace(flow, admin_timeout_ms=min(flow.admin_timeout_ms, _PATIENCE_MS)) for flow in (before, after)
        )
    try:
        was, becomes, more = effect(before, after)
    except SrmError as error:
        if request.dry_run:
            raise
        notes.append(f"cannot tell what starts and stops: {error}")
        return None, None
    notes += more
    return sorted(becomes - was), sorted(was - becomes)


def _differences(before: FilterLists, after: FilterLists, effective: EffectiveFilters) -> Iterable[str]:
    for key, patterns in after.lists:
        old = effective.filters.patterns(key)
        for sign, some, others in (("+", patterns, old), ("-", old, patterns)):
            yield from (f"{sign} {one}   ({key})" for one in some if one not in others)
    yield from (f"{key}: as in the properties file again" for key, _ in before.lists if after.get(key) is None)


def _changes(record: ControlRecord) -> str:
    """What an edit changed, in a line."""
    before, after = _plain(record.before), _plain(record.after)
    parts = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if new is None:
            parts.append(f"{key}: as in the properties file")
        elif old is None:
            parts.append(f"{key}: {', '.join(new) or 'none'}")
        else:
            signs = [f"+{one}" for one in new if one not in old] + [f"-{one}" for one in old if one not in new]
            parts.append(f"{key}: {' '.join(signs) or 'reordered'}")
    return "; ".join(parts)


def _plain(found: Any) -> dict[str, Sequence[str]]:
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def _split(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> list[str]:
    return _pieces(values)


def _pieces(values: Iterable[str]) -> list[str]:
    return [one for value in values for one in split_list(value) if one]
