"""Every setting: its names, default, range and meaning, in one place.

Order of precedence: what the caller of `load_settings` passes, the environment, the settings file, the default.
An empty or blank variable counts as unset. Names that Lancelot's users know keep working beside ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, cast

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from retrieval.errors import BedivereError, ErrorCode
from retrieval.setting_files import found_settings_file
from retrieval.setting_values import (
    CommaSeparated,
    EndpointPath,
    LogLevel,
    LowerCase,
    PathBoosts,
    PrivateCollections,
    UrlPath,
)

OUTDATED_STATUSES: Final = ("superseded", "archived", "rejected", "withdrawn", "deprecated", "draft")
"""What a document's status begins with that no longer, or not yet, holds."""


def _names(*names: str) -> AliasChoices:
    return AliasChoices(*names)


class Settings(BaseSettings):
    """What a process was told to do. Made once, at start, by `load_settings`; frozen from then on."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, case_sensitive=True
    )

    database: str | None = Field(
        default=None,
        validation_alias=_names("BEDIVERE_DATASET", "LANCEDB_PATH"),
        description=(
            "The LanceDB database folder, or the store of its releases: `s3://BUCKET/PREFIX` or `file:///FOLDER`. "
            "It is only read, and never created."
        ),
        json_schema_extra={"range": "a folder, an s3:// or a file:// address"},
    )
    table: str = Field(
        default="documents",
        min_length=1,
        max_length=200,
        validation_alias=_names("BEDIVERE_TABLE", "LANCEDB_TABLE"),
        description="The table that is searched when a call names none.",
        json_schema_extra={"range": "a table's name, 1 to 200 characters"},
    )
    text_column: str = Field(
        default="text",
        min_length=1,
        validation_alias=_names("BEDIVERE_TEXT_COLUMN", "LANCEDB_TEXT_COLUMN"),
        description="The column that holds the text of a chunk.",
        json_schema_extra={"range": "a column's name"},
    )
    vector_column: str = Field(
        default="vector",
        min_length=1,
        validation_alias=_names("BEDIVERE_VECTOR_COLUMN", "LANCEDB_VECTOR_COLUMN"),
        description="The column that holds the vectors.",
        json_schema_extra={"range": "a column's name"},
    )
    default_limit: int = Field(
        default=20,
        ge=1,
        le=200,
        validation_alias=_names("BEDIVERE_DEFAULT_LIMIT", "LANCEDB_DEFAULT_LIMIT"),
        description="Hits of a search that names no limit.",
        json_schema_extra={"range": "a whole number from 1 to 200"},
    )
    context_budget: int = Field(
        default=8000,
        ge=500,
        le=100_000,
        validation_alias=_names("BEDIVERE_CONTEXT_BUDGET", "LANCEDB_CONTEXT_BUDGET"),
        description="Characters of context that `lancedb_query` returns when a call names no budget.",
        json_schema_extra={"range": "a whole number from 500 to 100000"},
    )
    path_boosts: PathBoosts = Field(
        default={},
        validation_alias=_names("BEDIVERE_PATH_BOOSTS"),
        description=(
            "Prefixes of paths, and what the scores of documents below them are multiplied by for their place among "
            "the hits, such as `guides/=1.2, archive/=0.5`. It orders hits, and brings none in."
        ),
        json_schema_extra={"range": "prefix=factor, separated by commas; factors from 0.1 to 10"},
    )
    outdated_statuses: LowerCase = Field(
        default=OUTDATED_STATUSES,
        validation_alias=_names("BEDIVERE_OUTDATED_STATUSES"),
        description=(
            "Documents whose status begins with one of these are left out unless a call includes them; upper and lower "
            "case are the same. `none` hides none by its status."
        ),
        json_schema_extra={"range": "statuses, separated by commas"},
    )
    openai_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=_names("OPENAI_API_KEY"),
        description="The key of the embeddings provider. Text search needs none. Never logged, never shown.",
        json_schema_extra={"range": "a key"},
    )
    openai_api_key_arn: str | None = Field(
        default=None,
        validation_alias=_names("OPENAI_API_KEY_ARN"),
        description=(
            "The ARN of the Secrets Manager secret or the SSM parameter that holds the key. It is read when the first "
            "vector is needed, and only where `OPENAI_API_KEY` is unset."
        ),
        json_schema_extra={"range": "the ARN of a secret or of an SSM parameter"},
        pattern=r"^arn:[a-z0-9-]+:(secretsmanager:[a-z0-9-]+:\d{12}:secret:|ssm:[a-z0-9-]+:\d{12}:parameter/)[\w/+=.@-]+$",
    )
    openai_api_key_store: Literal["keychain", "file"] | None = Field(
        default=None,
        validation_alias=_names("BEDIVERE_KEY_STORE"),
        description=(
            "Where `bedivere init` put the key: the keychain of the operating system, or a file that its user alone "
            "can read. The key is read when the first vector is needed, and only where `OPENAI_API_KEY` and its ARN "
            "are unset."
        ),
        json_schema_extra={"range": "keychain or file"},
    )
    openai_base_url: str | None = Field(
        default=None,
        validation_alias=_names("OPENAI_BASE_URL"),
        description=(
            "The base URL of an OpenAI-compatible embeddings provider, with its `/v1`. A server of your own may need "
            "no key."
        ),
        json_schema_extra={"range": "a URL that starts with https:// or http://"},
        pattern=r"^https?://\S+$",
    )
    embedding_model: str = Field(
        default="text-embedding-ada-002",
        min_length=1,
        validation_alias=_names("EMBEDDING_MODEL"),
        description="The model that embeds queries; it must be the one the table was embedded with.",
        json_schema_extra={"range": "a model's name"},
    )
    embedding_dimensions: int | None = Field(
        default=None,
        ge=1,
        le=8192,
        validation_alias=_names("EMBEDDING_DIMENSIONS"),
        description=(
            "The length of the vectors to ask the model for. Unset: the model's own; a model whose length is fixed "
            "needs none."
        ),
        json_schema_extra={"range": "a whole number from 1 to 8192"},
    )
    embedding_query_prefix: str | None = Field(
        default=None,
        max_length=1000,
        validation_alias=_names("EMBEDDING_QUERY_PREFIX"),
        description=(
            "What the model wants in front of a question. Unset: what is known of the model, see "
            "[Embeddings](embeddings.md#models-that-want-a-prefix); `none`: nothing."
        ),
        json_schema_extra={"range": "at most 1000 characters, white space kept", "verbatim": True},
    )
    embedding_document_prefix: str | None = Field(
        default=None,
        max_length=1000,
        validation_alias=_names("EMBEDDING_DOCUMENT_PREFIX"),
        description=(
            "What the model wants in front of a document. Unset: what is known of the model; `none`: nothing. "
            "Another prefix makes other vectors, so everything is embedded again."
        ),
        json_schema_extra={"range": "at most 1000 characters, white space kept", "verbatim": True},
    )
    allowed_hosts: CommaSeparated = Field(
        default=(),
        validation_alias=_names("BEDIVERE_ALLOWED_HOSTS", "LANCELOT_ALLOWED_HOSTS"),
        description=(
            "Host headers that are answered, with the port where it is not the scheme's own. Unset: the loopback "
            "names on a loopback address; on Lambda the domain name that API Gateway reports; any host on an open "
            "address, with a warning at start."
        ),
        json_schema_extra={"range": "host names, separated by commas"},
    )
    allowed_origins: CommaSeparated = Field(
        default=(),
        validation_alias=_names("BEDIVERE_ALLOWED_ORIGINS", "LANCELOT_ALLOWED_ORIGINS"),
        description=(
            "Origin headers that are answered, and given CORS headers. A request without an Origin header comes from "
            "no browser and always passes."
        ),
        json_schema_extra={"range": "origins such as https://app.example.com, separated by commas"},
    )
    base_path: UrlPath = Field(
        default="",
        validation_alias=_names("BEDIVERE_BASE_PATH", "LANCELOT_BASE_PATH"),
        description="A path in front of the endpoint that a proxy or a custom domain's mapping adds.",
        json_schema_extra={"range": "a URL path such as /docs"},
    )
    endpoint: EndpointPath = Field(
        default="/mcp",
        validation_alias=_names("BEDIVERE_ENDPOINT"),
        description="The path of the MCP endpoint.",
        json_schema_extra={"range": "a URL path such as /mcp"},
    )
    access: Literal["public", "keys", "jwt", "iam"] = Field(
        default="public",
        validation_alias=_names("BEDIVERE_ACCESS"),
        description=(
            "Who may call over HTTP: anyone, holders of API keys, holders of an issuer's tokens, or whom API Gateway "
            "has let in by IAM. See [Access](access.md)."
        ),
        json_schema_extra={"range": "public, keys, jwt or iam"},
    )
    keys: str | None = Field(
        default=None,
        validation_alias=_names("BEDIVERE_KEYS"),
        description=(
            "Where what is kept of API keys lies: a store, in which it is `keys.json`, or a file. Unset: in the store "
            "of the releases, else `bedivere/keys.json` in the user's configuration folder."
        ),
        json_schema_extra={"range": "an s3:// or a file:// address, or a file"},
    )
    jwt_issuer: str | None = Field(
        default=None,
        validation_alias=_names("BEDIVERE_JWT_ISSUER"),
        description="The issuer of tokens, exactly as its tokens name it; its keys are found by its metadata.",
        json_schema_extra={"range": "an https:// URL, or http:// on a loopback name"},
        pattern=r"^https?://[^\s?#]+$",
    )
    jwt_audience: CommaSeparated = Field(
        default=(),
        validation_alias=_names("BEDIVERE_JWT_AUDIENCE"),
        description="Whom a token must be for: one of these is its `aud`, or its `client_id` where it has no `aud`.",
        json_schema_extra={"range": "audiences, separated by commas"},
    )
    jwt_scope_prefix: str = Field(
        default="",
        max_length=200,
        pattern=r"^[\x21\x23-\x5B\x5D-\x7E]*$",
        validation_alias=_names("BEDIVERE_JWT_SCOPE_PREFIX"),
        description="What the issuer puts before each scope, such as Cognito the name of a resource server and `/`.",
        json_schema_extra={"range": "at most 200 characters without spaces and quotes"},
    )
    public_url: str | None = Field(
        default=None,
        validation_alias=_names("BEDIVERE_PUBLIC_URL"),
        description=(
            "The URL of the endpoint as clients know it, for the metadata of tokens. Unset: what the request's Host "
            "header and the paths above make."
        ),
        json_schema_extra={"range": "a URL that starts with https:// or http://"},
        pattern=r"^https?://[^\s?#]+$",
    )
    caller_limit: str | None = Field(
        default=None,
        validation_alias=_names("BEDIVERE_CALLER_LIMIT"),
        description=(
            "How often each holder of a key or token may ask, in each instance, where the key has no limit of its own."
        ),
        json_schema_extra={"range": "requests in a time, such as 60/min; times are s, min, h and day"},
        pattern=r"^[1-9][0-9]{0,6}/(s|min|h|day)$",
    )
    private_collections: PrivateCollections = Field(
        default={},
        validation_alias=_names("BEDIVERE_PRIVATE_COLLECTIONS"),
        description=(
            "Collections that only callers with a scope see, and that scope, such as `hr=hr.read, board=board`. For "
            "others they are not there; with `access` public they are there for nobody. See "
            "[Access](access.md#private-collections)."
        ),
        json_schema_extra={"range": "collection=scope, separated by commas"},
    )
    max_body_bytes: int = Field(
        default=65_536,
        ge=1024,
        le=4_194_304,
        validation_alias=_names("BEDIVERE_MAX_BODY_BYTES"),
        description="The largest request body that is read; a larger one is answered 413.",
        json_schema_extra={"range": "a whole number from 1024 to 4194304"},
    )
    refresh_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        validation_alias=_names("BEDIVERE_REFRESH_SECONDS"),
        description="Seconds after which a server of releases looks for a newer one.",
        json_schema_extra={"range": "a whole number from 1 to 86400"},
    )
    dataset_wait_seconds: float = Field(
        default=15.0,
        ge=0,
        le=25,
        validation_alias=_names("BEDIVERE_DATASET_WAIT_SECONDS"),
        description="Seconds that a call waits for the first sync before it answers DATASET_LOADING.",
        json_schema_extra={"range": "a number from 0 to 25"},
    )
    sync_folder: str | None = Field(
        default=None,
        validation_alias=_names("BEDIVERE_SYNC_FOLDER"),
        description=(
            "The folder that releases are copied to. Unset: `/tmp/bedivere` on Lambda, elsewhere `bedivere` in the "
            "user's cache folder."
        ),
        json_schema_extra={"range": "a folder"},
    )
    lancedb_api: Literal["auto", "public"] = Field(
        default="auto",
        validation_alias=_names("BEDIVERE_LANCEDB_API"),
        description=(
            "How tables are read. `auto` calls LanceDB's compiled core directly where it is the version that was "
            "tested, which makes a cold start a good deal faster; `public` takes the Python API of LanceDB always, "
            "which the Lambda image leaves out."
        ),
        json_schema_extra={"range": "auto or public"},
    )
    metrics_namespace: str = Field(
        default="Bedivere",
        min_length=1,
        max_length=255,
        pattern=r"^[A-Za-z0-9._/#:-]+$",
        validation_alias=_names("BEDIVERE_METRICS_NAMESPACE"),
        description="The CloudWatch namespace of the metrics that the Lambda handler writes to its log.",
        json_schema_extra={"range": "1 to 255 letters, digits and . _ / # : -"},
    )
    log_level: LogLevel = Field(
        default="info",
        validation_alias=_names("BEDIVERE_LOG_LEVEL", "LANCELOT_LOG_LEVEL"),
        description="The least severe log line that is written.",
        json_schema_extra={"range": "error, warning, info or debug"},
    )
    log_queries: bool = Field(
        default=False,
        validation_alias=_names("BEDIVERE_LOG_QUERIES"),
        description="Write the text of queries to the log. Off, no query is ever logged.",
        json_schema_extra={"range": "true or false"},
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del env_settings, dotenv_settings, file_secret_settings
        # No .env and nothing from the working folder: a client may start the server inside a stranger's repository.
        file = TomlConfigSettingsSource(settings_cls, found_settings_file())
        return (init_settings, _Environment(settings_cls), file)


class _Environment(EnvSettingsSource):
    """The process environment, where a blank variable is an unset one."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        # Only the variables that are documented: the fields' own names are for the settings file.
        fields = settings_cls.model_fields.values()
        known = {name: _is_verbatim(field) for field in fields for name in variables(field)}
        given = {name: value or "" for name, value in self.env_vars.items() if name in known}
        self.env_vars = {
            name: value if known[name] else value.strip() for name, value in given.items() if value.strip()
        }


