"""docs/configuration.md, generated from the key table.

``python -m srm_common.settings_files.reference > docs/configuration.md`` updates it; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.settings.key import Key, Kind, Level
from srm_common.domain.settings.table import KEYS
from srm_common.settings_files.connections.registry_keys import REGISTRY_KEYS
from srm_common.settings_files.fates import Fate, KeyFate, fates

_INTRODUCTION = """\
# Configuration

One properties file describes all clusters and flows: the one that the environment variable `SRM_CONFIG` points to, or
`srm.properties`. MirrorMaker 2's `mm2.properties` works as is. The file is read in each run: an edit takes effect in
the next one, without a restart. A minimal file:

```properties
{sample}```

[examples/srm.properties](examples/srm.properties) is a longer one.

<!-- Generated from the key table by `python -m srm_common.settings_files.reference`; do not edit. -->

## The file

It is parsed as Java parses properties: `key = value`, `key: value` or `key value`; `#` and `!` start comments; a line
that ends in `\\` continues on the next one, without its leading blanks; a backslash is written `\\\\`; the last of
repeated keys counts. The text is UTF-8. `A -> B.enabled` with blanks around the arrow means `A->B.enabled`, and
`A->B = true` means `A->B.enabled = true`.

`SRM_CONFIG` and `--config` may also point to a folder, whose `*.properties` are read, or to several files separated as
in `PATH`. Together they are one configuration. Two files that give one key different values are rejected.

Lists are separated by commas. Expressions are Java regular expressions and must match a whole name; an empty list
matches nothing; exclusion wins. A comma inside a quantifier such as `x{{1,3}}` does not separate. Expressions that
have no equivalent in Python (`&&` or a class inside a class, `\\p{{...}}` of scripts, `\\G`, `\\X`) are rejected with
their position.

## Levels

A key may be set at several levels. The longest prefix wins, whatever its value: `false`, `0` and an empty value also
override.

| form | applies |
| --- | --- |
{levels}

Keys that are not listed below, or are set at a level they do not have, have no effect. `srm-control config check` lists
them with the key that was probably meant; so do the flow's page in Airflow and, once per run, the log of
`refresh_topics`.

Connection settings, such as `security.protocol`, have levels of their own, in order of precedence:

| form | applies |
| --- | --- |
{connection_levels}

A key with a kind of client applies only to that client, and takes precedence over one without at the same level: the
consumer reads the flow's data at the source, the producer writes them to the target, and the admin client lists and
changes topics, groups and ACLs.

## Inspecting the configuration

| command | prints |
| --- | --- |
{commands}

All of them take `--output json`. None connects to a cluster; with `--without-airflow`, `check` does not query Airflow
either.

## Errors

