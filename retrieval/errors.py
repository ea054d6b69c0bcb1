"""Every stable error code, in one place, and the one exception that carries them."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """What a caller, an operator or a script may rely on; the sentence beside it may change."""

    # What a caller asked for
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    INVALID_QUERY = "INVALID_QUERY"
    TABLE_NOT_FOUND = "TABLE_NOT_FOUND"
    COLUMN_NOT_FOUND = "COLUMN_NOT_FOUND"
    INVALID_FILTER = "INVALID_FILTER"
    DOCUMENT_NOT_FOUND = "DOCUMENT_NOT_FOUND"
    INVALID_CURSOR = "INVALID_CURSOR"
    CURSOR_STALE = "CURSOR_STALE"
    # What the owner set up
    DATABASE_NOT_SET = "DATABASE_NOT_SET"
    DATABASE_NOT_FOUND = "DATABASE_NOT_FOUND"
    TABLE_UNREADABLE = "TABLE_UNREADABLE"
    TEXT_COLUMN_MISSING = "TEXT_COLUMN_MISSING"
    TOO_MANY_COLUMNS = "TOO_MANY_COLUMNS"
    SETTING_INVALID = "SETTING_INVALID"
    # What the server refuses before MCP sees the request
    HOST_REFUSED = "HOST_REFUSED"
    ORIGIN_REFUSED = "ORIGIN_REFUSED"
    PATH_NOT_FOUND = "PATH_NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    CONTENT_TYPE_REFUSED = "CONTENT_TYPE_REFUSED"
    ACCEPT_REFUSED = "ACCEPT_REFUSED"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    BODY_NOT_JSON = "BODY_NOT_JSON"
    EVENT_REFUSED = "EVENT_REFUSED"
    # Who may call
    UNAUTHORIZED = "UNAUTHORIZED"
    SCOPE_MISSING = "SCOPE_MISSING"
    RATE_LIMITED = "RATE_LIMITED"
    ACCESS_UNAVAILABLE = "ACCESS_UNAVAILABLE"
    KEY_EXISTS = "KEY_EXISTS"
    KEY_NOT_FOUND = "KEY_NOT_FOUND"
    KEYS_DAMAGED = "KEYS_DAMAGED"
    # What the dataset's store gives
    DATASET_LOADING = "DATASET_LOADING"
    DATASET_UNAVAILABLE = "DATASET_UNAVAILABLE"
    DATASET_TOO_LARGE = "DATASET_TOO_LARGE"
    STORE_DENIED = "STORE_DENIED"
    STORE_NOT_FOUND = "STORE_NOT_FOUND"
    STORE_UNREACHABLE = "STORE_UNREACHABLE"
    RELEASE_NOT_FOUND = "RELEASE_NOT_FOUND"
    RELEASE_DAMAGED = "RELEASE_DAMAGED"
    RELEASE_TOO_NEW = "RELEASE_TOO_NEW"
    # What a call may cost
    REPLY_TOO_LARGE = "REPLY_TOO_LARGE"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    # What publishing meets
    DATASET_NOT_WHOLE = "DATASET_NOT_WHOLE"
    PUBLISH_CONFLICT = "PUBLISH_CONFLICT"
    # What the indexer meets
    SOURCE_NOT_FOUND = "SOURCE_NOT_FOUND"
    NOTHING_INDEXED = "NOTHING_INDEXED"
    INDEX_LOCKED = "INDEX_LOCKED"
    TABLE_NOT_OURS = "TABLE_NOT_OURS"
    BUILD_FAILED = "BUILD_FAILED"
    EMBEDDING_NOT_SET = "EMBEDDING_NOT_SET"
    EMBEDDING_FAILED = "EMBEDDING_FAILED"
    EMBEDDING_MISMATCH = "EMBEDDING_MISMATCH"
    # What storing settings meets
    NOT_STORED = "NOT_STORED"
    # What measuring meets
    JUDGEMENTS_INVALID = "JUDGEMENTS_INVALID"
    # What the command line meets
    ADDRESS_UNAVAILABLE = "ADDRESS_UNAVAILABLE"
    ENDPOINT_UNREACHABLE = "ENDPOINT_UNREACHABLE"
    CHECKS_FAILED = "CHECKS_FAILED"
    EXTRA_NOT_INSTALLED = "EXTRA_NOT_INSTALLED"
    # What deploying meets
    PROCESSOR_MISMATCH = "PROCESSOR_MISMATCH"
    PROGRAM_FAILED = "PROGRAM_FAILED"
    # What should not happen
    INTERNAL_ERROR = "INTERNAL_ERROR"


MEANINGS: dict[ErrorCode, str] = {
    ErrorCode.INVALID_ARGUMENT: "An argument is unknown, of the wrong type or out of range; the sentence says which.",
    ErrorCode.INVALID_QUERY: "The query is empty or longer than the limit that the sentence names.",
    ErrorCode.TABLE_NOT_FOUND: "No table of that name; the sentence lists the tables there are.",
    ErrorCode.COLUMN_NOT_FOUND: "No column of that name, or not of a kind that can be searched.",
    ErrorCode.INVALID_FILTER: "A filter names an unknown field or compares it with a value of another kind.",
    ErrorCode.DOCUMENT_NOT_FOUND: "No chunk has that id, or no document that path.",
    ErrorCode.INVALID_CURSOR: "The cursor was not made by this server: begin again without one.",
    ErrorCode.CURSOR_STALE: "The cursor belongs to an older release of the documents: begin again without one.",
    ErrorCode.DATABASE_NOT_SET: "No database is configured: set `LANCEDB_PATH`.",
    ErrorCode.DATABASE_NOT_FOUND: "The configured database folder does not exist or is not a folder.",
    ErrorCode.TABLE_UNREADABLE: "The table's files are damaged, incomplete or of an unknown format: index it again.",
    ErrorCode.TEXT_COLUMN_MISSING: "The table has no text column: set `LANCEDB_TEXT_COLUMN` or pass `textColumn`.",
    ErrorCode.TOO_MANY_COLUMNS: "The table has more columns than can be served.",
    ErrorCode.SETTING_INVALID: "A setting has a value that cannot be used; the sentence names it and its range.",
    ErrorCode.HOST_REFUSED: "The Host header is not allowed: add it to `BEDIVERE_ALLOWED_HOSTS`.",
    ErrorCode.ORIGIN_REFUSED: "The Origin header is not allowed: add it to `BEDIVERE_ALLOWED_ORIGINS`.",
    ErrorCode.PATH_NOT_FOUND: "Nothing is served at that path; the sentence names the endpoint.",
    ErrorCode.METHOD_NOT_ALLOWED: "Only POST is served on the endpoint.",
    ErrorCode.CONTENT_TYPE_REFUSED: "The body must be sent as `application/json`.",
    ErrorCode.ACCEPT_REFUSED: "The Accept header excludes `application/json`, the only kind of answer there is.",
    ErrorCode.BODY_TOO_LARGE: "The request body is larger than `BEDIVERE_MAX_BODY_BYTES`.",
    ErrorCode.BODY_NOT_JSON: "The request body is not one JSON-RPC object.",
    ErrorCode.EVENT_REFUSED: "The Lambda event is not an API Gateway HTTP request.",
    ErrorCode.UNAUTHORIZED: "No key or token came with the request, or none that is good: unknown, revoked or expired.",
    ErrorCode.SCOPE_MISSING: "The key or token is good and lacks the scope that the tool takes; the sentence names it.",
    ErrorCode.RATE_LIMITED: "The key or token was used more often than its limit: wait the seconds of `Retry-After`.",
    ErrorCode.ACCESS_UNAVAILABLE: "Who may call cannot be read now, so nobody is let in; the server's log says why.",
    ErrorCode.KEY_EXISTS: "A key of that name is there already: choose another name, or revoke it first.",
    ErrorCode.KEY_NOT_FOUND: "No key has that name: `bedivere keys list` names them.",
    ErrorCode.KEYS_DAMAGED: "The object that holds the keys is not what `bedivere keys` wrote.",
    ErrorCode.DATASET_LOADING: "The dataset is still being fetched: call again after the seconds that are named.",
    ErrorCode.DATASET_UNAVAILABLE: "The dataset could not be fetched yet; the sentence says why and when it is tried.",
    ErrorCode.DATASET_TOO_LARGE: "The dataset does not fit the disk: enlarge it, on AWS by `EphemeralStorageMb`.",
    ErrorCode.STORE_DENIED: "The store refused access; the sentence says which of credentials, policy or region it is.",
    ErrorCode.STORE_NOT_FOUND: "There is no such bucket or folder: check the address.",
    ErrorCode.STORE_UNREACHABLE: "The store did not answer, or not in full, after several tries.",
    ErrorCode.RELEASE_NOT_FOUND: "Nothing has been published there, or not the release that was named.",
    ErrorCode.RELEASE_DAMAGED: "A release's manifest or part, or `current.json`, is not what was published.",
    ErrorCode.RELEASE_TOO_NEW: "The release was published by a newer Bedivere than this one can read.",
    ErrorCode.REPLY_TOO_LARGE: "The reply is larger than may be sent; the sentence says what to ask for instead.",
    ErrorCode.DEADLINE_EXCEEDED: "The call would have outlived the function's time limit.",
    ErrorCode.DATASET_NOT_WHOLE: "The dataset must not be published as it is; the sentence says what it lacks.",
    ErrorCode.PUBLISH_CONFLICT: "Another publisher changed the current release first; the sentence says to which.",
    ErrorCode.SOURCE_NOT_FOUND: "The folder to index does not exist or is not a folder.",
    ErrorCode.NOTHING_INDEXED: "No document with text was found; the old table, if any, is untouched.",
    ErrorCode.INDEX_LOCKED: "Another `bedivere index` is writing this table.",
    ErrorCode.TABLE_NOT_OURS: "A table that `bedivere index` did not build stands there: choose another `--table`.",
    ErrorCode.BUILD_FAILED: "The new table could not be made whole; the old table, if any, is untouched.",
    ErrorCode.EMBEDDING_NOT_SET: "Embedding was asked for, and no provider is configured: set `OPENAI_API_KEY`.",
    ErrorCode.EMBEDDING_FAILED: "The provider gave no usable vectors; those paid for are kept for a next run.",
    ErrorCode.EMBEDDING_MISMATCH: "The table's vectors are of another model or length than the configured one.",
    ErrorCode.NOT_STORED: "`bedivere init` could not write what it was told; the sentence says where and why.",
    ErrorCode.JUDGEMENTS_INVALID: "Judged queries cannot be read, or name documents that the table does not have.",
    ErrorCode.ADDRESS_UNAVAILABLE: "The server cannot listen on this address or port; the sentence says why.",
    ErrorCode.ENDPOINT_UNREACHABLE: "Nothing answers at the URL that is to be checked; the sentence says why.",
    ErrorCode.CHECKS_FAILED: "The endpoint answered, and some checks found something else than they should.",
    ErrorCode.EXTRA_NOT_INSTALLED: "A part that is installed only on demand is missing; the sentence names it.",
    ErrorCode.PROCESSOR_MISMATCH: "Docker on this machine cannot build an image for the function's processor.",
    ErrorCode.PROGRAM_FAILED: "A program that `make deploy` ran failed; what it printed says why.",
    ErrorCode.INTERNAL_ERROR: "A fault of Bedivere itself; the server's log has its details.",
}


class BedivereError(Exception):
    """A failure whose cause is known: a stable code and one sentence that says the way out.

    The sentence is shown to callers, so it never holds a path of the machine, a secret or a library's text.
    """

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.code = code
        self.sentence = sentence
