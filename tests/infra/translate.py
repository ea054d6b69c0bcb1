"""Turns the SAM template into the CloudFormation that AWS would, offline. Run with the Python of sam's environment.

`translate.py TEMPLATE [PARAMETER=VALUE…]` prints JSON. `ImageTag=…` names the image in place of the tag 1.
"""
# samtranslator is in sam's environment and not in the one that is checked.
# pyright: basic, reportMissingImports=false

import json
import sys
from pathlib import Path

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoManagedPolicies:
    """The template names none, and AWS would have to be asked for them."""

    def load(self) -> dict[str, str]:
        return {}


def main() -> None:
    template = yaml_parse(Path(sys.argv[1]).read_text(encoding="utf-8"))
    parameters = dict(argument.split("=", 1) for argument in sys.argv[2:])
    tag = parameters.pop("ImageTag", "1")
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            # What `sam deploy` puts there, once the image is pushed.
            resource["Properties"]["ImageUri"] = f"111122223333.dkr.ecr.eu-central-1.amazonaws.com/bedivere:{tag}"
    json.dump(transform(template, parameters, NoManagedPolicies()), sys.stdout)


if __name__ == "__main__":
    main()
