"""`python -m tests.image [--architecture arm64]`: every step from the Dockerfile to a smoked URL, each with its time.

On another processor than this machine's only the image is built and asked once, since all of it is emulated.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.image import emulation
from tests.image.asking import search_event, search_url
from tests.image.base_image import base_image
from tests.image.engine import Engine, engine
from tests.image.servers import REGION, LocalAws, ecr_login, free_port, local_aws, program, registry, tunnel
from tests.image.steps import BUILT, ROOT, Failed, Steps, run

BEDIVERE = str(ROOT / ".venv" / "bin" / "bedivere")
SAM = str(ROOT / "build" / ".tools" / "sam" / "bin" / "sam")
LARGEST = 330_000_000
# In the image, Docker's names of processors; elsewhere Lambda's.
PLATFORMS = {"x86_64": "amd64", "arm64": "arm64"}
STACK = "bedivere-local"
BUCKET = "bedivere-image"
MEMORY = "1769m"


def main() -> int:
    here = "arm64" if platform.machine() in {"arm64", "aarch64"} else "x86_64"
    parser = argparse.ArgumentParser(prog="python -m tests.image", description=__doc__)
    parser.add_argument("--architecture", choices=sorted(PLATFORMS), default=here)
    architecture: str = parser.parse_args().architecture
    BUILT.mkdir(parents=True, exist_ok=True)
    # So that what was started is ended, too.
    signal.signal(signal.SIGTERM, end)
    try:
        with engine() as docker:
            if architecture == here:
                everything(docker, architecture)
            else:
                one_search(docker, architecture, here)
    except Failed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


def end(signal_number: int, frame: object) -> None:
    del frame
    sys.exit(128 + signal_number)


def everything(docker: Engine, architecture: str) -> None:
    steps = Steps()
    target = PLATFORMS[architecture]
    image = f"bedivere/e2e:{target}"
    with steps.step("stand-in for AWS's base image"):
        base = base_image(docker, target)
    with steps.step("image, from infra/Dockerfile") as facts:
        docker.build(image, ROOT, ROOT / "infra" / "Dockerfile", platform=target, arguments={"BASE_IMAGE": base})
        facts.append(added(docker, image, base))
    with ExitStack() as servers:
        with steps.step("local AWS"):
            aws = servers.enter_context(local_aws(docker.gateway, docker.host))
        with steps.step("documents indexed and published to S3"):
            uri = published(aws)
        with steps.step("image under the emulator, read-only, as Lambda's user") as facts:
            facts += asked_in_container(docker, image, uri, aws, target, patience=60)
        built = BUILT / "sam" / "template.yaml"
        parameters = ("--parameter-overrides", f"Architecture={architecture}", f"BaseImage={base}")
        sam = {**docker.environment, **aws.environment, "DOCKER_HOST": docker.host}
        with steps.step("sam build"):
            run(SAM, "build", "--build-dir", str(built.parent), *parameters, environment=sam, timeout=1800)
        with steps.step("sam local start-api") as facts:
            facts += asked_through_sam_local(built, uri, aws, sam, parameters)
        images = servers.enter_context(registry())
        sam["AWS_ENDPOINT_URL_ECR"] = servers.enter_context(ecr_login(images))
        made = Checkout(images, {**sam, **servers.enter_context(tunnel(aws))}, parameters[1:])
        with steps.step("make deploy DATABASE=, to a new stack") as facts:
            facts.append(last_check(made.deploy("DATABASE="), expected="Nothing is published yet"))
        with steps.step("make deploy") as facts:
            facts.append(last_check(made.deploy(f"DATABASE={BUILT / 'database'}"), expected="claude mcp add"))
        before = live(aws)
        with steps.step("make deploy, nothing changed") as facts:
            facts.append(last_check(made.deploy("DATABASE="), expected="claude mcp add"))
            if live(aws) != before:
                raise Failed(f"the alias went from {before} to {live(aws)}, and nothing was changed")
        with steps.step("make deploy, another RefreshSeconds") as facts:
            facts.append(last_check(made.deploy("DATABASE=", "RefreshSeconds=7"), expected="claude mcp add"))
            facts.append(followed(before, live(aws)))
        with steps.step("make destroy"):
            made.destroy()
            remains(aws)


def one_search(docker: Engine, architecture: str, here: str) -> None:
    steps = Steps()
    target = PLATFORMS[architecture]
    image = f"bedivere/e2e:{target}"
    with steps.step("emulation"):
        emulation.register(target)
    with steps.step("stand-in for AWS's base image"):
        base = base_image(docker, target)
        native_base = base_image(docker, PLATFORMS[here])
    with steps.step("image, from infra/Dockerfile with the packages unpacked on this machine") as facts:
        with emulation.context(docker, target, native_base) as (context, dockerfile):
            docker.build(image, context, dockerfile, platform=target, arguments={"BASE_IMAGE": base})
        facts.append(added(docker, image, base))
    with local_aws(docker.gateway, docker.host) as aws:
        with steps.step("documents indexed and published to S3"):
            uri = published(aws)
        with steps.step("image under both emulators") as facts:
            facts += asked_in_container(docker, image, uri, aws, target, patience=600)


def added(docker: Engine, image: str, base: str) -> str:
    beyond = docker.size(image) - docker.size(base)
    if beyond > LARGEST:
        raise Failed(f"the image adds {beyond / 1e6:.0f} MB to its base, more than {LARGEST / 1e6:.0f}")
    return f"{beyond / 1e6:.0f} MB beyond the base"


def make_bucket(name: str, environment: dict[str, str]) -> None:
    place = f"CreateBucketConfiguration={{'LocationConstraint': {REGION!r}}}"
    run(
        sys.executable,
        "-c",
        f"import boto3; boto3.client('s3').create_bucket(Bucket={name!r}, {place})",
        environment=environment,
    )


def published(aws: LocalAws) -> str:
    database = BUILT / "database"
    shutil.rmtree(database, ignore_errors=True)
    run(BEDIVERE, "index", str(ROOT / "docs"), str(database))
    make_bucket(BUCKET, aws.environment)
    uri = f"s3://{BUCKET}/bedivere"
    run(BEDIVERE, "publish", str(database), uri, environment=aws.environment)
    return uri


def asked_in_container(
    docker: Engine, image: str, uri: str, aws: LocalAws, target: str, *, patience: float
) -> list[str]:
    """Run the image with what Lambda gives a function, and ask it twice."""
    port = free_port()
    variables = {
        "BEDIVERE_DATASET": uri,
        "BEDIVERE_SYNC_FOLDER": "/tmp/bedivere",
        "POWERTOOLS_SERVICE_NAME": STACK,
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(int(patience)),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": MEMORY.rstrip("m"),
        "AWS_ENDPOINT_URL_S3": aws.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
    }
    container = docker.run(
        "run",
        "--detach",
        "--init",
        *("--platform", f"linux/{target}", "--publish", f"127.0.0.1:{port}:8080"),
        *("--read-only", "--tmpfs", "/tmp:size=2048m,mode=1777", "--user", "993:990"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--memory", MEMORY, "--memory-swap", MEMORY),
        *(word for name, value in variables.items() for word in ("--env", f"{name}={value}")),
        *(image, "handler.main.lambda_handler"),
    )
    try:
        hits, first = search_event(f"127.0.0.1:{port}", patience)
        _, again = search_event(f"127.0.0.1:{port}", patience)
    except Failed as failure:
        raise Failed(f"{failure}\n{docker.run('logs', '--tail', '40', container)}") from None
    finally:
        docker.run("rm", "--force", container)
    return [f"{hits} hits", f"first answer {first:.1f} s", f"second {again * 1000:.0f} ms"]


@contextmanager
def started(template: Path, environment: dict[str, str], parameters: tuple[str, ...]) -> Generator[str]:
    port = free_port()
    options = ("--template", str(template), "--host", "127.0.0.1", "--port", str(port), "--skip-pull-image")
    # sam breaks off at an authorizer that hangs on a condition, and knows none for tokens.
    options += ("--disable-authorizer",)
    with program("sam-local", [SAM, "local", "start-api", *options, *parameters], environment):
        yield f"http://127.0.0.1:{port}/mcp"


def asked_through_sam_local(
    built: Path, uri: str, aws: LocalAws, environment: dict[str, str], parameters: tuple[str, ...]
) -> list[str]:
    """sam passes only variables that the template declares, and it knows no bucket: both are written into a copy."""
    text = built.read_text()
    marker = "          POWERTOOLS_SERVICE_NAME:"
    if text.count(marker) != 1:
        raise Failed(f"{built} has no {marker.strip()}")
    local = built.with_name("local.yaml")
    local.write_text(text.replace(marker, f"          AWS_ENDPOINT_URL_S3: {aws.endpoint}\n{marker}"))
    bucket = ("DatasetBucketName=" + uri.removeprefix("s3://").partition("/")[0], "AllowedHosts=*")
    with started(local, environment, (*parameters, *bucket)) as url:
        hits, first = search_url(url, patience=120)
    return [f"{hits} hits", f"first answer {first:.1f} s"]


class Checkout:
    """A copy of the checkout for `make deploy`, whose samconfig.toml names the registry here in place of ECR."""

    def __init__(self, images: str, environment: dict[str, str], parameters: tuple[str, ...]) -> None:
        self._folder = BUILT / "checkout"
        # What the `make` around this was told is not for this one.
        self._environment = {name: value for name, value in environment.items() if not name.startswith("MAKE")}
        self._parameters = parameters
        shutil.rmtree(self._folder, ignore_errors=True)
        for name in ("handler", "infra", "requirements", "retrieval"):
            shutil.copytree(ROOT / name, self._folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in (".dockerignore", "Makefile", "pyproject.toml", "samconfig.toml", "template.yaml"):
            shutil.copy2(ROOT / name, self._folder / name)
        (self._folder / "build").mkdir()
        (self._folder / ".venv").symlink_to(ROOT / ".venv")
        (self._folder / "build" / ".tools").symlink_to(ROOT / "build" / ".tools")
        config = (self._folder / "samconfig.toml").read_text()
        if "resolve_image_repos = true" not in config:
            raise Failed("samconfig.toml does not let SAM make the repository of the image")
        own = config.replace("resolve_image_repos = true", f'image_repository = "{images}/bedivere"')
        (self._folder / "samconfig.toml").write_text(own)

    def deploy(self, database: str, *parameters: str) -> str:
        given = " ".join(("--parameter-overrides", *self._parameters, *parameters))
        return self._make("deploy", database, f"SAM_ARGS={given}")

    def destroy(self) -> None:
        self._make("destroy", typed="y\n" * 5)

    def _make(self, *arguments: str, typed: str = "") -> str:
        return run("make", *arguments, cwd=self._folder, environment=self._environment, timeout=1800, typed=typed)


def last_check(shown: str, *, expected: str) -> str:
    """The verdict of the smoke test in what `make deploy` printed."""
    verdicts = [line.strip() for line in shown.splitlines() if line.strip().endswith("checks passed.")]
    if expected not in shown or len(verdicts) != 1:
        raise Failed(f"neither {expected!r} nor one verdict in:\n{shown[-4000:]}")
    return verdicts[0]


def live(aws: LocalAws) -> tuple[str, str]:
    """The version behind the alias, and the seconds after which that version looks for a newer release."""
    script = (
        "import boto3; client = boto3.client('lambda'); "
        "(name,) = [one['FunctionName'] for one in client.list_functions()['Functions']]; "
        "version = client.get_alias(FunctionName=name, Name='live')['FunctionVersion']; "
        "found = client.get_function_configuration(FunctionName=name, Qualifier=version); "
        "print(version, found['Environment']['Variables']['BEDIVERE_REFRESH_SECONDS'])"
    )
    version, _, seconds = run(sys.executable, "-c", script, environment=aws.environment).strip().partition(" ")
    return version, seconds


def remains(aws: LocalAws) -> None:
    """The function is gone and the dataset is not."""
    script = (
        "import boto3; gone = not boto3.client('lambda').list_functions()['Functions']; s3 = boto3.client('s3'); "
        "(name,) = [one['Name'] for one in s3.list_buckets()['Buckets'] if 'datasetbucket' in one['Name'].lower()]; "
        "print(gone, s3.list_objects_v2(Bucket=name)['KeyCount'] > 0)"
    )
    found = run(sys.executable, "-c", script, environment=aws.environment).strip()
    if found != "True True":
        raise Failed(f"is the function gone, and is the dataset still there? {found}")


def followed(before: tuple[str, str], after: tuple[str, str]) -> str:
    if before[0] == after[0] or after[1] != "7":
        raise Failed(f"version and seconds were {before} and are {after}")
    return f"version {before[0]} with {before[1]} s, then {after[0]} with {after[1]} s"


if __name__ == "__main__":
    sys.exit(main())
