"""What S3 answers and botocore raises, as one of our codes and a sentence with the cause and the way out."""

# botocore ships no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import re
from typing import Any, Final

from retrieval.errors import BedivereError, ErrorCode

_RIGHTS: Final = {
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListObjectsV2": "s3:ListBucket",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "DeleteObjects": "s3:DeleteObject",
}
"""What a role needs for each call."""

_FAULTS: Final = (
    ("NoSuchBucket", ErrorCode.STORE_NOT_FOUND, "there is no such bucket: check the address and the region"),
    # What the store answers
    (
        "ExpiredToken|TokenRefreshRequired|InvalidToken|RequestExpired",
        ErrorCode.STORE_DENIED,
        "the temporary AWS credentials have expired: get new ones, such as with aws sso login",
    ),
    (
        "InvalidAccessKeyId|SignatureDoesNotMatch",
        ErrorCode.STORE_DENIED,
        "it does not know these AWS credentials: check AWS_PROFILE, the environment or the role",
    ),
    ("RequestTimeTooSkewed", ErrorCode.STORE_DENIED, "the clock of this machine is wrong: set it"),
    (
        "PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException|301",
        ErrorCode.STORE_DENIED,
        "it lies in another region than the one that is set: set AWS_DEFAULT_REGION to the bucket's",
    ),
    # What keeps it from being asked
    (
        "ConfigParseError",
        ErrorCode.SETTING_INVALID,
        "AWS's file of settings or of credentials cannot be read: mend it, or name another in AWS_CONFIG_FILE or "
        "AWS_SHARED_CREDENTIALS_FILE",
    ),
    (
        "InvalidRegionError",
        ErrorCode.SETTING_INVALID,
        "what is set as the region is not the name of one: set AWS_DEFAULT_REGION to one such as eu-west-1",
    ),
    (
        "CertificateBundle",
        ErrorCode.SETTING_INVALID,
        "the file of certificates that is set does not exist or holds none: check AWS_CA_BUNDLE, or ca_bundle in AWS's "
        "file of settings",
    ),
    ("Endpoint", ErrorCode.INVALID_ARGUMENT, "the endpoint that is set for S3 is not an http or https address"),
    (
        "ProfileNotFound",
        ErrorCode.STORE_DENIED,
        "the profile that AWS_PROFILE names does not exist: correct it, or make it with aws configure",
    ),
    (
        "PartialCredentialsError",
        ErrorCode.STORE_DENIED,
        "only half of the AWS credentials is set: set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    (
        ".*(SSO|Login|TokenRetrieval).*",
        ErrorCode.STORE_DENIED,
        "the sign-in to AWS has expired, or there was none: run aws sso login with the same profile",
    ),
    (
        "Unobtainable|.*(Credential|Token|Auth).*",
        ErrorCode.STORE_DENIED,
        "there are no valid AWS credentials: check AWS_PROFILE, the environment or the role",
    ),
    (
        "Invalid.*(Config|Mode|Error).*|ConfigNotFound",
        ErrorCode.SETTING_INVALID,
        "a setting of AWS cannot be used: check those in the environment and in AWS's file of settings",
    ),
    (
        "SSLError",
        ErrorCode.STORE_UNREACHABLE,
        "its certificate is not trusted: check the endpoint, and where a proxy has a certificate of its own, name its "
        "file in AWS_CA_BUNDLE",
    ),
    (
        "ProxyConnectionError",
        ErrorCode.STORE_UNREACHABLE,
        "the proxy did not answer: check HTTPS_PROXY and HTTP_PROXY",
    ),
    (
        "EndpointConnectionError",
        ErrorCode.STORE_UNREACHABLE,
        "there is no connection to it: check the network, and the region or the endpoint that is set",
    ),
)
"""The code of S3's answer or the name of botocore's exception, what it is to us, and what it says of the bucket."""

_REFUSED: Final = frozenset({"AccessDenied", "AllAccessDisabled", "400", "401", "403"})
ABSENT: Final = frozenset({"NoSuchKey", "404"})


class Denied(BedivereError):
    """STORE_DENIED by the policy; `right` is the one that was lacking, where the store has names for them."""

    def __init__(self, sentence: str, right: str | None = None) -> None:
        super().__init__(ErrorCode.STORE_DENIED, sentence)
        self.right = right


def failure(bucket: str, code: str, operation: str = "") -> BedivereError:
    """What is wrong with `bucket`, by the code of S3's answer to `operation` or the name of botocore's exception."""
    for pattern, ours, says in _FAULTS:
        if re.fullmatch(pattern, code):
            return BedivereError(ours, f"Bucket {bucket} cannot be used: {says}.")
    if code in _REFUSED:
        right = _RIGHTS.get(operation)
        return Denied(
            f"Bucket {bucket} refuses access: check the credentials, the policy and the region. "
            + (f"The right that it takes is {right}. " if right else "")
            + "Where the policy does not allow listing, S3 says the same of what is not there.",
            right,
        )
    return BedivereError(
        ErrorCode.STORE_UNREACHABLE,
        f"Bucket {bucket} did not answer, or not in full, after several tries: check the network and the "
        "region, then try again.",
    )


def code_of(error: BaseException) -> str:
    """The code of S3's answer; "" where the error is none of S3's."""
    response: Any = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