An error that affects the whole file (no `clusters`, a malformed escape) stops everything. An error in the keys of one
flow, or in a cluster it uses, stops only that flow; the others continue. Every message has file, line, key and what is
accepted.
"""

_CONNECTION_LEVELS = (
    (
        "`<source>-><target>.source.<client>.key`, `.target.<client>.key`; "
        "`<client>`: `consumer`, `producer` or `admin`",
        "one kind of client at one side of one flow",
    ),
    (
        "`<source>-><target>.<client>.override.key`, `.<client>.key`",
        "one kind of client of one flow; an address of the consumer is the source's, one of the producer the target's",
    ),
    ("`<source>-><target>.source.cluster.key`, `.target.cluster.key`", "one side of one flow"),
    ("`<source>-><target>.key`", "both sides of one flow, except `bootstrap.servers`"),
    ("`<alias>.<client>.key`", "one kind of client at a cluster"),
    ("`<alias>.key`", "a cluster"),
    ("the Airflow connection in `<alias>.connection`", "a cluster"),
    (
        "`connectors.<client>.key`, `<client>.key`, `connectors.key`, `key`",
        "all clusters, except `bootstrap.servers`",
    ),
)

_COMMANDS = (
    (
        "`srm-control config check`",
        "every error, every key without effect, flows that conflict; exit code 2 if there is an error",
    ),
    (
        '`srm-control config explain --flow "a->b" KEY`',
        "value, file and line, level, what it overrides, default, meaning",
    ),
    ('`srm-control config show --flow "a->b"`', "all effective values with their origins; secrets are masked"),
    (
        "`srm-control config convert FILE --to srm.properties`",
        "a file converted from an `mm2.properties`, SRM's service properties, Strimzi's `KafkaMirrorMaker2` or "
        "`KafkaConnector` YAML, or connectors in the JSON of Connect's REST API, with comments on what could not be "
        "carried over",
    ),
)

_CLUSTER_KEYS = (
    (
        "`<alias>.bootstrap.servers`",
        "`host:port`, separated by commas. Required for each cluster that a flow uses. `SASL_SSL://host:port` and the "
        "like are taken, too, if `security.protocol` is the same; other prefixes, such as `EXTERNAL://`, say nothing.",
    ),
    (
        "`<alias>.connection`",
        "Airflow connection with the address and credentials of the cluster; see below.",
    ),
    (
        "`<alias>.security.protocol`",
        "`PLAINTEXT` (default), `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.",
    ),
    (
        "`<alias>.ssl.truststore.location`",
        "Trusted CA certificates: a JKS or PKCS12 store with `ssl.truststore.password`, or PEM with "
        "`ssl.truststore.type=PEM`. Or "
        "`ssl.truststore.certificates`: the PEM text itself; or `ssl.ca.location`. Without any of them the "
        "system's CAs are trusted.",
    ),
    (
        "`<alias>.ssl.keystore.location`",
        "The client's certificate chain and key: a JKS or PKCS12 store with `ssl.keystore.password`, or one PEM file "
        "with `ssl.keystore.type=PEM`. Or "
        "`ssl.keystore.certificate.chain` and `ssl.keystore.key`: the PEM texts; or "
        "`ssl.certificate.location` and `ssl.key.location`.",
    ),
    (
        "`<alias>.ssl.key.password`",
        "Password of the key.",
    ),
    (
        "`<alias>.ssl.endpoint.identification.algorithm`",
        "Empty: the broker's host name is not verified against its certificate. Default: it is.",
    ),
    (
        "`<alias>.schema.registry.url`",
        "Addresses of the cluster's schema registry, tried in turn; for flows with `sync.schemas.enabled`, see "
        "[schemas.md](schemas.md). With `/contexts/.<name>` at the end of each, only that context of the registry is "
        "used ([schemas.md](schemas.md#contexts-of-ids)). Addresses with HTTPS are reached by the proxy in "
        "`HTTPS_PROXY`, unless `NO_PROXY` has the host.",
    ),
    (
        "`<alias>.basic.auth.user.info`",
        "`<user>:<password>` for the registry; or in its address. `basic.auth.credentials.source` may be `USER_INFO` "
        "or `URL`. A token: `bearer.auth.token`, with `bearer.auth.credentials.source` `STATIC_TOKEN`. Or with a "
        "prefix: " + ", ".join(f"`{key}`" for key in sorted(REGISTRY_KEYS) if ".auth." in key[16:]) + ".",
    ),
    (
        ", ".join(f"`<alias>.{key}`" for key in sorted(REGISTRY_KEYS) if key.startswith("schema.registry.ssl.")),
        "TLS of the registry, like the cluster's own `ssl.` keys, which do not apply to it.",
    ),
    (
        "`<alias>.ssl.cipher.suites`, `<alias>.ssl.crl.location`",
        "OpenSSL's cipher names; file of revoked certificates.",
    ),
    (
        "`<alias>.sasl.mechanism`",
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `GSSAPI` or `AWS_MSK_IAM`, see below.",
    ),
    (
        "`<alias>.sasl.jaas.config`",
        'The credentials, as in Java: `...ScramLoginModule required username="u" password="p";`. Or `sasl.username`'
        " and `sasl.password`.",
    ),
    (
        "`<alias>.sasl.oauthbearer.token.endpoint.url`",
        "The token endpoint; the client is given by `clientId`, `clientSecret` and `scope` in `sasl.jaas.config`.",
    ),
    (
        "`<alias>.sasl.oauthbearer.token.provider`",
        "`package.module:function`, a Python function that returns tokens, in place of the endpoint or of a login "
        "handler; see [security.md](security.md#tokens-from-a-function).",
    ),
    (
        "`<alias>.https.ca.location`",
        "PEM file of the CAs to trust there, instead of the system's; or `ssl.truststore.location` in"
        " `sasl.jaas.config`, as in Java.",
    ),
    (
        "`<alias>.client.rack`",
        "The rack in which the flow runs, for a source whose brokers let consumers fetch from followers (KIP-392).",
    ),
    (
        "`<alias>.client.id`",
        "The client id, for quotas and broker logs. By default `srm.<source>.<target>` with a suffix for the purpose, "
        "such as `.slot-0`; a name that is set here is used by all clients, so that one quota applies to all of "
        "them.",
    ),
    (
        "`<alias>.request.timeout.ms`",
        "How long to wait for a response; see Copying.",
    ),
    (
        "`<alias>.client.dns.lookup`, `<alias>.reconnect.backoff.ms`, `<alias>.reconnect.backoff.max.ms`, "
        "`<alias>.socket.connection.setup.timeout.ms`, `<alias>.connections.max.idle.ms`, "
        "`<alias>.metadata.max.age.ms`",
        "As in Kafka's clients.",
    ),
)

_AFTER_CLUSTERS = """\
Without the alias a key applies to all clusters that do not set it themselves. A flow may connect to a cluster in its
own way with `<source>-><target>.source.cluster.<key>` and `<source>-><target>.target.cluster.<key>`. Paths must exist
wherever the flow runs: on the Airflow worker and on every Spark executor.

