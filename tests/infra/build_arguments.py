"""What `sam build` hands to the Dockerfile of the one function of a template. Run with the Python of sam's environment.

`build_arguments.py TEMPLATE [PARAMETER=VALUE…]` prints JSON.
"""
# samcli is in sam's environment and not in the one that is checked.
# pyright: basic, reportMissingImports=false

import json
import sys

from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider


def main() -> None:
    parameters = dict(argument.split("=", 1) for argument in sys.argv[2:])
    stacks, _ = SamLocalStackProvider.get_stacks(sys.argv[1], parameter_overrides=parameters)
    (function,) = SamFunctionProvider(stacks, ignore_code_extraction_warnings=True).get_all()
    json.dump(function.metadata["DockerBuildArgs"], sys.stdout)


if __name__ == "__main__":
    main()
