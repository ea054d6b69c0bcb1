"""`python -m tests.image [--architecture arm64]`: every step from the Dockerfile to a smoked URL, each with its time.

On another processor than this machine's only the image is built and asked once, since all of it is emulated.
"""

from __future__ import annotations

import argparse
import json
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
from tests.image.servers import REGION, LocalAws, ecr_login, free_port, host_name, local_aws, program, registry
from tests.image.steps import BUILT, ROOT, Failed, Steps, run

BEDIVERE = str(ROOT / ".venv" / "bin" / "bedivere")
SAM = str(ROOT / "build" / ".tools" / "sam" / "bin" / "sam")
LARGEST = 420_000_000
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
        with steps.step("sam deploy"):
            outputs = deployed(built, images, sam, parameters)
        with steps.step("bedivere publish, to the bucket of the stack"):
            run(BEDIVERE, "publish", str(BUILT / "database"), outputs["DatasetUri"], environment=aws.environment)
        with steps.step("bedivere smoke, at the deployed URL") as facts:
            api = outputs["McpUrl"].removeprefix("https://").partition(".")[0]
            url = servers.enter_context(host_name(aws, api)) + "/mcp"
            search_url(url, patience=90)
            shown = run(BEDIVERE, "smoke", url, environment=aws.environment)
            facts.append(shown.strip().splitlines()[-1].strip())


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


def deployed(built: Path, images: str, environment: dict[str, str], parameters: tuple[str, ...]) -> dict[str, str]:
    make_bucket("sam-artifacts", environment)
    run(
        SAM,
        "deploy",
        *("--template", str(built), "--stack-name", STACK, "--s3-bucket", "sam-artifacts"),
        *("--image-repository", f"{images}/bedivere", "--capabilities", "CAPABILITY_IAM"),
        *("--no-confirm-changeset", "--no-progressbar", "--region", REGION, *parameters),
        environment=environment,
    )
    shown = run(
        SAM,
        "list",
        "stack-outputs",
        "--stack-name",
        STACK,
        "--output",
        "json",
        "--region",
        REGION,
        environment=environment,
    )
    return {output["OutputKey"]: output["OutputValue"] for output in json.loads(shown[shown.index("[") :])}


if __name__ == "__main__":
    sys.exit(main())