JKS and PKCS12 stores are read when a client is created, whichever of the two `ssl.*.type` says; their keys are
never written to disk without a password. Other store types and login handlers that are Java classes are rejected; the
message has the replacement.

`sasl.mechanism = GSSAPI` (Kerberos, Java's default) takes `sasl.kerberos.service.name` and the options of
`Krb5LoginModule` in `sasl.jaas.config`: `useKeyTab` with `keyTab` and `principal`, or `useTicketCache` with
`ticketCache`; see [security.md](security.md#kerberos).

`sasl.mechanism = AWS_MSK_IAM`, or `OAUTHBEARER` with the login handler of Amazon's Java library, is a login at Amazon
MSK by AWS IAM, with the options of `IAMLoginModule` in `sasl.jaas.config`; it needs the [extra](install.md#extras)
`aws`. See [security.md](security.md#amazon-msk).

`tokenauth="true"` in `sasl.jaas.config` of SCRAM is a login by a delegation token: `username` is its id, `password` its
HMAC. Tokens are neither created nor renewed here; a new one is used from the next task on.

## Airflow connections

`<alias>.connection = kafka_east` takes address and credentials from the Airflow connection `kafka_east`. Its extra is a
JSON object of librdkafka settings, as for Airflow's Kafka provider (`bootstrap.servers`, `security.protocol`,
`sasl.mechanism`, `ssl.ca.location`, ...); without `bootstrap.servers` in it, host and port are the address; login and
password become `sasl.username` and `sasl.password`. Settings of the cluster in the file take precedence. Keep
the password in its own field: Airflow shows an extra to its administrators, and masks only what has *password* or the
like in its key, not what `sasl.jaas.config` contains.

Tasks get it from Airflow, and hand it to the Spark driver in a file that the driver removes as soon as it has read it
([security.md](security.md#the-environment-of-spark)): there are no secrets on a command line, and none in the
environment of Spark's processes. A driver that you submit yourself looks for the variable
`AIRFLOW_CONN_KAFKA_EAST` in its environment; set it there. `srm-control` looks for the same variable, then in the
Airflow of `AIRFLOW_HOME`.

## Secrets

A value may refer to a secret instead of holding it, as with Kafka's config providers:

| reference | value |
| --- | --- |
| `${env:NAME}` | the environment variable `NAME` |
| `${file:/path:key}` | `key` of a properties file |
| `${dir:/path:name}` | the content of the file `name` in a folder |

`config.providers` and `config.providers.<name>.class` define other names for them, and
`config.providers.<name>.param.allowed.paths` or `...param.allowlist.pattern` restrict what they may read. Unlike in
Kafka, which leaves the text unresolved, a reference that cannot be resolved stops the flow. Secrets are never printed.
"""

_OTHER_TOOLS = """\
## Keys of other tools

Every documented key of MirrorMaker 2, Kafka Connect, Kafka's clients, Streams Replication Manager and KIP-382, and what
it does here. None is silently ignored: `srm-control config check` lists each that has no effect. If the key would have
changed the copy or its cost, the log of `refresh_topics` says so once per run ("reported by runs"), and so does the
flow's settings tab. A value that asks for the actual behaviour is not reported by runs.

Settings of Kafka's clients are written with the client's prefix. KIP-382's `cluster.<alias>.<key>` and
`connector.<source>-><target>.<key>` work without their first word, `cluster.<alias>.broker.list` as
`bootstrap.servers`.

| key | here | how, or why not |
| --- | --- | --- |
{rows}
"""

SAMPLE = """\
clusters = east, west
east.bootstrap.servers = east-1:9092, east-2:9092
west.bootstrap.servers = west-1:9092, west-2:9092
east->west.enabled = true
east->west.topics = orders.*, payments
"""

_LEVELS = {
    Level.TOP: "for everything",
    Level.WORKERS: "for all flows (SRM's spelling)",
    Level.CONNECTORS: "for all flows (SRM's spelling)",
    Level.SOURCE: "for flows from this cluster; client keys only",
    Level.CLUSTER: "for flows to this cluster",
    Level.FLOW: "for one flow",
    Level.FLOW_WORKER: "for one flow (SRM's spelling)",
}


def configuration_reference() -> str:
    """The whole page."""
    levels = "\n".join(f"| `{level.value}` | {meaning} |" for level, meaning in _LEVELS.items())
    parts = [
        _INTRODUCTION.format(
            sample=SAMPLE, levels=levels, connection_levels=_pairs(_CONNECTION_LEVELS), commands=_pairs(_COMMANDS)
        ),
        f"## Clusters\n\n| key | meaning |\n| --- | --- |\n{_pairs(_CLUSTER_KEYS)}\n",
        _AFTER_CLUSTERS,
    ]
    sections: dict[str, list[Key]] = {}
    for key in KEYS:
        sections.setdefault(key.section, []).append(key)
    for title, keys in sections.items():
        if not all(key.note for key in keys):
            parts.append(f"## {title}\n\n" + "\n".join(_rows(keys)) + "\n")
    parts.append(_OTHER_TOOLS.format(rows="\n".join(_fates())))
    return "\n".join(parts)


def _fates() -> Iterable[str]:
    listed = {name: found for found in fates() for name in found.names}
    for key in KEYS:  # families, and what no list of another tool has
        if key.note:
            listed.setdefault(key.name, KeyFate((key.name,), "", Fate.NOTHING, key.note, key.matters))
    for found in dict.fromkeys(found for _, found in sorted(listed.items())):
        names = ", ".join(f"`{name}`" for name in found.names)
        told = "; reported by runs" if found.told else ""
        yield f"| {names} | {found.fate}{told} | {_cell(found.why)} |"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"| {left} | {right} |" for left, right in pairs)


def _rows(keys: Iterable[Key]) -> Iterable[str]:
    yield "| key | type | default | meaning | why this default | levels |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for key in keys:
        default = "" if key.default is None else f"`{_cell(key.default)}`"
        meaning = key.doc
        if key.legacy:
            meaning += f" Older name: {', '.join(f'`{name}`' for name in key.legacy)}."
        yield f"| `{key.name}` | {_type(key)} | {default} | {_cell(meaning)} | {_cell(key.reason)} | {_levels(key)} |"


def _type(key: Key) -> str:
    if key.choices:
        words = ", ".join(f"`{choice}`" for choice in key.choices)
        return words if key.kind is Kind.CHOICE else f"list of {words}"
    text = key.kind.value + (f", {key.unit}" if key.unit else "")
    return text if key.minimum is None else f"{text}, at least {key.minimum:g}"


def _levels(key: Key) -> str:
    words = {
        Level.TOP: "top",
        Level.WORKERS: "workers",
        Level.CONNECTORS: "connectors",
        Level.SOURCE: "source",
        Level.CLUSTER: "target",
        Level.FLOW: "flow",
        Level.FLOW_WORKER: "flow worker",
    }
    return ", ".join(words[level] for level in key.levels)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(configuration_reference(), end="")
