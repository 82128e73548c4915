#!/bin/sh
# Two gateways on one PostgreSQL: DATABASE_URL=postgres://... COLLOQUY_HOME=/var/lib/colloquy JWT_SECRET=$(openssl rand -base64 48) ./start.sh
# and `caddy run --config Caddyfile` beside them. COLLOQUY: the command, where it is not in the path.
set -eu
cd "$(dirname "$0")"
trap 'kill 0' INT TERM
${COLLOQUY:-colloquy} serve --config colloquy.yaml --port "${FIRST:-8001}" &
${COLLOQUY:-colloquy} serve --config colloquy.yaml --port "${SECOND:-8002}" &
wait