def variables(field: FieldInfo) -> tuple[str, ...]:
    """The names of the environment variables that set `field`, ours first."""
    alias = field.validation_alias
    return tuple(str(choice) for choice in alias.choices) if isinstance(alias, AliasChoices) else ()


def _is_verbatim(field: FieldInfo) -> bool:
    """Whether white space at the ends of the value belongs to it."""
    extra = cast("dict[str, object]", field.json_schema_extra)
    return bool(extra.get("verbatim"))


def allowed_range(field: FieldInfo) -> str:
    """What `field` may be, in words."""
    extra = cast("dict[str, object]", field.json_schema_extra)
    return str(extra["range"])


def load_settings(**overrides: Any) -> Settings:  # noqa: ANN401 - each is validated as the field it names
    """The settings of this process; `overrides` are by field name and None means not given.

    Raises `BedivereError` SETTING_INVALID with one sentence that names the variable and its range.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise BedivereError(ErrorCode.SETTING_INVALID, _sentence(error, given)) from None
    except (ValueError, OSError):
        # tomllib's own text quotes lines of the file, and a file of settings may hold a key.
        raise BedivereError(ErrorCode.SETTING_INVALID, "The settings file is not a readable TOML file.") from None


def _sentence(error: ValidationError, given: Mapping[str, object]) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    name = str(problem["loc"][0])
    for field_name, field in Settings.model_fields.items():
        names = variables(field)
        if name == field_name or name in names:
            written = field_name if field_name in given else _first_set(names) or f"{field_name} in the settings file"
            return f"{written} must be {allowed_range(field)}."
    return f"The settings file holds an unknown setting {name!r}; see docs/settings.md for those there are."


def _first_set(names: Iterable[str]) -> str | None:
    return next((name for name in names if os.environ.get(name, "").strip()), None)
