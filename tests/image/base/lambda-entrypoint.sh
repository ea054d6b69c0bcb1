#!/bin/sh
# As AWS's: the handler is the only argument, and the emulator stands in for the runtime API where there is none.
[ $# -eq 1 ] || { echo "entrypoint requires the handler name to be the first argument" >&2; exit 142; }
export _HANDLER="$1"
if [ -n "${AWS_LAMBDA_RUNTIME_API:-}" ]; then
    exec /var/runtime/bootstrap
fi
exec /usr/local/bin/aws-lambda-rie /var/runtime/bootstrap
