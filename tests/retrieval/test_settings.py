"""Settings: names, precedence and what a bad value says."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.errors import BedivereError, ErrorCode
from retrieval.settings import Settings, allowed_range, load_settings, variables


def test_without_any_setting_the_defaults_hold() -> None:
    settings = load_settings()
    assert (settings.database, settings.table, settings.default_limit) == (None, "documents", 20)


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("LANCEDB_PATH", "/data", "database", "/data"),
        ("LANCEDB_TABLE", "notes", "table", "notes"),
        ("LANCEDB_TEXT_COLUMN", "body", "text_column", "body"),
        ("LANCEDB_VECTOR_COLUMN", "v", "vector_column", "v"),
        ("LANCEDB_DEFAULT_LIMIT", "7", "default_limit", 7),
        ("LANCEDB_CONTEXT_BUDGET", "900", "context_budget", 900),
        ("EMBEDDING_MODEL", "m", "embedding_model", "m"),
        ("EMBEDDING_DIMENSIONS", "384", "embedding_dimensions", 384),
        ("LANCELOT_ALLOWED_ORIGINS", "https://a.example, https://b.example", "allowed_origins", None),
        ("LANCELOT_ALLOWED_HOSTS", "a.example", "allowed_hosts", ("a.example",)),
        ("LANCELOT_BASE_PATH", "/docs/", "base_path", "/docs"),
        ("LANCELOT_LOG_LEVEL", "silly", "log_level", "debug"),
        ("LANCELOT_LOG_LEVEL", "warn", "log_level", "warning"),
    ],
)
def test_the_names_that_lancelots_users_know_keep_working(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, field: str, expected: object
) -> None:
    monkeypatch.setenv(variable, value)
    expected = ("https://a.example", "https://b.example") if expected is None else expected
    assert getattr(load_settings(), field) == expected


def test_our_name_wins_over_lancelots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEDB_TABLE", "theirs")
    monkeypatch.setenv("BEDIVERE_TABLE", "ours")
    assert load_settings().table == "ours"


@pytest.mark.parametrize("blank", ["", "   ", "\t"])
def test_a_blank_variable_is_unset_and_hides_nothing(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv("LANCEDB_TABLE", "theirs")
    monkeypatch.setenv("BEDIVERE_TABLE", blank)
    assert load_settings().table == "theirs"


def test_the_fields_own_names_are_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("table", "stray")
    monkeypatch.setenv("database", "/stray")
    settings = load_settings()
    assert (settings.table, settings.database) == ("documents", None)


def test_white_space_around_a_value_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEDIVERE_LOG_QUERIES", " true ")
    monkeypatch.setenv("LANCEDB_TABLE", "notes\n")
    settings = load_settings()
    assert (settings.log_queries, settings.table) == (True, "notes")


def test_white_space_around_a_prefix_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDDING_QUERY_PREFIX", "query: ")
    monkeypatch.setenv("EMBEDDING_DOCUMENT_PREFIX", "  ")
    settings = load_settings()
    assert (settings.embedding_query_prefix, settings.embedding_document_prefix) == ("query: ", None)


@pytest.mark.parametrize(
    ("arn", "valid"),
    [
        ("arn:aws:secretsmanager:eu-west-1:123456789012:secret:bedivere/key-AbCdEf", True),
        ("arn:aws-us-gov:ssm:us-gov-west-1:123456789012:parameter/bedivere/key", True),
        ("arn:aws:s3:::bucket/key", False),
        ("arn:aws:ssm:eu-west-1:123456789012:document/x", False),
        ("sk-a-key-in-the-wrong-variable", False),
    ],
)
def test_the_arn_of_the_key_names_a_secret_or_a_parameter(
    monkeypatch: pytest.MonkeyPatch, arn: str, valid: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY_ARN", arn)
    if valid:
        assert load_settings().openai_api_key_arn == arn
        return
    with pytest.raises(BedivereError) as caught:
        load_settings()
    assert "OPENAI_API_KEY_ARN must be the ARN" in caught.value.sentence
    assert arn not in caught.value.sentence


@pytest.mark.parametrize("file", ["~nosuchuser/settings.toml", "a\0b"])
def test_a_settings_file_that_cannot_be_one_is_told(file: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.environ", {"BEDIVERE_SETTINGS_FILE": file})
        with pytest.raises(BedivereError, match="BEDIVERE_SETTINGS_FILE"):
            load_settings()


def test_the_environment_wins_over_the_file_and_the_caller_over_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('table = "file"\ndefault_limit = 3\nallowed_hosts = ["a.example", "b.example"]\n')
    monkeypatch.setenv("BEDIVERE_SETTINGS_FILE", str(file))
    monkeypatch.setenv("BEDIVERE_TABLE", "environment")
    settings = load_settings(context_budget=600, database=None)
    assert (settings.table, settings.default_limit, settings.context_budget) == ("environment", 3, 600)
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert load_settings(table="caller").table == "caller"


def test_a_users_own_settings_file_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bedivere").mkdir()
    (tmp_path / "bedivere" / "settings.toml").write_text('LANCEDB_TABLE = "mine"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_settings().table == "mine"


def test_nothing_in_the_working_folder_is_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://stranger.example\n")
    (tmp_path / "settings.toml").write_text('openai_base_url = "https://stranger.example"\n')
    monkeypatch.chdir(tmp_path)
    assert load_settings().openai_base_url is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LANCEDB_DEFAULT_LIMIT", "0"),
        ("LANCEDB_DEFAULT_LIMIT", "201"),
        ("LANCEDB_DEFAULT_LIMIT", "ten"),
        ("BEDIVERE_CONTEXT_BUDGET", "499"),
        ("BEDIVERE_MAX_BODY_BYTES", "1"),
        ("BEDIVERE_BASE_PATH", "/a/../b"),
        ("BEDIVERE_BASE_PATH", "/a b"),
        ("BEDIVERE_BASE_PATH", "https://h/docs"),
        ("BEDIVERE_ENDPOINT", "/"),
        ("BEDIVERE_LOG_LEVEL", "loud"),
        ("BEDIVERE_LOG_QUERIES", "perhaps"),
        ("OPENAI_BASE_URL", "ftp://example.com"),
    ],
)
def test_a_bad_value_stops_the_start_with_its_variable_and_its_range(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BedivereError) as raised:
        load_settings()
    field = next(field for field in Settings.model_fields.values() if variable in variables(field))
    assert raised.value.code is ErrorCode.SETTING_INVALID
    assert raised.value.sentence == f"{variable} must be {allowed_range(field)}."


@pytest.mark.parametrize("content", ["tabel = 'x'\n", "= nonsense", 'openai_api_key = "sk-secret'])
def test_a_bad_settings_file_is_told_without_quoting_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content)
    monkeypatch.setenv("BEDIVERE_SETTINGS_FILE", str(file))
    with pytest.raises(BedivereError) as raised:
        load_settings()
    assert raised.value.code is ErrorCode.SETTING_INVALID
    assert "sk-secret" not in str(raised.value)
    assert str(tmp_path) not in str(raised.value)


def test_a_settings_file_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BEDIVERE_SETTINGS_FILE", str(tmp_path / "none.toml"))
    with pytest.raises(BedivereError, match="BEDIVERE_SETTINGS_FILE"):
        load_settings()


def test_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    settings = load_settings()
    assert "sk-secret" not in repr(settings)
    assert "sk-secret" not in settings.model_dump_json()
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == "sk-secret"


def test_every_setting_has_a_variable_a_range_and_a_meaning() -> None:
    for field in Settings.model_fields.values():
        assert variables(field)
        assert allowed_range(field)
        assert field.description


def test_statuses_of_outdated_documents_are_read_in_any_case_and_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEDIVERE_OUTDATED_STATUSES", "Draft, end of life,, draft ,OBSOLETE")
    assert load_settings().outdated_statuses == ("draft", "end of life", "obsolete")


def test_private_collections_are_read_with_their_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEDIVERE_PRIVATE_COLLECTIONS", "hr=hr.read, board papers=board")
    assert load_settings().private_collections == {"hr": "hr.read", "board papers": "board"}


@pytest.mark.parametrize("written", ["hr", "hr=", "=hr.read", "hr=a b", 'hr="x"', "hr=one,hr=two", "hr=one,board"])
def test_what_does_not_say_which_scope_a_collection_takes_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("BEDIVERE_PRIVATE_COLLECTIONS", written)
    with pytest.raises(BedivereError) as caught:
        load_settings()
    assert caught.value.sentence == "BEDIVERE_PRIVATE_COLLECTIONS must be collection=scope, separated by commas."


@pytest.mark.parametrize(
    ("variable", "written"),
    [
        ("BEDIVERE_ACCESS", "open"),
        ("BEDIVERE_CALLER_LIMIT", "often"),
        ("BEDIVERE_JWT_ISSUER", "issuer.example"),
        ("BEDIVERE_JWT_SCOPE_PREFIX", 'a"b'),
        ("BEDIVERE_PUBLIC_URL", "docs.example.com"),
    ],
)
def test_a_way_to_let_callers_in_that_is_none_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, variable: str, written: str
) -> None:
    monkeypatch.setenv(variable, written)
    with pytest.raises(BedivereError) as caught:
        load_settings()
    assert caught.value.sentence.startswith(f"{variable} must be ")
